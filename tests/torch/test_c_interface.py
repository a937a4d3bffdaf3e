"""200 random problems through libmsda.torch and through the C interface itself: the same bits."""

import math

import numpy as np
import pytest
import torch

import libmsda
import libmsda.torch as ours
from libmsda._core.errors import check
from libmsda._core.library import ffi, lib
from problems import DEVICES

CODES = {
    torch.float64: lib.MSDA_DTYPE_F64,
    torch.float32: lib.MSDA_DTYPE_F32,
    torch.float16: lib.MSDA_DTYPE_F16,
    torch.bfloat16: lib.MSDA_DTYPE_BF16,
    torch.float8_e4m3fn: lib.MSDA_DTYPE_F8_E4M3,
}
WIDE = list(CODES)[:4]
SIZES = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}


class Case:
    """levels, points of each level, inputs by name, grad_output, the type of the output, value_scale."""

    def __init__(self, seed, device):
        rng = np.random.default_rng([45, seed])
        pick = lambda choices: choices[rng.integers(len(choices))]
        self.levels = [tuple(map(int, pair)) for pair in rng.integers(1, 9, (rng.integers(1, 4), 2))]
        self.points = [int(p) for p in rng.integers(0, 5, len(self.levels))]
        batch, queries, heads = map(int, rng.integers(1, 6, 3))
        if seed % 20 == 0:
            batch, queries = pick([(0, queries), (batch, 0)])
        width, fused = int(pick([1, 3, 8, 16, 32, 64])), bool(rng.integers(2))
        kinds = pick(list(CODES)), *rng.choice(WIDE, 3)
        tokens, total = sum(map(math.prod, self.levels)), sum(self.points)

        def draw(kind, shape, low, high):
            """Uniform, a twentieth of it no numbers in one case of 3; the outer axes lie in one of 4 ways."""
            array = rng.uniform(low, high, shape)
            if seed % 3 == 0:
                where = rng.random(shape) < 0.05
                array[where] = rng.choice([np.nan, np.inf, -np.inf, 1e30], where.sum())
            tensor = torch.from_numpy(array).to(kind)
            way = rng.integers(4)
            if way == 1:
                tensor = tensor.transpose(1, 2).contiguous().transpose(1, 2)
            elif way == 2:
                tensor = torch.cat([tensor, tensor], 1)[:, : shape[1]]
            elif way == 3 and shape[0] > 1:
                tensor = tensor[:1].expand(shape)
            return tensor.to(device)

        self.inputs = {"value": draw(kinds[0], (batch, tokens, heads, width), -1, 1)}
        points, weights = (batch, queries, heads, total, 2), (batch, queries, heads, total)
        if fused:
            boxes = int(pick([2, 4]))
            shape = batch, queries, len(self.levels), boxes
            self.inputs["reference"] = draw(kinds[1], shape, 0, 1).contiguous()
            self.inputs["offset"] = draw(kinds[1], points, -4, 4)
            self.inputs["logit"] = draw(kinds[2], weights, -3, 3)
        else:
            self.inputs["coord"] = draw(kinds[1], points, -0.2, 1.2)
            self.inputs["weight"] = draw(kinds[2], weights, -1, 1)
        self.out_dtype = kinds[3]
        self.grad_output = draw(kinds[3], (batch, queries, heads, width), -1, 1).contiguous()
        self.value_scale = None
        if kinds[0] is torch.float8_e4m3fn:
            self.value_scale = torch.rand(heads, device=device) + 0.5

    def flat(self):
        return [size for pair in self.levels for size in pair]

    def run_c(self, handle, operation, given, new):
        """Fills the tensors `new`, both by their names in msda_tensors."""
        level_hw = ffi.new("int32_t[]", self.flat())
        counts = ffi.new("int32_t[]", self.points)
        value, point = given["value"], given.get("coord", given.get("offset"))
        weight = given.get("weight", given.get("logit"))
        fused = "reference" in given
        problem = ffi.new(
            "msda_problem*",
            {
                "struct_size": ffi.sizeof("msda_problem"),
                "level_hw": level_hw,
                "point_counts": counts,
                "level_count": len(self.levels),
                "batch": value.shape[0],
                "query_count": point.shape[1],
                "head_count": value.shape[2],
                "head_dim": value.shape[3],
                "reference_dim": given["reference"].shape[3] if fused else 0,
                "operation": operation,
                "input_mode": lib.MSDA_INPUT_FUSED if fused else lib.MSDA_INPUT_SAMPLED,
                "value_dtype": CODES[value.dtype],
                "coord_dtype": CODES[point.dtype],
                "weight_dtype": CODES[weight.dtype],
                "output_dtype": CODES[self.out_dtype],
                "value_strides": value.stride()[:3],
                "coord_strides": point.stride()[:3],
                "weight_strides": weight.stride()[:3],
            },
        )
        plan, info = ffi.new("msda_plan**"), ffi.new("msda_plan_info*")
        check(lib.msda_plan_create(handle._c, problem, ffi.NULL, plan))
        info.struct_size = ffi.sizeof("msda_plan_info")
        check(lib.msda_plan_get_info(plan[0], info))
        size, alignment = info.workspace_bytes, max(info.workspace_alignment, 1)
        memory = torch.empty(size + alignment, dtype=torch.uint8, device=value.device)
        tensors = ffi.new("msda_tensors*")
        tensors.struct_size = ffi.sizeof("msda_tensors")
        for name, tensor in (given | new).items():
            setattr(tensors, name, ffi.cast("void*", tensor.data_ptr()))
        if self.value_scale is not None:
            tensors.value_scale = ffi.cast("float*", self.value_scale.data_ptr())
        start = memory.data_ptr() + -memory.data_ptr() % alignment
        tensors.workspace, tensors.workspace_bytes = ffi.cast("void*", start), size
        check(lib.msda_execute(plan[0], tensors, ffi.NULL))
        if value.device.type == "cuda":
            torch.cuda.synchronize()
        lib.msda_plan_destroy(plan[0])
        return new

    def by_c(self, handle):
        value = self.inputs["value"]
        empty = lambda like, kind: torch.full(like.shape, 7, dtype=kind, device=value.device)
        output = {"output": empty(self.grad_output, self.out_dtype)}
        kinds = {name: t.dtype for name, t in self.inputs.items()}
        if value.dtype is torch.float8_e4m3fn:
            kinds["value"] = torch.float32
        gradients = {f"grad_{n}": empty(t, kinds[n]) for n, t in self.inputs.items()}
        given = self.inputs | {"grad_output": self.grad_output}
        return [
            *self.run_c(handle, lib.MSDA_FORWARD, self.inputs, output).values(),
            *self.run_c(handle, lib.MSDA_BACKWARD, given, gradients).values(),
        ]

    def by_autograd(self):
        """float8 leaves have gradients of float8, so value is none there, and its gradient is missing."""
        names = [n for n, t in self.inputs.items() if t.dtype is not torch.float8_e4m3fn]
        leaves = self.inputs | {n: self.inputs[n].detach().requires_grad_() for n in names}
        function = ours.forward_fused if "reference" in leaves else ours.forward
        value, *rest = leaves.values()
        settings = {"points": self.points, "value_scale": self.value_scale}
        output = function(value, self.levels, *rest, out_dtype=self.out_dtype, **settings)
        found = torch.autograd.grad(output, [leaves[n] for n in names], self.grad_output)
        return [output.detach(), *[None] * (len(leaves) - len(names)), *found]

    def by_operators(self):
        suffix = "_fused" if "reference" in self.inputs else ""
        given, settings = self.inputs.values(), (self.value_scale, self.points)
        forward = getattr(torch.ops.msda, "forward" + suffix)
        backward = getattr(torch.ops.msda, "backward" + suffix)
        return [
            forward(*given, self.flat(), self.out_dtype, *settings),
            *backward(self.grad_output, *given, self.flat(), [True] * len(given), *settings),
        ]


def bits(tensor):
    return tensor.contiguous().view(SIZES[tensor.dtype.itemsize])


@pytest.mark.parametrize("device", DEVICES)
def test_random_problems_have_the_bits_of_the_c_interface(device):
    torch.use_deterministic_algorithms(True)
    handle = libmsda.Handle(threads=1) if device == "cpu" else libmsda.Handle(device=0)
    compared, drawn = 0, set()
    try:
        for seed in range(200):
            case = Case(seed, device)
            wanted = case.by_c(handle)
            for found in (case.by_autograd(), case.by_operators()):
                assert len(found) == len(wanted)
                for one, other in zip(found, wanted):
                    if one is not None:
                        assert one.dtype is other.dtype and one.shape == other.shape, seed
                        assert torch.equal(bits(one), bits(other)), f"seed {seed}"
                        compared += one.numel()
            drawn |= {(case.inputs["value"].dtype, "reference" in case.inputs)}
            drawn |= {"not numbers"} & {"not numbers" if t.isnan().any() else "" for t in wanted}
    finally:
        torch.use_deterministic_algorithms(False)
    assert compared > 10**6 and len(drawn) == 11
