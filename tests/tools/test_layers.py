"""Imports go down: api -> plan -> registry -> families -> engines -> common -> core; plugins import the public header."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# From the lowest. A folder of a family or an engine may use its own files and those of lower layers.
LAYERS = [r"src/core/", r"src/cpu/[^/]+$|kernels/common/", r"(?P<family>kernels/(rows|points|attention))/",
          r"(?P<family>src/cpu/[^/]+|kernels/[^/]+)/",
          r"src/registry\.", r"src/plan/", r"src/api/"]


def layer_of(path):
    for number, pattern in enumerate(LAYERS):
        if match := re.match(pattern, path):
            return number, match.groupdict().get("family")
    return None


def imports():
    """(file, included file) of the library, as paths from the root."""
    files = [*ROOT.glob("src/**/*"), *ROOT.glob("kernels/**/*")]
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        if file.suffix not in {".h", ".cpp", ".cuh", ".inc"} or layer_of(name) is None:
            continue
        for included in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE):
            target = next((path for path in ("src/" + included, included) if (ROOT / path).is_file()), None)
            if target is not None:
                yield name, target


def test_imports_go_down():
    edges = list(imports())
    assert len(edges) > 200
    against = []
    for file, included in edges:
        (high, family), low = layer_of(file), layer_of(included)
        if low is None or low[0] > high or (low[0] == high and low[1] != family):
            against.append((file, included))
    assert against == []


def test_a_layer_knows_no_family():
    assert [edge for edge in imports() if layer_of(edge[0])[0] > 4 and (layer_of(edge[1]) or (0, 0))[1]] == []


def test_a_plugin_includes_the_public_header_and_what_plugins_share():
    files = [file for file in ROOT.glob("plugins/**/*") if file.suffix in {".h", ".cpp"} and "third_party" not in file.parts]
    assert any(file.parent.name == "common" for file in files)
    against = []
    for file in files:
        for included in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE):
            places = (file.parent, file.parent / "third_party", ROOT / "include", ROOT / "plugins")
            target = next((place / included for place in places if (place / included).is_file()), None)
            name = target.resolve().relative_to(ROOT).as_posix() if target else "nowhere"
            own = file.parent.relative_to(ROOT).as_posix() + "/"
            if not name.startswith(("include/", "plugins/common/", own)):
                against.append((file.relative_to(ROOT).as_posix(), included))
    assert against == []
