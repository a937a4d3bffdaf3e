"""Multi-scale deformable attention (MSDA) on any arrays: a thin layer over the C library libmsda.

    import libmsda
    output = libmsda.forward(value, level_hw, coord, weight)

forward, forward_fused      the operator; forward's text says what it computes
backward, backward_fused    its gradients
Options                     the keywords that the four have in common
Problem, Plan, Handle       the same in steps: describe, choose a kernel once, run many times
Plan.tune                   the kernel that is fastest on arrays of yours, by measure
kernels, explain            what kernels there are, and what each makes of a problem or a call
Error and its subclasses    what goes wrong, with the library's own words

Arrays are of numpy, torch, cupy or JAX; none of them is imported by this package unless it is used.
libmsda.torch has the operator with gradients. `python -m libmsda` prints what is installed.

Every function may be called from any thread. The library runs without the interpreter lock.
"""

from ._core.errors import (
    AbiMismatchError,
    BufferTooSmallError,
    CudaError,
    Error,
    InternalError,
    InvalidArgumentError,
    OutOfMemoryError,
    StalePlanError,
    UnsupportedError,
)
from ._core.handle import KernelInfo
from ._core.library import build_info, library_path, version
from ._core.plan import PlanInfo
from ._core.problem import Problem
from ._functions import (
    FusedGradients,
    Gradients,
    backward,
    backward_fused,
    explain,
    forward,
    forward_fused,
)
from ._options import Options
from ._plan import Handle, Plan, default_handle, kernels

__all__ = [
    "AbiMismatchError",
    "BufferTooSmallError",
    "CudaError",
    "Error",
    "FusedGradients",
    "Gradients",
    "Handle",
    "InternalError",
    "InvalidArgumentError",
    "KernelInfo",
    "Options",
    "OutOfMemoryError",
    "Plan",
    "PlanInfo",
    "Problem",
    "StalePlanError",
    "UnsupportedError",
    "backward",
    "backward_fused",
    "build_info",
    "default_handle",
    "explain",
    "forward",
    "forward_fused",
    "kernels",
    "library_path",
    "version",
]
__version__ = version()

for _name in __all__:  # the public names are of this module, wherever they are written
    if hasattr(globals()[_name], "__module__"):
        globals()[_name].__module__ = __name__
