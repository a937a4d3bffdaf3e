"""help() of each public name of libmsda.jax is enough to use it."""

import pytest
from documentation import gaps

import libmsda.jax

PUBLIC = [libmsda.jax.forward, libmsda.jax.forward_fused]  # test_module.py has the module, which needs flax


@pytest.mark.parametrize("function", PUBLIC)
def test_help_says_all_that_a_caller_needs(function):
    assert gaps(function) == []


def test_no_other_name_is_public():
    assert libmsda.jax.__all__ == ["MSDeformAttn", *[function.__name__ for function in PUBLIC]]
