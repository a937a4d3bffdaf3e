"""libmsda.torch.from_module() on the model of every family: what converts, and the results of the converted models."""

import pytest
from comparison import ALLOWED, relative, run, scale_weights
from families import FAMILIES

from libmsda.torch import from_module


@pytest.mark.parametrize("name", FAMILIES)
def test_family(name):
    family = FAMILIES[name]
    model, inputs = family.tiny()
    scale_weights(model, inputs)
    stock = run(model, inputs)
    with from_module(model) as conversion:
        ours = run(model, inputs)
    if name in ("d_fine", "deimv2"):
        assert [*conversion.left.values()] == ["it has no layer value_proj, output_proj"] * family.calls
    else:
        assert len(conversion.converted) == family.calls and not conversion.left
        assert 0 < max(relative(ours, stock)) < ALLOWED
