"""What the scripts here share: the workloads' tensors, the composition of torch's grid_sample, and libmsda
called as a C program calls it."""

import json
import pathlib
import sys

import torch
from peer_check import allowed_errors, error_share, largest_steps

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ALL_DTYPES = DTYPES | {"f8_e4m3": torch.float8_e4m3fn}
LOCALITIES = {"uniform": "scattered", "local": "local"}  # libmsda.Problem.point_locality of a pattern's points
NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16",
         torch.float8_e4m3fn: "float8_e4m3fn"}


def workload_list():
    return json.loads((ROOT / "bench/workloads.json").read_text())["workloads"]


def smaller(work):
    """The workload as a CPU computes it in no time: to try a script, not to measure."""
    levels = [[max(2, h // 16), max(2, w // 16)] for h, w in work["levels"]]
    changes = {"batch": min(work["batch"], 2), "levels": levels, "queries": min(work["queries"], 40)}
    if "reference_grid" in work:
        changes["reference_grid"] = [7, 7]
    elif work["pattern"] == "local":
        changes["queries"] = sum(h * w for h, w in levels)
    return work | changes


def require_known(parser, option, chosen, known):
    """Ends the program with a message where a comma separated choice has a name that is not known."""
    for name in chosen.split(","):
        if name not in known:
            parser.error(f"{option} has {name!r}: must be of {', '.join(known)}")


def references(work):
    """[Q, 2]: where each query of a local workload looks from, (x, y) in [0, 1]."""
    if "reference_grid" in work:
        H, W = work["reference_grid"]
        q = torch.arange(work["queries"])
        u, v = (q % W) / (W - 1), (q // W) / (H - 1)
        return torch.stack([0.05 + 0.9 * u, 0.1 + 0.8 * v * v], -1)
    centres = []
    for H, W in work["levels"]:
        y, x = torch.meshgrid(torch.arange(H), torch.arange(W), indexing="ij")
        centres.append(torch.stack([(x + 0.5) / W, (y + 0.5) / H], -1).reshape(-1, 2))
    return torch.cat(centres)


def query_grids(work):
    """Whose pixels the queries are, as libmsda.Problem.query_hw has it; None where they are scattered."""
    if "reference_grid" not in work:
        return None  # an encoder's, which the library sees by itself, or none
    width = work["reference_grid"][1]
    rows, rest = divmod(work["queries"], width)
    return [(rows, width)] + ([(1, rest)] if rest else [])


def present_points(points):
    """[L, P], P that of the level with most points: whether the level has the point."""
    return torch.arange(max(points))[None] < torch.tensor(points)[:, None]


def make_tensors(work, device="cpu"):
    """value [B,S,M,D], level_hw [L,2], coord [B,Q,M,L,P,2] and weight [B,Q,M,L,P], float32, level_hw int64.
    Coordinates as bench/workloads.json describes them. P is that of the level with most points; points that a level
    does not have weigh nothing."""
    random = torch.Generator(device).manual_seed(0)
    B, M, D, Q = work["batch"], work["heads"], work["channels"], work["queries"]
    level_hw, P = torch.tensor(work["levels"], device=device), max(work["points"])
    L, S = len(level_hw), int(level_hw.prod(1).sum())
    options = {"generator": random, "device": device}
    value = torch.randn(B, S, M, D, **options)
    logit = torch.randn(B, Q, M, L * P, **options)
    absent = ~present_points(work["points"]).to(device).flatten()
    weight = logit.masked_fill_(absent, float("-inf")).softmax(-1).view(B, Q, M, L, P)
    if work["pattern"] == "uniform":
        return value, level_hw, torch.rand(B, Q, M, L, P, 2, **options), weight
    head = (torch.arange(B)[:, None] * M + torch.arange(M)) % 8
    angle = 2 * torch.pi * head[..., None] / 8 + work.get("angle_step", 0) * torch.arange(P)  # [B, M, P]
    direction = torch.stack([angle.cos(), angle.sin()], -1)[:, None, :, None].to(device)
    length = (torch.arange(P, device=device) % 4 + 1.0)[:, None]
    offset = length * direction + 1.5 * torch.randn(B, Q, M, L, P, 2, **options)
    size = level_hw.flip(1)[:, None].float()  # (W, H)
    coord = references(work).to(device)[:, None, None, None] + offset / size
    return value, level_hw, coord.contiguous(), weight


def as_fused(work, level_hw, coord, weight, reference_dim):
    """(reference [B,Q,L,R], offset [B,Q,M,L,P,2], logit [B,Q,M,L,P]) of the points and weights given: the references
    are those of a local workload, else the middle; boxes are a tenth of the picture high and wide."""
    B, Q, _, L, _, _ = coord.shape
    middle = torch.full((Q, 2), 0.5) if work["pattern"] == "uniform" else references(work)
    reference = middle.to(coord).view(1, Q, 1, 2).expand(B, Q, L, 2)
    offset = coord - reference[:, :, None, :, None]
    if reference_dim == 2:
        offset = offset * level_hw.flip(1)[:, None].to(coord)
    else:
        box = torch.full_like(reference, 0.1)
        offset = offset * (2 / 0.1) * counts_of(work["points"], offset)
        reference = torch.cat([reference, box], -1)
    return reference.contiguous(), offset.contiguous(), weight.log()


def counts_of(points, tensor):
    """[L, 1, 1]: points of each level, of the tensor's type."""
    return torch.tensor(points, dtype=tensor.dtype, device=tensor.device)[:, None, None]


def as_sampled(work, level_hw, reference, offset, logit):
    """(coord, weight) in float64 of fused input, from its definition in include/msda.h."""
    anchor, offset = reference.double()[:, :, None, :, None], offset.double()
    if reference.shape[-1] == 2:
        coord = anchor + offset / level_hw.flip(1)[:, None]
    else:
        coord = anchor[..., :2] + offset / counts_of(work["points"], offset) * anchor[..., 2:] / 2
    return coord, logit.double().flatten(3).softmax(-1).view_as(logit)


def level_starts(level_hw):
    size = level_hw.prod(1)
    return size.cumsum(0) - size


def grid_sample(value, level_hw, coord, weight):
    """[B, Q, M D]: the composition that models fall back on, one grid_sample a level."""
    from torch.nn.functional import grid_sample as sample

    B, _, M, D = value.shape
    _, Q, _, L, P, _ = coord.shape
    sampled = []
    for level, (H, W) in enumerate(level_hw.tolist()):
        tokens = value.split([h * w for h, w in level_hw.tolist()], 1)[level]
        image = tokens.flatten(2).transpose(1, 2).reshape(B * M, D, H, W)
        grid = 2 * coord[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
        sampled.append(sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
    weights = weight.transpose(1, 2).reshape(B * M, 1, Q, L * P)
    output = (torch.stack(sampled, -2).flatten(-2) * weights).sum(-1)
    return output.view(B, M * D, Q).transpose(1, 2).contiguous()


def level_images(value, level_hw):
    """[B, M, D, H, W] of each level."""
    parts = value.split([h * w for h, w in level_hw.tolist()], 1)
    return [part.permute(0, 2, 3, 1).unflatten(3, hw) for part, hw in zip(parts, level_hw.tolist())]


def expected(value, level_hw, coord, weight, output_dtype, fast=False, point_total=None):
    """(exact output, error allowed for each of its elements), [B, Q, M D] in float64, of libmsda on these inputs. A
    batch item at a time: the composition of grid_sample needs much memory. point_total is K where levels lack points."""
    exact, products, steps, slopes = [], [], [], []
    for b in range(value.shape[0]):
        item = [tensor[b : b + 1].double() for tensor in (value, coord, weight)]
        exact.append(grid_sample(item[0], level_hw, *item[1:]))
        products.append(grid_sample(item[0].abs(), level_hw, item[1], item[2].abs()))
        step = torch.stack([largest_steps(image) for image in level_images(item[0], level_hw)])  # [L, 1, M, D]
        weights = item[2].abs().sum(-1)  # [1, Q, M, L]
        sides = level_hw.amax(1).to(step)[:, None, None, None]
        steps.append(torch.einsum("bqml,lbmd->bqmd", weights, step).flatten(2))
        slopes.append(torch.einsum("bqml,lbmd->bqmd", weights, step * sides).flatten(2))
    exact, products, steps, slopes = (torch.cat(parts) for parts in (exact, products, steps, slopes))
    largest_value = value.double().abs().max().item() if fast else 0.0
    point_total = point_total or weight[0, 0, 0].numel()
    return exact, allowed_errors(exact, products, slopes, steps, point_total, output_dtype, fast, largest_value)


def error_share_of(call, exact, allowed):
    """Of what a call returns: the largest error over what is allowed, either one number or one an element."""
    return error_share(call().reshape(exact.shape).double(), exact, allowed)


def current_stream(on_gpu):
    return torch.cuda.current_stream().cuda_stream if on_gpu else 0


def tuned_plan(problem, handle, tensors, budget_ms, on_gpu):
    """The plan with the kernel that is the fastest on the tensors of a struct msda_tensors, on the current stream."""
    import libmsda
    from libmsda._core.library import ffi, lib

    c_problem, _keep = problem.to_c()
    out = ffi.new("msda_plan**")
    stream = ffi.cast("msda_stream", current_stream(on_gpu))
    if lib.msda_plan_tune(handle._c, c_problem, ffi.NULL, tensors, stream, budget_ms, out) != lib.MSDA_SUCCESS:
        sys.exit(ffi.string(lib.msda_last_error()).decode())
    lib.msda_plan_destroy(out[0])
    return libmsda.Plan(problem, handle=handle, tuned=True)


def placed(tensor, behind):
    """A copy of a CPU tensor that begins `behind` bytes behind a multiple of 64: 0 as torch allocates, 16 as numpy and
    malloc do."""
    memory = torch.empty(tensor.numel() + 128, dtype=tensor.dtype)
    first = (behind - memory.data_ptr()) % 64 // tensor.element_size()
    return memory[first : first + tensor.numel()].view(tensor.shape).copy_(tensor)


def expected_gradients(value, level_hw, coord, weight, grad_output, work=None, reference=None):
    """Gradients by value, coord and weight in float64, from autograd, a batch item at a time. With a reference coord are
    offsets and weight logits, of that work, and there are gradients by the reference, too."""
    parts, inputs = [], (value, coord, weight, *([] if reference is None else [reference]))
    for b in range(value.shape[0]):
        item = [tensor[b : b + 1].double().requires_grad_() for tensor in inputs]
        with torch.enable_grad():
            sampled = item[1:] if reference is None else as_sampled(work, level_hw, item[3], *item[1:3])
            output = grid_sample(item[0], level_hw, *sampled)
        parts.append(torch.autograd.grad(output, item, grad_output[b : b + 1].double()))
    return [torch.cat(gradients) for gradients in zip(*parts)]


def msda_call(value, level_hw, coord, weight, handle, kernel=None, tuning_ms=0, reference=None, points=None,
              grad_output=None, wants_reference=False, behind=None, **problem_options):
    """(call that returns the output, or with grad_output the gradients by value, coord and weight, plan): the C function
    itself on a struct filled once, as a C program would. kernel is the id of one, or None for the library's choice, or
    with tuning_ms for the one that is found to be the fastest on these very tensors in that time; with reference the input
    is fused, coord are offsets and weight logits, and gradients are by reference too where that is wanted; points of each
    level, where not all have P; the results are placed() `behind` a multiple of 64; problem_options are further fields of
    libmsda.Problem."""
    import libmsda
    from libmsda._core.library import ffi, lib

    B, _, M, D = value.shape
    _, Q, _, L, P, _ = coord.shape
    output_dtype = torch.float32 if value.dtype == torch.float8_e4m3fn else value.dtype
    if points is not None and len(set(points)) > 1:
        present = present_points(points).to(coord.device)
        coord, weight = coord[:, :, :, present].contiguous(), weight[:, :, :, present].contiguous()
    options = {"dtype": output_dtype, "device": value.device}
    if grad_output is None:
        output = torch.full((B, Q, M, D), float("nan"), **options)
        output = output if behind is None else placed(output, behind)
        results = {"output": output}
    else:
        output = torch.empty(value.shape, **options), torch.empty_like(coord), torch.empty_like(weight)
        if wants_reference:
            output += (torch.empty_like(reference),)
        output = output if behind is None else tuple(placed(gradient, behind) for gradient in output)
        names = ("grad_value", "grad_coord", "grad_weight")
        if reference is not None:
            names = ("grad_value", "grad_offset", "grad_logit", "grad_reference")
        results = {"grad_output": grad_output} | dict(zip(names, output))
        problem_options |= {"operation": "backward"}
    given = {"coord": coord, "weight": weight}
    if reference is not None:
        given = {"reference": reference, "offset": coord, "logit": weight}
        problem_options |= {"input_mode": "fused", "reference_dim": reference.shape[-1],
                            "reference_dtype": NAMES[reference.dtype]}
    problem = libmsda.Problem(
        level_hw=level_hw.tolist(), points=P if points is None else points, batch=B, query_count=Q, head_count=M, head_dim=D,
        value_dtype=NAMES[value.dtype], coord_dtype=NAMES[coord.dtype], weight_dtype=NAMES[weight.dtype],
        **problem_options)
    tensors = ffi.new("msda_tensors*")
    tensors.struct_size = ffi.sizeof("msda_tensors")
    for name, tensor in {"value": value, **results, **given}.items():
        setattr(tensors, name, ffi.cast("void*", tensor.data_ptr()))
    on_gpu = value.device.type == "cuda"
    if tuning_ms:
        plan = tuned_plan(problem, handle, tensors, tuning_ms, on_gpu)
    else:
        plan = libmsda.Plan(problem, handle=handle, kernel=kernel)
    workspace = torch.empty(max(plan.info.workspace_bytes, 1) + 256, dtype=torch.uint8, device=value.device)
    tensors.workspace = ffi.cast("void*", (workspace.data_ptr() + 255) // 256 * 256)
    tensors.workspace_bytes = plan.info.workspace_bytes

    def call(keep=(value, given, results, workspace)):
        if lib.msda_execute(plan._c, tensors, ffi.cast("msda_stream", current_stream(on_gpu))) != lib.MSDA_SUCCESS:
            sys.exit(ffi.string(lib.msda_last_error()).decode())
        return output

    return call, plan
