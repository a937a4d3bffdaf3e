"""python -m libmsda: what is installed, for people and for reports of faults."""

import sys

from . import Error, build_info, kernels, library_path, version


def main() -> int:
    print(f"libmsda {version()}, Python {sys.version.split()[0]}")
    print(f"library: {library_path}")
    print(f"build: {build_info()}")
    try:
        for kernel in kernels():
            runs_on = "the CPU" if not kernel.sm_min else f"sm {kernel.sm_min} and newer"
            if kernel.sm_max:
                runs_on = f"sm {kernel.sm_min} to {kernel.sm_max}"
            print(f"  {kernel.kernel_id}  on {runs_on}")
    except Error as error:
        print(f"kernels: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
