# shellcheck shell=bash
# Functions for profile-guided optimization of the app. Sourced after lib.sh.
#
# A profile says how often the app took each of its branches in the benchmark; pgo.sh writes it. The compiler finds a
# function of a profile by a name with hashes of the compiler and of the function's package. After a new version of any of
# them it would silently find few functions, so the name of the file says for which versions the profile is.

# pgo_profile <target>: prints the path of the profile for this target and the versions of this checkout.
pgo_profile() {
  printf 'workloads/app/pgo/%s-%s.profdata.xz\n' "$1" "$(content_key Cargo.lock Cargo.toml rust-toolchain.toml)"
}

# build_app <target> <argument of cargo>...: compiles the app with optimization, and nothing else. A function has the same
# name with and without a profile only if the features are the same: those of the whole workspace.
build_app() {
  local target=$1
  shift
  cargo build --release --target "$target" "$@" --workspace --bin app
}

# compile_app <target> <argument of cargo>...: compiles the app of a release, by the profile. Without one for these
# versions it says so.
compile_app() {
  local target=$1 profile copy
  shift
  profile=$(pgo_profile "$target")
  if [[ ! -s $profile ]]; then
    say "the app for $target is compiled without a profile, and is slower: there is no $profile, which make pgo writes on such a machine"
    build_app "$target" "$@"
    return
  fi
  # A path that is the same in all checkouts, with the content in its name: cargo does not look into the file.
  copy=$CARGO_TARGET_DIR/pgo/$(content_key "$profile").profdata
  mkdir -p "${copy%/*}"
  xz --decompress --stdout "$profile" >"$copy"
  build_app "$target" --config "target.$target.rustflags=['-Cprofile-use=$copy']" "$@"
}
