# shellcheck shell=bash disable=SC2034 # the variables are for the scripts that include this file
# What tools/setup, tools/demo and tools/check share: where things are, and how they speak.
set -euo pipefail

script=$(realpath "$0")
readonly script
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
readonly source_dir=$PWD
readonly build_dir=$source_dir/build
export PATH="$build_dir/venv/bin:$build_dir/tools/bin:$PATH"

# A compiler cache is used where there is one; cmake/MsdaSettings.cmake says how. Called again after an
# installation. CMake takes the launcher into a folder that was configured without it, too.
use_compiler_cache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
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

# What to compile CUDA kernels for, as CMAKE_CUDA_ARCHITECTURES has it: the GPUs of this machine, and nothing
# where nvidia-smi names none or only such as nvcc 13 has left behind. Features of a GPU's own are asked for
# where it has any; what nvcc 13 does not know yet gets PTX.
cuda_architectures() {
  local capability architectures=()
  for capability in $(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sort -u); do
    [[ $capability =~ ^[0-9]+\.[0-9]$ ]] || continue
    capability=${capability/./}
    ((capability >= 75)) || continue
    case $capability in
      90) architectures+=(90a-real) ;;
      10?) architectures+=(100f-real) ;;
      12?) architectures+=(120f-real) ;;
      1[3-9]? | [2-9]??) architectures+=(120-virtual) ;;
      *) architectures+=("$capability-real") ;;
    esac
  done
  ((${#architectures[@]} == 0)) || printf '%s\n' "${architectures[@]}" | sort -u | paste -s -d ';'
}

# Whether CUDA kernels are compiled for `demo`, `check` or `packages`: as MSDA_CUDA says (ON or OFF); else the tests have
# them and the demonstration where there is a GPU to run them.
wants_cuda() {
  case ${MSDA_CUDA:-AUTO} in
    ON) return 0 ;;
    OFF) return 1 ;;
    AUTO) [[ $1 != demo || -n $(cuda_architectures) ]] ;;
    *) die "MSDA_CUDA is '$MSDA_CUDA'; allowed are AUTO, ON and OFF" ;;
  esac
}

# The comment at the beginning of the script, which is its help.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$script" | grep -v '^shellcheck '; }
# about FUNCTION: the comment behind its first line.
about() { sed -n "s/^$1() {.*# //p" "$script"; }

say() { printf '\n==> %s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}
