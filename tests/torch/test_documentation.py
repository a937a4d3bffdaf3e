"""help() of each public name of libmsda.torch and libmsda.compat is enough to use it."""

import inspect
import pathlib
import sys
import typing

import pytest

import libmsda.compat
import libmsda.torch
from libmsda._options import SharedKeywords

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from documentation import gaps, public

PUBLIC = dict(public(libmsda.torch))
del PUBLIC["Conversion"]  # from_module() makes it; nobody else does
PUBLIC |= {name: what for name, what in public(libmsda.compat) if inspect.isfunction(what)}


@pytest.mark.parametrize("name", PUBLIC)
def test_help_says_all_that_a_caller_needs(name):
    assert gaps(PUBLIC[name]) == []


def test_the_program_for_the_type_checker_has_all_public_names():
    program = (pathlib.Path(__file__).parents[1] / "types" / "user.py").read_text()
    assert [name for name in libmsda.torch.__all__ if f"ours.{name}" not in program] == []


def test_keywords_for_type_checkers_are_the_settings():
    assert (*typing.get_type_hints(SharedKeywords),) == libmsda.torch.Settings._fields
