"""help() of each public name of libmsda.jax is enough to use it, and the code of docs/jax.md runs."""

import pathlib
import re

import pytest
from documentation import gaps

import libmsda.jax

PUBLIC = [libmsda.jax.forward, libmsda.jax.forward_fused]  # test_module.py has the module, which needs flax


@pytest.mark.parametrize("function", PUBLIC)
def test_help_says_all_that_a_caller_needs(function):
    assert gaps(function) == []


def test_no_other_name_is_public():
    assert libmsda.jax.__all__ == ["MSDeformAttn", *[function.__name__ for function in PUBLIC]]


def test_the_code_of_the_page_runs():
    page = (pathlib.Path(__file__).parents[2] / "docs" / "jax.md").read_text()
    names = {}
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 3 and names["output"].shape == (2, 100, 8, 32)
    assert names["grad_value"].shape == names["value"].shape
