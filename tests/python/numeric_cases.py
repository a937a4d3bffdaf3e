"""Problems to compute, their exact results, and how far from those the library may be."""

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

import libmsda
import oracle

BF16, F8 = np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)
VALUE_DTYPES = [np.dtype(t) for t in ("float64", "float32", "float16")] + [BF16, F8]
WIDE_DTYPES = VALUE_DTYPES[:-1]

INPUTS = {"sampled": ("coord", "weight"), "fused": ("reference", "offset", "logit")}


@dataclass
class NumericCase:
    """One problem with its inputs already rounded to the types they are given in."""

    level_hw: list
    points: list
    value: np.ndarray
    inputs: tuple  # coord, weight; or reference, offset, logit
    grad_output: np.ndarray
    options: dict = field(default_factory=dict)  # value_border, value_scale

    @property
    def mode(self):
        return "sampled" if len(self.inputs) == 2 else "fused"

    def forward(self, **options):
        function = libmsda.forward if self.mode == "sampled" else libmsda.forward_fused
        return function(
            self.value, self.level_hw, *self.inputs, points=self.points, **self.options, **options
        )

    def backward(self, **options):
        function = libmsda.backward if self.mode == "sampled" else libmsda.backward_fused
        return function(
            self.value,
            self.level_hw,
            *self.inputs,
            self.grad_output,
            points=self.points,
            **self.options,
            **options,
        )

    def exact_forward(self):
        function = oracle.forward if self.mode == "sampled" else oracle.forward_fused
        return function(self.value, self.level_hw, self.points, *self.inputs, **self.options)

    def exact_backward(self):
        function = oracle.backward if self.mode == "sampled" else oracle.backward_fused
        return function(
            self.value, self.level_hw, self.points, *self.inputs, self.grad_output, **self.options
        )

    def float32_bound(self):
        """The documented bound of a float32 kernel, before the rounding of the output."""
        inputs = self.inputs
        if self.mode == "fused":
            inputs = oracle.fused_inputs(self.level_hw, self.points, *inputs)
        return oracle.float32_bound(self.value, self.level_hw, self.points, *inputs, **self.options)


def half_ulp(exact, dtype):
    """Half a unit in the last place of a type at these numbers."""
    info = ml_dtypes.finfo(dtype)
    exponent = np.floor(np.log2(np.maximum(np.abs(exact), float(info.smallest_normal))))
    return 0.5 * np.exp2(exponent - info.nmant)


def assert_close(name, found, exact, bound):
    """Within the bound and half an ulp of the type; NaN exactly where the exact result has one."""
    assert found.shape == exact.shape, name
    wide = found.astype(np.float64)
    assert np.array_equal(np.isnan(wide), np.isnan(exact)), f"{name}: NaN in other places"
    number = np.isfinite(exact)
    infinite = np.isinf(exact)
    assert np.array_equal(wide[infinite], exact[infinite]), f"{name}: infinite in other places"
    error = np.abs(wide - exact)[number]
    allowed = (bound + half_ulp(exact, found.dtype))[number]
    worst = np.argmax(error - allowed) if error.size else 0
    assert (error <= allowed).all(), (
        f"{name}: off by {error[worst]:.3g}, allowed {allowed[worst]:.3g}, "
        f"at {exact[number][worst]}"
    )


def float64_slack(exact):
    """What sums in float64 may differ by, their order being the library's own."""
    number = exact[np.isfinite(exact)]
    return np.full(exact.shape, 1e-12 * (1 + np.abs(number).max(initial=0.0)))


def check_forward(case, kernel):
    output = case.forward(kernel=kernel)
    exact = case.exact_forward()
    reference = kernel.startswith("ref.")
    assert_close(
        f"output by {kernel}",
        output,
        exact,
        float64_slack(exact) if reference else case.float32_bound(),
    )


def check_backward(case, kernel):
    gradients = case.backward(kernel=kernel)
    for name, found, exact in zip(gradients._fields, gradients, case.exact_backward()):
        assert_close(f"grad_{name} by {kernel}", found, exact, float64_slack(exact))


_SIMD_TARGETS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "f8"}


def kernels_of(case):
    """Ids of the kernels that take the case forward."""
    target = _SIMD_TARGETS.get(case.value.dtype.name)
    return [
        kernel.kernel_id
        for kernel in libmsda.kernels()
        if kernel.family == "ref" or (kernel.family == "simd" and f".{target}@" in kernel.kernel_id)
    ]
