"""The C library without arrays: handle, plan, problem, errors and the plan cache.

Everything here speaks in addresses, dtype names, element strides, devices and streams. It imports
cffi and the standard library, and no other module of this package but the C declarations.
"""
