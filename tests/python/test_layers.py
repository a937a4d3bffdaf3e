"""The law of layers: a module imports only what is above it, and nothing that need not be there."""

import ast
import pathlib
import subprocess
import sys

import pytest

import libmsda
from hang import HANG_SECONDS

PACKAGE = pathlib.Path(libmsda.__file__).parent
LAYERS = ["_cdef", "_core", "_arrays", "the functions", "jax", "torch", "compat", "onnx"]  # each may import those before it
FRAMEWORKS = {"numpy", "ml_dtypes", "torch", "jax", "cupy", "onnx", "onnxscript", "onnxruntime"}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.name != "_ffi.py")


def layer(parts):
    first = parts[0] if parts else "the functions"
    return LAYERS.index({"_ffi": "_cdef"}.get(first, first) if first in LAYERS else "the functions")


def imports(path, at_import=False):
    """(level, module, names) of each import; at_import leaves out those inside functions."""
    tree = ast.parse(path.read_text())
    nodes = tree.body if at_import else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((0, alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or "", [alias.name for alias in node.names]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_module_imports_only_what_is_above_it(path):
    own = path.relative_to(PACKAGE).with_suffix("").parts
    for level, module, names in imports(path):
        if not level:
            continue
        base = list(own[: len(own) - level])
        for target in [base + module.split(".")] if module else [[*base, name] for name in names]:
            found = layer([part for part in target if part])
            if {"_ffi", "_cdef"} & set(target):
                found = 0
            assert found <= layer(own), f"{'/'.join(own)} imports {'.'.join(target)}"
            assert not (own[0] in ("torch", "compat") and "jax" in target), f"{own} imports jax"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_framework_is_imported_with_a_module(path):
    own = path.relative_to(PACKAGE).parts
    allowed = {"torch": {"torch"}, "compat": {"torch"}, "jax": {"jax", "numpy"}}.get(own[0], set())
    if own[0] == "onnx" and own[-1] not in ("__init__.py", "__main__.py", "_report.py"):
        allowed = {"numpy", "onnx"} | ({"onnxscript", "torch"} if own[-1] == "_export.py" else set())
    found = {module.partition(".")[0] for level, module, _ in imports(path, True) if not level}
    assert not (found & FRAMEWORKS) - allowed
    if own[0] == "_core":
        everywhere = {m.partition(".")[0] for level, m, _ in imports(path) if not level}
        assert not everywhere & FRAMEWORKS
        assert everywhere <= sys.stdlib_module_names | {"cffi"}


def test_importing_libmsda_imports_no_framework():
    code = f"import sys, libmsda; print(sorted({FRAMEWORKS!r} & sys.modules.keys()))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_SECONDS)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr
