#!/usr/bin/env python3
"""Parses the C declarations of _cdef.py into a Python module: cffi's out-of-line ABI mode.

compile_ffi.py CDEF_FILE OUTPUT_FILE
"""

import runpy
import sys

import cffi

cdef_file, output_file = sys.argv[1:]
ffi = cffi.FFI()
ffi.cdef(runpy.run_path(cdef_file)["CDEF"])
ffi.set_source("libmsda._ffi", None)
ffi.emit_python_code(output_file)
