# Connects PostgreSQL's programs with the settings of the stack's programs. All of a URL becomes variables: PostgreSQL's programs
# prefer their own reading of it to variables and refuse parameters that the stack's programs know or ignore, and the password
# must not be among the arguments of a process.

# What only a connection string can say. While one program waits for another, its connection carries nothing, and load
# balancers end it after minutes.
connection='keepalives_idle=30 keepalives_interval=10 keepalives_count=3'

# given <name>: prints the value of a variable without the line breaks at the end of many Secrets.
given() {
  local value=${!1:-}
  printf '%s' "${value%"${value##*[!$'\r\n']}"}"
}

# decoded <text>: prints a part of a URL without its escapes. A percent sign may stand for itself.
decoded() { printf '%b' "$(sed 's/\\/\\\\/g; s/%\([0-9A-Fa-f]\{2\}\)/\\x\1/g' <<<"$1")"; }

# set_to <variable> <value>: exports a setting to PostgreSQL's programs if it has a value.
set_to() {
  if [[ -n $2 ]]; then export "$1=$2"; fi
}

# of_url <url>: exports the settings of a URL.
of_url() {
  local pattern='^[a-z]+://(([^/?#]*)@)?(\[[^]]*\]|[^:/?#]*)(:([0-9]*))?(/([^?#]*))?(\?([^#]*))?(#|$)' user host query pairs pair
  [[ $1 =~ $pattern ]] || die "the URL of the database is invalid"
  user=${BASH_REMATCH[2]} host=${BASH_REMATCH[3]} query=${BASH_REMATCH[9]}
  host=${host#\[}
  set_to PGHOST "$(decoded "${host%\]}")"
  set_to PGPORT "${BASH_REMATCH[5]}"
  set_to PGDATABASE "$(decoded "${BASH_REMATCH[7]}")"
  set_to PGUSER "$(decoded "${user%%:*}")"
  if [[ $user == *:* ]]; then set_to PGPASSWORD "$(decoded "${user#*:}")"; fi
  IFS='&' read -ra pairs <<<"$query"
  for pair in "${pairs[@]//+/ }"; do
    if [[ $pair == *=* ]]; then of_parameter "$(decoded "${pair%%=*}")" "$(decoded "${pair#*=}")"; fi
  done
}

# of_parameter <name> <value>: exports the setting of a URL's parameter if the stack's programs know it.
of_parameter() {
  local name
  case $1 in
    host | hostaddr) set_to PGHOST "$2" ;;
    port) set_to PGPORT "$2" ;;
    dbname) set_to PGDATABASE "$2" ;;
    user) set_to PGUSER "$2" ;;
    password) set_to PGPASSWORD "$2" ;;
    sslmode | ssl-mode) set_to PGSSLMODE "${2,,}" ;;
    sslrootcert | ssl-root-cert | ssl-ca) set_to PGSSLROOTCERT "$2" ;;
    sslcert | ssl-cert) set_to PGSSLCERT "$2" ;;
    sslkey | ssl-key) set_to PGSSLKEY "$2" ;;
    options) export PGOPTIONS="${PGOPTIONS:-} $2" ;;
    options\[*\])
      name=${1#*\[}
      export PGOPTIONS="${PGOPTIONS:-} -c ${name%\]}=$2"
      ;;
  esac
}

# set_given <variable> <setting>: exports a setting to PostgreSQL's programs if the stack has it.
set_given() { set_to "$1" "$(given "$2")"; }

# Translates the settings of the stack's programs into those of PostgreSQL's.
connect() {
  local url host
  url=$(given DATABASE_URL)
  if [[ -n $url ]]; then of_url "$url"; fi
  host=$(given DATABASE_HOST)
  host=${host#\[}
  set_to PGHOST "${host%\]}"
  set_given PGPORT DATABASE_PORT
  set_given PGDATABASE DATABASE_NAME
  set_given PGUSER DATABASE_USERNAME
  set_given PGPASSWORD DATABASE_PASSWORD
  set_given PGSSLMODE DATABASE_TLS_MODE
  set_given PGSSLROOTCERT DATABASE_TLS_CA_FILE
  set_given PGSSLCERT DATABASE_TLS_CERT_FILE
  set_given PGSSLKEY DATABASE_TLS_KEY_FILE
  trust
  export PGAPPNAME=shortener-backup PGCONNECT_TIMEOUT=30
}

# Lets PostgreSQL's programs trust the public authorities as well as that of the stack, as the stack's programs do. With any
# file they verify the certificate in the mode `require` too.
trust() {
  local own=${PGSSLROOTCERT:-}
  unset PGSSLROOTCERT
  if [[ ${PGSSLMODE:-} == verify-* ]]; then
    export PGSSLROOTCERT=$work/trusted.crt
    cat /dev/null ${AUTHORITIES:+"$AUTHORITIES"} ${own:+"$own"} >"$PGSSLROOTCERT"
  fi
}

