"""Multi-scale deformable attention (MSDA) on numpy arrays: a thin layer over the C library libmsda.

    import libmsda
    output = libmsda.forward(value, level_hw, coord, weight)

forward, forward_fused      the operator; forward's text says what it computes
backward, backward_fused    its gradients
Problem, Plan, Handle       the same in steps: describe, choose a kernel once, run many times
Plan.tune                   the kernel that is fastest on arrays of yours, by measure
kernels, explain            what kernels there are, and what each makes of a problem
Error and its subclasses    what goes wrong, with the library's own words

Every function may be called from any thread. The library runs without the interpreter lock.
"""

from ._errors import (
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
from ._functions import FusedGradients, Gradients, backward, backward_fused, forward, forward_fused
from ._library import build_info, library_path, version
from ._plan import Handle, KernelInfo, Plan, PlanInfo, default_handle, explain, kernels
from ._problem import Problem

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
