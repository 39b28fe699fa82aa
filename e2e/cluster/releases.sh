# shellcheck shell=bash
# Fetches pinned releases. Sourced after lib.sh by the scripts that need one.
# shellcheck disable=SC2154 # cache, cluster_dir and sha256 come from lib.sh

releases=${SHORTENER_RELEASES:-$cluster_dir/tools/releases.txt}

# release <name> <field>: prints version or sum from its line for this machine's platform; fails if there is none.
release() {
  awk -v name="$1" -v field="$2" -v platform="$(host_platform)" '
    $1 == name && ($3 == platform || $3 == "any") { print field == "version" ? $2 : $4; found = 1; exit }
    END { exit !found }' "$releases"
}

release_url() {
  local platform
  platform=$(host_platform)
  awk -v name="$1" '$1 == "url" && $2 == name { print $3 }' "$releases" \
    | sed -e "s|{version}|$(release "$1" version)|g" -e "s|{platform}|$platform|g" \
      -e "s|{system}|${platform%-*}|g" -e "s|{machine}|${platform#*-}|g"
}

# download <address> <file>: downloads it, and retries if the server is busy or silent.
download() {
  curl --fail --location --silent --show-error --retry 5 --retry-connrefused --connect-timeout 20 \
    --speed-limit 1 --speed-time 60 --output "$2" "$1"
}

# fetch_release <name> <file>: downloads it once per version, and accepts it only with the right sum.
fetch_release() {
  local name=$1 file=$2 url wanted found part
  [[ ! -e $file ]] || return 0
  url=$(release_url "$name")
  wanted=$(release "$name" sum)
  mkdir -p "$(dirname "$file")"
  part=$(mktemp "$file.XXXXXX")
  echo "$url"
  download "$url" "$part"
  if [[ $wanted == published ]]; then
    download "$url.sha256" "$part.sum"
    wanted=$(cut -c 1-64 "$part.sum")
    rm -f "$part.sum"
  fi
  found=$("${sha256[@]}" "$part" | cut -c 1-64)
  if [[ $found != "$wanted" ]]; then
    rm -f "$part"
    die "$url has the SHA-256 sum $found, but $wanted is expected" \
      "try again; if the sum differs again, do not use the file: it is not the one that was released, or the sum in ${releases##*/} is wrong"
  fi
  mv "$part" "$file"
}
