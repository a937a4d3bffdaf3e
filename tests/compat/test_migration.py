"""The lines of docs/migration.md that replace old operators compute what these do."""

import pathlib
import re

import pytest
import stand_ins
import torch
from stand_ins import LEVELS, POINTS, STARTS

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "migration.md"
BLOCKS = re.findall(r"```python\n# before: (\w+).*\n((?:.+\n){3})```", PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("_old", "lines"), BLOCKS)
def test_lines(_old, lines):
    value, locations, weights = torch.rand(2, 42, 4, 8), torch.rand(2, 7, 4, 2, POINTS, 2), torch.rand(2, 7, 4, 2, POINTS)
    names = dict(
        value=value,
        value_list=stand_ins.by_level(value),
        value_by_channel=value.permute(0, 2, 3, 1).contiguous(),
        shapes=torch.tensor(LEVELS),
        shapes_list=LEVELS,
        level_start=torch.tensor(STARTS),
        locations=locations,
        locations_of_levels=locations.flatten(3, 4),
        weights=weights,
        weights_of_levels=weights.flatten(3),
        num_points_list=[POINTS] * len(LEVELS),
    )
    exec(lines, names)
    torch.testing.assert_close(names["output"], stand_ins.stock(value, LEVELS, locations, weights))


def test_every_replacement_has_three_lines():
    page = PAGE.read_text(encoding="utf-8")
    assert len(BLOCKS) == page.count("# before: ") == 5
