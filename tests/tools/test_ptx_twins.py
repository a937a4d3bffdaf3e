"""Each function of msda::ptx in kernels/common/ptx.cuh has a twin on the simulated device, and a test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def functions(text: str) -> set[str]:
    """Names that a header defines functions under."""
    return set(re.findall(r"^(?:[\w:<>]+ )*?(?:void|bool|float|std::uint\d+_t) (\w+)\(", text, re.MULTILINE))


def read(pattern: str) -> str:
    return "\n".join(path.read_text() for path in sorted(ROOT.glob(pattern)))


WRAPPERS = functions(read("kernels/common/ptx.cuh").partition("namespace msda::ptx {")[2])


def test_wrappers_are_found():
    assert {"load_global", "convert_f8", "wait_parity", "tensor_load", "multiply_f16_k16", "pin"} <= WRAPPERS


@pytest.mark.parametrize("name", sorted(WRAPPERS))
def test_wrapper_has_a_twin_and_a_test(name):
    assert name in functions(read("tests/simt/ptx/*.h")), "no twin in tests/simt/ptx"
    assert re.search(rf"\bptx::{name}\b", read("tests/ptx/*.cu")), "no case in tests/ptx"
