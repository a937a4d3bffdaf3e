"""Plots as PNG: the same picture as the SVG, twice as large; refused before the work where the command has no Cairo."""

import collections
import subprocess
import xml.etree.ElementTree

import numpy as np
import PIL.Image
import PIL.ImageColor
import pytest

from conftest import binary

PLOTS = {
    "roofline": ["roofline", "--workload", "enc-local,dec", "--dtype", "f16"],
    "bench": ["bench", "--levels", "4x4", "--queries", 3, "--kernels", "all", "--iterations", 3, "--flush-mib", 0],
}

def has_cairo():
    dynamic = subprocess.run(["readelf", "-d", binary()], check=True, capture_output=True, text=True).stdout
    return "libcairo" in dynamic


def places_by_colour(svg):
    """The corners of all shapes of each colour, [N,2]."""
    places = collections.defaultdict(list)
    for shape in svg.iter():
        if shape.tag.endswith("polyline"):
            places[shape.get("stroke")] += [[*map(float, place.split(","))] for place in shape.get("points").split()]
        elif shape.tag.endswith("rect") and shape.get("x"):
            x, y, width, height = (float(shape.get(name)) for name in ("x", "y", "width", "height"))
            places[shape.get("fill")] += [[x, y], [x + width, y + height]]
    return {colour: np.array(rows) for colour, rows in places.items()}


@pytest.mark.parametrize("command", PLOTS)
def test_png(msda, msda_ok, tmp_path, command):
    words = PLOTS[command]
    result = msda(*words, "--plot", "out.png", cwd=tmp_path)
    if not has_cairo():
        assert result.returncode == 2 and not result.stdout
        assert result.stderr == (
            f"msda {command}: error: --plot is 'out.png': this msda was built without Cairo, which draws PNG; "
            ".svg needs nothing\n"
        )
        return
    assert result.returncode == 0, result.stderr
    msda_ok(*words, "--plot", tmp_path / "out.svg")
    svg = xml.etree.ElementTree.parse(tmp_path / "out.svg").getroot()
    picture = PIL.Image.open(tmp_path / "out.png")
    assert picture.format == "PNG"
    assert [2 * float(svg.get(side)) for side in ("width", "height")] == pytest.approx(picture.size, abs=2)
    pixels = np.array(picture.convert("RGB"))
    for colour, places in places_by_colour(svg).items():
        rgb = PIL.ImageColor.getrgb(colour)
        ys, xs = np.nonzero((pixels == rgb).all(axis=2))
        assert len(xs) > 0
        if command == "bench" or len(set(rgb)) == 1:  # two runs take different times, and letters are grey, too
            continue
        for drawn, wanted in ((xs, places[:, 0]), (ys, places[:, 1])):
            assert [drawn.min() / 2, drawn.max() / 2] == pytest.approx([wanted.min(), wanted.max()], abs=3)
