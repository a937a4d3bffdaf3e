"""A program that calls every public function of libmsda and libmsda.torch, for `mypy --strict`, which has to find all
types and no error in it; it is never run. What is wrong on purpose says so: an ignore that is not needed is an error."""

from typing import Any, assert_type

import torch

import libmsda
import libmsda.torch as ours

LEVELS = ((4, 6), (2, 3))


def tensors(value: torch.Tensor, points: torch.Tensor, weight: torch.Tensor) -> None:
    assert_type(ours.forward(value, LEVELS, points, weight), torch.Tensor)
    assert_type(
        ours.forward(
            value,
            torch.tensor(LEVELS),
            points,
            weight,
            out_dtype=torch.float16,
            value_scale=None,
            points=[4, 4],
            level_start_index=(0, 24),
            value_border=False,
            query_hw=[(2, 3)],
            point_locality="local",
            math_mode="fast",
            kernel="ref.cpu@1",
            threads=2,
        ),
        torch.Tensor,
    )
    assert_type(ours.forward_fused(value, LEVELS, points, points, weight), torch.Tensor)
    both = ours.forward_fused(value, LEVELS, points, points, weight, attention=True)
    assert_type(both, tuple[torch.Tensor, torch.Tensor])
    ours.forward(value, LEVELS, points)  # type: ignore[call-arg]
    ours.forward(value, LEVELS, points, weight, pints=3)  # type: ignore[call-arg]
    ours.forward(value, LEVELS, points, weight, threads="2")  # type: ignore[arg-type]
    ours.forward(value, LEVELS, points, weight, point_locality="far")  # type: ignore[arg-type]
    ours.forward(value, 4, points, weight)  # type: ignore[arg-type]


def modules(query: torch.Tensor, model: torch.nn.Module) -> None:
    attention = ours.MSDeformAttn(256, head_count=8, level_count=2, point_count=4, dtype=torch.float16)
    attention(query, query, LEVELS, position=query)
    assert_type(attention.output_proj, torch.nn.Linear)
    with ours.from_module(model, return_weights=True) as conversion:
        assert_type(conversion, ours.Conversion)
        assert_type(conversion.left, dict[str, str])
    ours.MSDeformAttn(256, heads=8)  # type: ignore[call-arg]


def arrays(value: Any, points: Any, weight: Any, grad: Any) -> None:
    libmsda.forward(value, LEVELS, points, weight, out=None, out_dtype="float32", threads=2)
    libmsda.forward_fused(value, LEVELS, points, points, weight, options=libmsda.Options(points=4))
    gradients = libmsda.backward(value, LEVELS, points, weight, grad, wanted="value")
    assert_type(gradients, libmsda.Gradients)
    fused = libmsda.backward_fused(value, LEVELS, points, points, weight, grad, wanted=("value",))
    assert_type(fused, libmsda.FusedGradients)
    assert_type(libmsda.explain(libmsda.forward, value, LEVELS, points, weight), str)
    libmsda.forward(value, LEVELS, points, weight, pints=3)  # type: ignore[call-arg]
    libmsda.backward(value, LEVELS, points, weight, grad, wanted=3)  # type: ignore[arg-type]
    libmsda.Options(math_mode="swift")  # type: ignore[arg-type]


def steps(value: Any) -> None:
    handle = libmsda.default_handle(threads=2)
    assert_type(handle, libmsda.Handle)
    problem = libmsda.Problem(
        level_hw=LEVELS, points=4, batch=1, query_count=7, head_count=3, head_dim=8
    )
    assert_type(problem.shape("value"), tuple[int, ...])
    assert_type(handle.explain(problem), str)
    assert_type(libmsda.Handle(device=None, log=print).tuning_export(), str)
    plan = libmsda.Plan(problem, handle=handle)
    assert_type(handle.plan(problem), libmsda.Plan)
    assert_type(handle.tune(problem, value=value), libmsda.Plan)
    assert_type(libmsda.Plan.tune(problem, value=value), libmsda.Plan)
    assert_type(plan.info, libmsda.PlanInfo)
    assert_type(plan.info.predicted_us, float)
    assert_type(plan.execute(value=value, workspace=plan.workspace()), dict[str, Any])
    assert_type(plan.serialize(), bytes)
    assert_type(libmsda.kernels(), list[libmsda.KernelInfo])
    assert_type(libmsda.version() + libmsda.build_info() + libmsda.library_path, str)
    libmsda.Problem(level_hw=LEVELS)  # type: ignore[call-arg]
    plan.info = plan.info  # type: ignore[misc]


def errors() -> None:
    try:
        libmsda.Handle()
    except libmsda.InvalidArgumentError as error:
        assert_type(error.status, int)
    kinds: list[type[libmsda.Error]] = [
        libmsda.AbiMismatchError,
        libmsda.BufferTooSmallError,
        libmsda.CudaError,
        libmsda.InternalError,
        libmsda.OutOfMemoryError,
        libmsda.StalePlanError,
        libmsda.UnsupportedError,
    ]
    del kinds
