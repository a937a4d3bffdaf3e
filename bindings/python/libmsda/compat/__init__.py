"""Drop-ins: models of other projects, unedited, on libmsda.

    import libmsda.compat
    with libmsda.compat.enable() as patch:     # patches what is imported already
        model(**inputs).loss.backward()
    print(patch.report())                      # calls, fallbacks with their reason, seconds, kernels

enable            the operator in every project that is imported and known
transformers      in Hugging Face transformers' models
functions         PyTorch functions of mmcv, Ultralytics, rf-detr, GroundingDINO, detrex
extensions        compiled extensions of mmcv and GroundingDINO
compiled_module   the module MultiScaleDeformableAttention of Deformable-DETR, DINO, Mask2Former
Patch, Report     what they return

A call that libmsda does not take runs stock code and is counted with its reason.
"""

from . import _compiled, _functions, _transformers
from ._patch import Patch, Report, Target

__all__ = ["Patch", "Report", "compiled_module", "enable", "extensions", "functions", "transformers"]


def enable() -> Patch:
    """Patches all that is imported and known, but not compiled_module(). str(patch.report()) says what that is.

    LookupError where nothing is: import the model's code first.
    """
    return _started(
        [*_transformers.targets(), *_functions.targets(), *_compiled.targets()],
        "no project with the operator is imported; import the model's code, then enable libmsda.compat",
    )


def transformers() -> Patch:
    """Patches the modeling files of Hugging Face transformers that are imported."""
    return _started(_transformers.targets(), "no modeling file of transformers that has the operator is imported")


def functions() -> Patch:
    """Patches multi_scale_deformable_attn_pytorch and ms_deform_attn_core_pytorch in every imported module."""
    return _started(_functions.targets(), "no imported module has multi_scale_deformable_attn_pytorch or its like")


def extensions() -> Patch:
    """Patches what mmcv's and GroundingDINO's modules hold as their compiled extension."""
    return _started(_compiled.targets(), "neither mmcv.ops nor groundingdino's ms_deform_attn is imported")


def compiled_module() -> Patch:
    """Makes `import MultiScaleDeformableAttention` give libmsda's, until undone; no file is written.

    Call it before the model's code is imported. ImportError, with the file's name, where another is imported.
    """
    return Patch([_compiled.module_target()])


def _started(targets: list[Target], otherwise: str) -> Patch:
    if not targets:
        raise LookupError(otherwise)
    return Patch(targets)
