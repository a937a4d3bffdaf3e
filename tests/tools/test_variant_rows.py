"""What cmake/MsdaKernels.cmake makes of the rows of a variants.inc, without a compiler."""
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = f"""cmake_minimum_required(VERSION 3.28)
project(rows NONE)
set(MSDA_HAS_CUDA 1)
set(MSDA_CUDA_ARCHITECTURES 75-real 90a-real 100f-real)
include("{ROOT}/cmake/MsdaKernels.cmake")
function(msda_add_cuda_file target folder architecture number kernels)
  msda_row_architectures(chosen "${{architecture}}")
  string(REPLACE "\\n" " " kernels "${{kernels}}")
  message(NOTICE "${{folder}} ${{architecture}} for ${{chosen}}: ${{kernels}}")
endfunction()
add_custom_target(library)
msda_add_families(library families/families.inc)
"""


@pytest.fixture
def configure(tmp_path):
    def run(*rows):
        folder = tmp_path / "families" / "made_up"
        folder.mkdir(parents=True)
        (folder / "made_up.cpp").touch()
        (folder / "variants.inc").write_text("".join(f"{row}\n" for row in rows))
        (tmp_path / "families" / "families.inc").write_text("MSDA_FAMILY(made_up)\n")
        (tmp_path / "CMakeLists.txt").write_text(PROJECT)
        result = subprocess.run(["cmake", "-B", tmp_path / "build", "-S", tmp_path], capture_output=True, text=True)
        lines = [line.strip() for line in result.stderr.splitlines() if line.startswith("families/")]
        return result.returncode == 0, lines, " ".join(result.stderr.split())

    return run


def test_a_row_is_compiled_for_its_architecture(configure):
    passed, lines, _ = configure(
        "// MSDA_VARIANT(type, revision, least compute capability, architecture[, flag])",
        "MSDA_VARIANT(f32, 1, 75, 75)", "MSDA_VARIANT(f16, 1, 90, 90a)", "MSDA_VARIANT(f8, 2, 90, 75, for_scattered_points)")
    assert passed
    assert lines == [
        "families/made_up 75 for 75-real;90a-real;100f-real: MSDA_INSTANTIATE(f32, 1, 75) MSDA_INSTANTIATE(f8, 2, 90)",
        "families/made_up 90a for 90a-real: MSDA_INSTANTIATE(f16, 1, 90)"]


@pytest.mark.parametrize("row, words", [
    ("MSDA_VARIANT(f32, d8, 90)", "cannot read 'MSDA_VARIANT(f32, d8, 90)'"),
    ("MSDA_VARIANT(f32, 1, 90a, 90a)", "sm such as 90, architecture such as 90a"),
    ("MSDA_VARIANT(f32, 1, 80, 90a)", "is offered from 80 on and compiled for 90a, which does not run there")])
def test_a_row_that_cannot_be_is_refused(configure, row, words):
    passed, _, message = configure(row)
    assert not passed
    assert words in message
