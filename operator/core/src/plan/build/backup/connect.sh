# Connects PostgreSQL's programs with the settings of the stack's programs.

# given <name>: prints the value of a variable without the line breaks at the end of many Secrets.
given() {
  local value=${!1:-}
  printf '%s' "${value%"${value##*[!$'\r\n']}"}"
}

# decoded <text>: prints a part of a URL without its escapes.
decoded() {
  local text=${1//\\/\\\\}
  printf '%b' "${text//%/\\x}"
}

# set_given <variable> <setting>: exports a setting to PostgreSQL's programs if the stack has it.
set_given() {
  local value
  value=$(given "$2")
  if [[ -n $value ]]; then export "$1=$value"; fi
}

# Translates the settings of the stack's programs into those of PostgreSQL's. The password of a URL must not be among the
# arguments of a process.
connect() {
  local user
  database=$(given DATABASE_URL)
  if [[ $database =~ ^([a-z]+://)([^/?#@]*)@(.*)$ ]]; then
    database=${BASH_REMATCH[1]}${BASH_REMATCH[3]} user=${BASH_REMATCH[2]}
    PGUSER=$(decoded "${user%%:*}")
    export PGUSER
    if [[ $user == *:* ]]; then
      PGPASSWORD=$(decoded "${user#*:}")
      export PGPASSWORD
    fi
  fi
  set_given PGHOST DATABASE_HOST
  set_given PGPORT DATABASE_PORT
  set_given PGDATABASE DATABASE_NAME
  set_given PGUSER DATABASE_USERNAME
  set_given PGPASSWORD DATABASE_PASSWORD
  set_given PGSSLMODE DATABASE_TLS_MODE
  set_given PGSSLROOTCERT DATABASE_TLS_CA_FILE
  set_given PGSSLCERT DATABASE_TLS_CERT_FILE
  set_given PGSSLKEY DATABASE_TLS_KEY_FILE
  if [[ ${PGSSLMODE:-} == verify-full ]]; then export PGSSLROOTCERT=${PGSSLROOTCERT:-system}; fi
  export PGAPPNAME=shortener-backup PGCONNECT_TIMEOUT=30
}

