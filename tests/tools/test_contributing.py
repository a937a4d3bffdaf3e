"""The checklists of CONTRIBUTING.md name the files that have every family, value type and field of msda_problem."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))

from msda_header import read_header  # noqa: E402

# Not a part of what a maintainer writes for a new type or family: generated, measured, prose and examples.
NOT_WRITTEN = re.compile(r"_cdef\.py$|/bindings\.rs$|\.csv$|\.md$|\.lock$|^docs/|^examples/")
# Set by the library, or made from the arrays that they count.
COUNTS = {"struct_size", "level_count", "point_count", "query_grid_count"}
NOTHING_YET = {"flags"}  # only 0 is allowed


def listed(title, text=None):
    """The paths in a checklist: those of its section, up to the next line that ends in a colon where title does."""
    text = text or (ROOT / "CONTRIBUTING.md").read_text()
    start = text.index(f"{title}\n") + len(title)
    section = re.split(r"\n## |:\n\n", text[start + 2 :])[0]
    items = "\n".join(re.findall(r"^\d+\. (.*?):", section, re.M))
    return re.findall(r"`([\w<>./-]+/[\w<>./-]+)`", items)


def families():
    return re.findall(r"^MSDA_FAMILY\((\w+)\)", (ROOT / "kernels/families.inc").read_text(), re.M)


def dtypes():
    (enum,) = [t for t in read_header().typedefs if t.name == "msda_dtype"]
    return [e.name.removeprefix("MSDA_DTYPE_") for e in enum.enumerators if e.name != "MSDA_DTYPE_NONE"]


def spelled(dtype, beside=()):
    """How a type is written in any of the languages: F8_E4M3, F8E4M3, float8_e4m3fn, and f8 where no other is an f8."""
    short, _, rest = dtype.lower().partition("_")
    floats = short.replace("f", "float")
    is_only = not any(other != dtype and other.lower().startswith(f"{short}_") for other in beside)
    names = [short, floats] if is_only else []
    names += [rf"{short}_?{rest}", rf"{floats}_{rest}\w*"] if rest else []
    names += {"f64": ["double"], "f32": ["float"], "f16": ["__half", "half"]}.get(short, [])
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(names)})(?![a-z0-9])", re.I)


def sources(*patterns):
    """The text of each file that people write, by its path."""
    names = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split():
        if not NOT_WRITTEN.search(name) and (ROOT / name).is_file():
            try:
                yield name, (ROOT / name).read_text()
            except UnicodeDecodeError:
                pass


def expanded(paths, placeholder, names):
    return [path.replace(placeholder, name) for path in paths for name in (names if placeholder in path else [""])]


def missing(path, patterns):
    text = (ROOT / path).read_text()
    return [name for name, pattern in patterns.items() if not re.search(pattern, text)]


def test_a_family_is_one_folder_and_one_line():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = re.split(r"\n## ", text[text.index("## A new family\n") :])[0]
    assert 5 < len(re.findall(r"^\d+\. ", section, re.M)) <= 9
    paths = listed("## A new family")
    assert len(paths) >= 9
    assert [path for path in paths if not path.startswith("kernels/<family>/")] == ["kernels/families.inc"]


def test_the_files_of_a_family_are_there():
    paths = listed("## A new family")
    for path in expanded(paths, "<family>", families()):
        assert (ROOT / path).is_file(), path
    example = [path.replace("kernels/", "tests/families/", 1) for path in paths if not path.endswith("README.md")]
    for path in expanded(example, "<family>", ["example_gpu"]):
        assert (ROOT / path).is_file(), path


def test_every_family_is_in_the_files_that_list_them():
    patterns = {name: rf"\b{name}\b" for name in families()}
    paths = [p for p in listed("## A new family") if "<family>" not in p]
    assert {path: missing(path, patterns) for path in paths} == {path: [] for path in paths}
    not_lists = ("tests/tools/", "kernels/", "tests/simt/planted/")  # bugs are planted in some families
    for name, text in sources("*.cpp", "*.h", "*.inc", "cmake", "tools", "*.py"):
        if not name.startswith(not_lists) and all(re.search(p, text) for p in patterns.values()):
            assert name in [*paths, "tools/lib/document_tables.py"], name


@pytest.mark.parametrize("dtype", dtypes())
def test_every_type_is_in_the_files_that_list_them(dtype):
    paths = listed("Every type is named in:")
    assert len(paths) >= 10
    pattern = {dtype: spelled(dtype, dtypes())}
    assert {path: missing(path, pattern) for path in paths} == {path: [] for path in paths}


def test_files_that_name_a_type_are_listed():
    paths = listed("Every type is named in:") + listed("Some types have code of their own in:")
    paths = expanded(paths, "<type>", ["f32", "f16", "bf16", "f8"])
    assert [path for path in paths if not (ROOT / path).is_file()] == []
    for name, text in sources("*", ":!tests", ":!*/tests/*", ":!CHANGELOG.md"):
        if re.search(r"\bF8|f8\b|F8_", text):
            assert name in paths, f"{name} names a value type and is in no list of CONTRIBUTING.md"


def problem_fields():
    (problem,) = [s for s in read_header().structs if s.name == "msda_problem"]
    return [f.name for f in problem.fields if f.name not in COUNTS | NOTHING_YET]


@pytest.mark.parametrize("path", listed("## A new field of msda_problem"))
def test_every_field_is_in_the_files_that_list_them(path):
    fields = {field: rf"\b{field}\b" for field in problem_fields()}
    assert len(fields) > 20
    assert missing(path, fields) == []


def test_a_field_is_in_at_most_four_places():
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## A new field of msda_problem\n")[1]
    assert len(re.findall(r"^\d+\.", section, re.M)) <= 4
    paths = listed("## A new field of msda_problem")
    for name, text in sources("src", "bindings", "kernels", "tests", ":!tests/abi"):
        if all(re.search(rf"\b{field}\b", text) for field in problem_fields()):
            assert name in paths, f"{name} names every field of msda_problem and is in no list of CONTRIBUTING.md"


def test_one_that_was_forgotten_is_found():
    assert missing("src/core/dtype.h", {"F4": spelled("F4_E2M1"), "F16": spelled("F16")}) == ["F4"]
    assert not spelled("F16").search("bf16") and not spelled("F8_E4M3").search("0xf8a")
    assert spelled("F8_E4M3").search("Dtype::F8E4M3") and spelled("BF16").search("bfloat16")
