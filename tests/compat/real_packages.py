"""Unedited models of Ultralytics and rf-detr, as their packages install: libmsda against stock code.

    real_packages.py FOLDER    where the packages are installed

Weights are random, nothing is downloaded. In float64 results agree to 1e-8. In float32 a difference of one rounding step
doubles from layer to layer, and gradients jump where a point passes from pixel to pixel: outputs agree to 2e-4, gradients
to 1e-2. Prints Markdown: calls of libmsda, and how far outputs and gradients differ, relative to the norm of all.
"""

import importlib.metadata
import os
import sys
import warnings

os.environ.update(YOLO_OFFLINE="true", YOLO_CONFIG_DIR=os.path.join(sys.argv[1], os.pardir), HF_HUB_OFFLINE="1")
sys.path.append(sys.argv[1])
warnings.simplefilter("ignore")

import libmsda.compat  # noqa: E402
import rfdetr  # noqa: E402
import torch  # noqa: E402
from comparison import ALLOWED, compare, scale_weights  # noqa: E402
from ultralytics.nn.tasks import RTDETRDetectionModel  # noqa: E402

IMAGE = (1, 3, 384, 384)


class Unsorted(torch.nn.Module):
    """A model of Ultralytics without the last step, which sorts by score: rounding would change the order."""

    def __init__(self, name):
        super().__init__()
        self.model = RTDETRDetectionModel(f"{name}.yaml", verbose=False)

    def forward(self, samples):
        _sorted, outputs = self.model(samples)
        return outputs


def rf_detr(name):
    return getattr(rfdetr, name)(pretrain_weights=None, device="cpu").model.model


# Each package's model is made by the first; the number is its decoder's layers, each of which calls the operator once.
MODELS = {
    ("ultralytics", "rtdetr-l"): (Unsorted, 6),
    ("ultralytics", "rtdetr-resnet50"): (Unsorted, 6),
    ("rfdetr", "RFDETRNano"): (rf_detr, 2),
}


def main():
    print("| model | calls | float64: outputs | gradients | float32: outputs | gradients |\n|---|---|---|---|---|---|")
    for (package, name), (make, calls) in MODELS.items():
        torch.manual_seed(7)
        model, image = make(name).eval(), torch.rand(IMAGE)
        scale_weights(model, dict(samples=image))
        differences = []
        for dtype, allowed in ((torch.float64, (1e-8, 1e-8)), (torch.float32, (ALLOWED, 1e-2))):
            inputs = dict(samples=image.to(dtype))
            differences += compare(model.to(dtype), inputs, libmsda.compat.functions, calls, allowed)
        cells = [f"{package} {importlib.metadata.version(package)} {name}", str(calls), *map("{:.0e}".format, differences)]
        print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
