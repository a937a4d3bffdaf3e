"""Drop-ins: models of other projects, unedited, on libmsda.

    import libmsda.compat
    with libmsda.compat.enable() as patch:     # patches what is imported already
        model(**inputs).loss.backward()
    print(patch.report())                      # calls, fallbacks with their reason, seconds, kernels

enable            the operator in every project that is imported and known
transformers      in Hugging Face transformers' models
functions         Python functions and autograd Functions of mmcv, Ultralytics, rf-detr, GroundingDINO, detrex,
                  RT-DETR, D-FINE, DEIM, Deformable-DETR, DINO and Mask2Former
extensions        compiled extensions of mmcv, GroundingDINO and detrex
compiled_module   the module MultiScaleDeformableAttention of Deformable-DETR, DINO, Mask2Former
Patch, Report     what they return

A call that libmsda does not take runs stock code and is counted with its reason. A function of a known name with
parameters that libmsda does not know is left alone and named in the report.
"""

import importlib.util
import sys
from collections.abc import Callable

from . import _compiled, _functions, _transformers
from ._patch import Found, Patch, Report

__all__ = ["Patch", "Report", "compiled_module", "enable", "extensions", "functions", "transformers"]

_PACKAGES = ("transformers", "mmcv", "ultralytics", "rfdetr", "groundingdino", "detrex")  # others are repositories


def enable() -> Patch:
    """Patches all that is imported and known, but not compiled_module(). str(patch.report()) says what that is.

    LookupError where nothing is: import the model's code first.
    """
    return _started(_PACKAGES, _transformers.find, _find_functions, _compiled.find)


def transformers() -> Patch:
    """Patches the modeling files of Hugging Face transformers that are imported."""
    return _started(("transformers",), _transformers.find)


def functions() -> Patch:
    """Patches the functions and autograd Functions that help(libmsda.compat._functions) lists, in every imported
    module but transformers'."""
    return _started(_PACKAGES[1:], _find_functions)


def extensions() -> Patch:
    """Patches what the modules of mmcv, GroundingDINO and detrex hold as their compiled extension."""
    return _started(("mmcv", "groundingdino", "detrex"), _compiled.find)


def compiled_module() -> Patch:
    """Makes `import MultiScaleDeformableAttention` give libmsda's, until undone; no file is written.

    Call it before the model's code is imported. ImportError, with the file's name, where another is imported.
    """
    return Patch(Found([_compiled.module_target()]))


def _find_functions(found: Found) -> None:
    theirs = _transformers.modules()
    _functions.find([module for name, module in list(sys.modules.items()) if name not in theirs], found)


def _started(packages: tuple[str, ...], *finders: Callable[[Found], None]) -> Patch:
    """A Patch of what the finders find. LookupError, with the state of each package, where that is nothing."""
    found = Found()
    for find in finders:
        find(found)
    patched = {str(target).partition(".")[0] for target in found.targets}
    absent = {package: _state(package) for package in packages if package not in patched}
    if not found.targets:
        reasons = [f"{name} {reason}" for name, reason in (absent | found.skipped).items()]
        raise LookupError(
            f"nothing to patch is imported: {'; '.join(reasons)}. Import the model's code, then enable libmsda.compat"
        )
    return Patch(found, absent)


def _state(package: str) -> str:
    """Why nothing of the package is patched."""
    if package in sys.modules:
        return "is imported, without a module that has the operator"
    return "is not imported" if importlib.util.find_spec(package) else "is not installed"
