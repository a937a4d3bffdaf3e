"""Whether this machine has a GPU that the library must be able to use: asked of the driver's own program and not of
the library, which would otherwise excuse itself."""

import functools
import shutil
import subprocess

# No machine has a device of this number.
NO_DEVICE = 2**31 - 1


@functools.cache
def has_gpu():
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    listed = subprocess.run([program, "-L"], capture_output=True, text=True)
    return listed.returncode == 0 and "GPU 0" in listed.stdout


def must_work(build_info):
    """Of a library with this msda_build_info()."""
    return has_gpu() and "CUDA: none" not in build_info
