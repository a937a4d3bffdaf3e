"""Each copy of another project's file has its package and its SHA-256 in the README of its folder."""
import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(ROOT.glob("plugins/*/third_party"))


def faults(folder):
    rows = dict(re.findall(r"^\| `([^`]+)` \| .+ \| `([0-9a-f]{64})` \|$", (folder / "README.md").read_text(), re.MULTILINE))
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    del files["README.md"]
    found = [f"{name} has no row" for name in files.keys() - rows.keys()]
    found += [f"{name} is not there" for name in rows.keys() - files.keys()]
    found += [f"{name} has another SHA-256" for name in files.keys() & rows.keys()
              if hashlib.sha256(files[name].read_bytes()).hexdigest() != rows[name]]
    return sorted(found)


def test_copies_are_what_their_packages_have():
    assert len(FOLDERS) >= 2
    assert {folder.parent.name: faults(folder) for folder in FOLDERS} == {folder.parent.name: [] for folder in FOLDERS}


def test_a_change_is_found(tmp_path):
    (tmp_path / "a.h").write_text("changed")
    (tmp_path / "b.h").write_text("new")
    (tmp_path / "README.md").write_text(f"| `a.h` | a package | `{'0' * 64}` |\n| `c.h` | a package | `{'0' * 64}` |\n")
    assert faults(tmp_path) == ["a.h has another SHA-256", "b.h has no row", "c.h is not there"]
