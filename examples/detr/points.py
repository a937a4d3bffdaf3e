#!/usr/bin/env python3
"""Where libmsda.torch.MSDeformAttn looks on a photograph, before and after it was trained.

The value is the photograph as a pyramid of four levels, the queries are places in it, and the module learns to
tell the colour that is 64 pixels to the right of each. Its points are drawn for three places: before training in
the stars that every new module begins with, then where the colour is.

    points.py [--quick] [--out DIR] [--photo FILE]
"""


import torch
import tqdm
from common import arguments, photograph, plt, save, show
from torch import nn

from libmsda.torch import MSDeformAttn

STRIDES = (4, 8, 16, 32)
COLOURS = ("#cc0000", "#f0c000", "#009e73", "#0060c0")  # of the levels
WIDTH, HEADS, POINTS = 32, 4, 4
SHIFT = 64  # pixels
PLACES = ((130, 110), (250, 470), (380, 300))


class Colours(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, WIDTH)
        self.query = nn.Parameter(torch.zeros(WIDTH))
        self.attention = MSDeformAttn(WIDTH, HEADS, len(STRIDES), POINTS)
        self.answer = nn.Linear(WIDTH, 3)

    def forward(self, places, pyramid, level_hw, return_weights=False):
        """Colours [1,Q,3] at places [Q,2], 0 to 1, and weights [1,Q,M,L,P] where asked for."""
        query = self.query.expand(1, len(places), -1)
        given = query, places[None, :, None], level_hw, self.embed(pyramid)
        output, weights = self.attention(*given, return_weights=True)
        return (self.answer(output), weights) if return_weights else self.answer(output)


def pyramid_of(photo):
    """[1,S,3] and (H, W) of each level: means over squares of pixels."""
    picture = torch.from_numpy(photo).permute(2, 0, 1)[None] / 255
    levels = [nn.functional.avg_pool2d(picture, stride) for stride in STRIDES]
    return torch.cat([level.flatten(2) for level in levels], 2).transpose(1, 2), [tuple(level.shape[2:]) for level in levels]


def train(model, photo, steps):
    """Returns the root of the mean squared error of the last steps' colours."""
    pyramid, level_hw = pyramid_of(photo)
    height, width = photo.shape[:2]
    smooth, make = pyramid[0, : level_hw[0][0] * level_hw[0][1]].view(*level_hw[0], 3), torch.Generator().manual_seed(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in tqdm.trange(steps, desc="training"):
        x = torch.randint(0, width - SHIFT, (512,), generator=make)
        y = torch.randint(0, height, (512,), generator=make)
        wanted = smooth[(y // STRIDES[0]).clamp(max=level_hw[0][0] - 1), (x + SHIFT) // STRIDES[0]]
        places = torch.stack([(x + 0.5) / width, (y + 0.5) / height], -1)
        loss = (model(places, pyramid, level_hw)[0] - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    last = losses[-10:]
    return (sum(last) / len(last)) ** 0.5


@torch.no_grad()
def looked_at(model, photo):
    """Of each of PLACES: x, y in pixels and weight of its points, [Q, M, L, P, 3]."""
    pyramid, level_hw = pyramid_of(photo)
    size = torch.tensor([photo.shape[1], photo.shape[0]])
    places = torch.tensor(PLACES) / size
    _, weights = model(places, pyramid, level_hw, return_weights=True)
    offsets = model.attention.sampling_offsets(model.query).view(HEADS, len(STRIDES), POINTS, 2)
    pixels = places[:, None, None, None] + offsets / torch.tensor(level_hw).flip(1)[:, None]
    return torch.cat([pixels * size, weights[0, ..., None]], -1)


def draw_points(axes, photo, points, title):
    show(axes, photo, title)
    for place, around in zip(PLACES, points):
        for level, colour in enumerate(COLOURS):
            x, y, weight = around[:, level].flatten(0, 1).unbind(-1)
            axes.scatter(x, y, 1500 * weight, colour, alpha=0.8, lw=0)
        axes.plot(*place, "P", color="black", ms=9, mec="white")
        axes.plot(place[0] + SHIFT, place[1], "X", color="black", ms=8, mec="white", mew=0.8)
    axes.set_xlim(0, photo.shape[1])
    axes.set_ylim(photo.shape[0], 0)


def main():
    given = arguments(__doc__)
    photo = photograph(given, 512).copy()
    steps = 30 if given.quick else 400
    torch.manual_seed(4)
    model = Colours()
    figure, axes = plt.subplots(1, 2, figsize=(8, 5.3), layout="constrained")
    before = looked_at(model, photo)
    draw_points(axes[0], photo, before, "a new module")
    error = train(model, photo, steps)
    after = looked_at(model, photo)
    draw_points(axes[1], photo, after, f"after {steps} steps: colours off by {error:.2f} of 1")
    for stride, colour in zip(STRIDES, COLOURS):
        axes[0].scatter([], [], 40, colour, label=f"level of stride {stride}")
    axes[0].plot([], [], "P", color="black", mec="white", ls="", label="query")
    axes[0].plot([], [], "X", color="black", mec="white", ls="", label=f"{SHIFT} pixels to its right")
    figure.legend(loc="outside lower center", ncols=3, fontsize=9)
    figure.suptitle(
        "Sampling points of MSDeformAttn for three queries, as large as their weights. It learns to tell\n"
        f"the colour {SHIFT} pixels to the right of a query.",
        fontsize=10,
    )
    save(figure, given, "points.png")
    near = [near_wanted(points) for points in (before, after)]
    print(f"  within {SHIFT // 2} pixels of the place asked for is {near[0]:.0%} of a head's weight, then {near[1]:.0%}")
    assert near[1] > (near[0] if given.quick else 0.6)


def near_wanted(points):
    """The part of a head's weight that lies within SHIFT / 2 pixels of the place asked for; of the best head."""
    wanted = torch.tensor(PLACES)[:, None, None, None] + torch.tensor([SHIFT, 0])
    near = (points[..., :2] - wanted).norm(dim=-1) <= SHIFT / 2
    return (near * points[..., 2]).sum((2, 3)).mean(0).max().item()


if __name__ == "__main__":
    main()
