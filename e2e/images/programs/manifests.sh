#!/bin/sh
# manifests.sh <checkout> <folder>: copies the workspace's manifests with empty sources into the folder, so that
# cargo can compile the dependencies from there. Runs in the container that compiles.
set -eu

from=$1
to=$2

# empty <file below the crate>: a library without items, or a program that does nothing.
empty() {
  mkdir -p "$(dirname "$crate/$1")"
  case $1 in
    src/lib.rs) : >"$crate/$1" ;;
    *) echo 'fn main() {}' >"$crate/$1" ;;
  esac
}

cd "$from"
mkdir -p "$to"
cp -r Cargo.toml Cargo.lock .cargo "$to"
find . -mindepth 2 -name Cargo.toml | while IFS= read -r manifest; do
  folder=$(dirname "$manifest")
  crate=$to/$folder
  mkdir -p "$crate"
  cp "$manifest" "$crate"
  for source in src/lib.rs src/main.rs; do
    if [ -e "$folder/$source" ]; then empty "$source"; fi
  done
  # Tests and other targets that the manifest names itself, some of which are not in the context.
  sed -n 's/^path = "\(.*\.rs\)"/\1/p' "$manifest" | while IFS= read -r source; do empty "$source"; done
done
