"""Every fault of plant_faults can be planted: the text that it changes stands once in its file."""

import importlib.machinery
import importlib.util
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LOADER = importlib.machinery.SourceFileLoader("plant_faults", str(ROOT / "tests" / "tools" / "plant_faults"))
plant_faults = importlib.util.module_from_spec(importlib.util.spec_from_loader("plant_faults", LOADER))
sys.modules["plant_faults"] = plant_faults  # where dataclasses look for it
LOADER.exec_module(plant_faults)


@pytest.mark.parametrize("fault", plant_faults.SOURCE_FAULTS, ids=lambda fault: fault.name)
def test_its_text_stands_once(fault):
    assert (ROOT / fault.file).read_text().count(fault.right) == 1
