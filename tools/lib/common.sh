# shellcheck shell=bash disable=SC2034 # the variables are for the scripts that include this file
# What tools/setup, tools/demo and tools/check share: where things are, and how they speak.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly source_dir=$PWD
readonly build_dir=$source_dir/build
export PATH="$build_dir/venv/bin:$build_dir/tools/bin:$PATH"

# A compiler cache is used where there is one, for nvcc too. Paths count from the source folder and a
# compiler is known by its content, so that every clone shares what one of them compiled. CMake reads the
# launchers when it first configures a folder. Called again after an installation.
use_compiler_cache() {
  command -v ccache >/dev/null || return 0
  export CCACHE_BASEDIR=$source_dir CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
}
use_compiler_cache

# Rust comes as `cargo`, or on Ubuntu with a version in its name; the newest of those is taken. Called again
# after an installation.
cargo=cargo
find_cargo() {
  local newest
  command -v cargo >/dev/null && return
  newest=$(compgen -c cargo-1. | sort -V | tail -n 1 || true)
  [[ -n $newest ]] || return 0
  export CARGO=$newest RUSTC=${newest/cargo/rustc} RUSTDOC=${newest/cargo/rustdoc}
  cargo=$newest
}
find_cargo

say() { printf '\n==> %s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Configures and builds a preset; further arguments go to `cmake --build`.
build_preset() {
  local preset=$1
  shift
  cmake --preset "$preset"
  cmake --build --preset "$preset" "$@"
}
