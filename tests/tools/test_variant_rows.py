"""What cmake/MsdaKernels.cmake makes of the rows of a variants.inc, without a compiler."""
import re
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
    def run(*rows, chosen="", families=("made_up",)):
        folder = tmp_path / "families" / "made_up"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "made_up.cpp").touch()
        (folder / "variants.inc").write_text("".join(f"{row}\n" for row in rows))
        (tmp_path / "families" / "families.inc").write_text("".join(f"MSDA_FAMILY({name})\n" for name in families))
        (tmp_path / "CMakeLists.txt").write_text(PROJECT)
        result = subprocess.run(["cmake", "-B", tmp_path / "build", "-S", tmp_path, f"-DMSDA_KERNEL_ROWS={chosen}"],
                                capture_output=True, text=True)
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


F32, F16 = "MSDA_VARIANT(f32, 1, 75, 75)", "MSDA_VARIANT(f16, 1, 75, 75)"


def test_sources_find_the_chosen_rows_in_the_build_folder(configure, tmp_path):
    found = tmp_path / "build" / "gen" / "rows" / "made_up.inc"
    for chosen, rows in (("f16", F16), ("", f"{F32}\n{F16}"), ("f(16|8)", F16)):
        passed, lines, _ = configure(F32, F16, chosen=chosen)
        assert passed
        assert found.read_text() == rows + "\n"
        assert ("f32" in lines[0]) == (chosen == "")


def test_a_family_that_no_row_is_chosen_of_keeps_one(configure, tmp_path):
    other = tmp_path / "families" / "other"
    other.mkdir(parents=True)
    (other / "variants.inc").write_text("MSDA_VARIANT(bf16, 1, 80, 80)\nMSDA_VARIANT(f8, 1, 80, 80)\n")
    passed, lines, _ = configure(F32, F16, chosen="f16", families=("made_up", "other"))
    assert passed
    assert [line.split(": ")[1] for line in lines] == ["MSDA_INSTANTIATE(f16, 1, 75)", "MSDA_INSTANTIATE(bf16, 1, 80)"]


def test_rows_that_are_nowhere_are_refused(configure):
    passed, _, message = configure(F32, F16, chosen="f61")
    assert not passed
    assert "MSDA_KERNEL_ROWS is 'f61'; no row of families/*/variants.inc is like that" in message


def test_no_source_has_its_variants_of_the_whole_list():
    for source in sorted((ROOT / "kernels").glob("*/*.[ch]*")):
        text = re.sub(r"^#define MSDA_COSTS .*\n#include \"core/costs.inc\"$", "", source.read_text(), flags=re.M)
        assert "/variants.inc\"" not in text, f"{source}: rows/<family>.inc has the rows that are built"
    assert "#define MSDA_VARIANT(...)\n" in (ROOT / "src/core/costs.inc").read_text()  # constants alone
