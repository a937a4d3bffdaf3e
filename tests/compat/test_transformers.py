"""Unedited transformers models of every family, tiny and random: libmsda against stock code, forward and backward."""

import importlib
import pathlib

import libmsda.compat
import pytest
from comparison import compare, scale_weights
from families import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name):
    family = FAMILIES[name]
    model, inputs = family.tiny()
    scale_weights(model, inputs)
    compare(model, inputs, libmsda.compat.transformers, family.calls)


def test_a_model_with_nearest_sampling():
    """Its offsets have no gradient, with libmsda as with stock code: an optimizer leaves them alone."""
    model, inputs = FAMILIES["rt_detr_v2"].tiny(decoder_method="discrete")
    scale_weights(model, inputs)
    compare(model, inputs, libmsda.compat.transformers, 2)


def test_every_modeling_file_with_the_operator_is_among_the_families():
    """A family that a newer transformers brings is found by the names that its file defines."""
    names = ("class MultiScaleDeformableAttention(", "def multi_scale_deformable_attention")
    root = importlib.import_module("transformers.models").__path__[0]
    present = {
        path.parent.name
        for path in pathlib.Path(root).glob("*/modeling_*.py")
        if any(name in path.read_text(encoding="utf-8") for name in names)
    }
    assert present == set(FAMILIES)
