"""Arrays of other packages as the C library sees them: address, shape, strides, dtype and device.

kind_of(array) finds the adapter of an array's package: numpy, torch, cupy, JAX, or anything that
speaks DLPack or `__cuda_array_interface__`. An adapter imports its package only when one of its
arrays is there, so it is imported already.
"""

from .kinds import Kind, kind_of
from .view import View, addressable

__all__ = ["Kind", "View", "addressable", "kind_of"]
