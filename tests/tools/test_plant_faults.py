"""Every fault of plant_faults can be planted: the text that it changes stands once in its file."""

import pathlib
import runpy

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FAULTS = runpy.run_path(str(ROOT / "tests" / "tools" / "plant_faults"))["SOURCE_FAULTS"]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_its_text_stands_once(fault):
    assert (ROOT / fault.file).read_text().count(fault.right) == 1
