"""help() of each public name is enough to use it."""

import dataclasses
import pathlib
import typing

import pytest

import libmsda
from documentation import gaps, public
from libmsda._options import Keywords

PUBLIC = dict(public(libmsda))


@pytest.mark.parametrize("name", PUBLIC)
def test_help_says_all_that_a_caller_needs(name):
    assert gaps(PUBLIC[name]) == []


def test_gaps_are_seen():
    def bare(value, scale: float, *, out=None) -> int:
        """Takes a value.

        Raises nothing.
        """

    assert gaps(bare) == ["scale", "out", "the type of value", "the type of out", "Returns"]
    assert gaps(lambda: 0) == ["a docstring"]
    assert len(PUBLIC) > 40 and "Plan.tune" in PUBLIC and "Problem.inputs" in PUBLIC


def test_the_program_for_the_type_checker_has_all_public_names():
    program = (pathlib.Path(__file__).parents[1] / "types" / "user.py").read_text()
    assert [name for name in libmsda.__all__ if f"libmsda.{name}" not in program] == []


def test_keywords_for_type_checkers_are_those_of_options():
    fields = {f.name: f.type for f in dataclasses.fields(libmsda.Options) if f.init}
    assert typing.get_type_hints(Keywords) == fields
