"""What the examples beside this file share: their arguments, the photograph, the picture's file."""

import argparse
import pathlib

import matplotlib

matplotlib.use("Agg")

import matplotlib.cbook
import matplotlib.pyplot as plt
import numpy as np
import PIL.Image
import torch

BLUE, ORANGE = "#0072b2", "#e69f00"


def arguments(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small form, in seconds")
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("build/detr"), help="folder for the picture (default: %(default)s)"
    )
    parser.add_argument("--photo", type=pathlib.Path, help="a photograph; default: Grace Hopper, which matplotlib ships")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def photograph(given, width):
    """[H, W, 3] uint8, as wide as that."""
    file = given.photo or matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    photo = PIL.Image.open(file).convert("RGB")
    return np.asarray(photo.resize((width, round(width * photo.height / photo.width))))


def show(axes, photo, title):
    """The photograph, pale and grey, so that what is drawn over it can be seen."""
    axes.imshow(photo.mean(-1), cmap="gray", alpha=0.4)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_title(title, fontsize=10)


def save(figure, given, name):
    """Writes the picture with 256 colours, for a small file."""
    file = given.out / name
    figure.savefig(file, dpi=100)
    plt.close(figure)
    octree, no_dither = PIL.Image.Quantize.FASTOCTREE, PIL.Image.Dither.NONE  # keeps the few pixels of a rare colour
    PIL.Image.open(file).convert("RGB").quantize(256, octree, dither=no_dither).save(file, optimize=True)
    print(f"  {file}: {file.stat().st_size // 1024} KiB")


def standardize(model, *inputs):
    """Random weights with which every linear layer and convolution has outputs of standard deviation 1: as they are
    initialised, a deep model's scores hardly depend on the picture."""

    def rescale(layer, _inputs, output):
        deviation = output.std()
        layer.weight.data /= deviation
        return output / deviation

    layers = [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear | torch.nn.Conv2d)]
    for layer in layers:
        torch.nn.init.normal_(layer.weight, std=layer.weight[0].numel() ** -0.5)
        if layer.bias is not None:
            torch.nn.init.zeros_(layer.bias)
    hooks = [layer.register_forward_hook(rescale) for layer in layers]
    with torch.no_grad():
        model(*inputs)
    for hook in hooks:
        hook.remove()


def randomize(model, spread):
    """Random weights of the linear layers named in `spread`, which has the deviation of their outputs: as they are
    initialised, offsets and logits do not depend on the picture, and the boxes hardly on the attention."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            for layer, deviation in spread.items():
                if f".{layer}." in name and name.endswith(".weight"):
                    parameter.normal_(std=deviation / parameter.shape[1] ** 0.5)
