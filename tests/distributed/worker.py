"""One of several processes of the tests in this folder, started by torch.distributed.run with the names of checks.

Each check is a function here. Prints a line of JSON for each that passed; the first that fails ends all processes."""

import copy
import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import libmsda.torch as ours

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "distributed"))
import train

KIND = "cuda" if os.environ.get("MSDA_TEST_DEVICE") == "cuda" else "cpu"
RANK, COUNT = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
LEVELS, STEPS = ((6, 5), (3, 2)), 3
# The axis of each tensor that is split, and the gradient that is a partial sum. None: not split.
SPLITS = {
    "batch": ({"value": 0, "reference": 0, "rest": 0}, None),
    "heads": ({"value": 2, "reference": None, "rest": 2}, "reference"),
    "queries": ({"value": None, "reference": 1, "rest": 1}, "value"),
}


def device():
    return torch.device("cuda", RANK) if KIND == "cuda" else torch.device("cpu")


def tensors(fused, dtype=torch.float64):
    make = torch.Generator().manual_seed(5)
    rand = lambda *shape: torch.rand(shape, generator=make, dtype=torch.float64)
    points, weight = rand(4, 8, 4, 2, 3, 2), rand(4, 8, 4, 2, 3)
    found = {"value": rand(4, 36, 4, 8) - 0.5, "coord": points, "weight": weight}
    if fused:
        found = {"value": found["value"], "reference": rand(4, 8, 2, 4), "offset": points - 0.5, "logit": weight}
    grad_output = rand(4, 8, 4, 8) - 0.5
    return {name: tensor.to(dtype).to(device()) for name, tensor in found.items()}, grad_output.to(dtype).to(device())


def check_same(found, wanted, context):
    """On the CPU the same bits. A GPU may have another kernel for another size."""
    found = found.full_tensor() if isinstance(found, DTensor) else found
    if KIND == "cpu":
        assert torch.equal(found, wanted), context
    else:
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12, msg=str(context))


def run(leaves, grad_output):
    """The output and the gradients by name, on plain tensors or DTensors."""
    leaves = {name: tensor.detach().requires_grad_() for name, tensor in leaves.items()}
    value, *rest = leaves.values()
    output = (ours.forward_fused if "logit" in leaves else ours.forward)(value, LEVELS, *rest)
    gradients = torch.autograd.grad(output, [*leaves.values()], grad_output)
    return output.detach(), dict(zip(leaves, gradients))


def attention_of(leaves):
    """The attention weights, and the gradient of their squares by the logits."""
    value, reference, offset, logit = leaves.values()
    logit = logit.detach().requires_grad_()
    _, attention = ours.forward_fused(value, LEVELS, reference, offset, logit, attention=True)
    (gradient,) = torch.autograd.grad(attention, [logit], 2 * attention.detach())
    return attention.detach(), gradient


def dtensors_are_split_by_batch_heads_and_queries():
    mesh = init_device_mesh(KIND, (COUNT,))
    place = lambda axis: [Replicate() if axis is None else Shard(axis)]
    for fused in (False, True):
        plain, grad_output = tensors(fused)
        wanted, wanted_gradients = run(plain, grad_output)
        for split, (axes, partial) in SPLITS.items():
            given = {
                name: distribute_tensor(tensor, mesh, place(axes.get(name, axes["rest"]))) for name, tensor in plain.items()
            }
            output, gradients = run(given, distribute_tensor(grad_output, mesh, place(axes["rest"])))
            assert list(output.placements) == place(axes["rest"]), (split, output.placements)
            check_same(output, wanted, split)
            for found, alone in zip(attention_of(given), attention_of(plain)) if fused else ():
                assert list(found.placements) == place(axes["rest"]), (split, found.placements)
                check_same(found, alone, (split, "attention"))
            for name, gradient in gradients.items():
                expected = [Partial()] if name == partial else place(axes.get(name, axes["rest"]))
                assert list(gradient.placements) == expected, (split, name, gradient.placements)
                if name == partial:
                    torch.testing.assert_close(gradient.full_tensor(), wanted_gradients[name], rtol=1e-13, atol=1e-13)
                else:
                    check_same(gradient, wanted_gradients[name], (split, name))


def dtensors_that_contradict_one_another_are_moved():
    mesh = init_device_mesh(KIND, (COUNT,))
    plain, grad_output = tensors(False)
    wanted, wanted_gradients = run(plain, grad_output)
    for axes in ((1, 0, 2), (3, 4, 1), (0, 1, None)):
        given = {
            name: distribute_tensor(tensor, mesh, [Replicate() if axis is None else Shard(axis)])
            for (name, tensor), axis in zip(plain.items(), axes)
        }
        output, gradients = run(given, distribute_tensor(grad_output, mesh, [Shard(3)]))
        check_same(output, wanted, axes)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient.full_tensor(), wanted_gradients[name], rtol=1e-13, atol=1e-13)


def gradients_of_some_dtensors_are_those_of_all():
    """One signature after another, that differ in which gradients are wanted, in the type of the output and in the grid
    of queries: nothing is remembered of one for another."""
    mesh = init_device_mesh(KIND, (COUNT,))
    plain, grad_output = tensors(False)
    _, wanted = run(plain, grad_output)
    for some in (("value",), ("coord", "weight"), ("value", "weight")):
        leaves = {name: distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in plain.items()}
        leaves = {name: tensor.requires_grad_(name in some) for name, tensor in leaves.items()}
        value, *rest = leaves.values()
        output = ours.forward(value, LEVELS, *rest)
        output.backward(distribute_tensor(grad_output, mesh, [Shard(0)]))
        for name, leaf in leaves.items():
            assert (leaf.grad is not None) == (name in some), (some, name)
            if leaf.grad is not None:
                check_same(leaf.grad, wanted[name], (some, name))
    queries = [distribute_tensor(tensor, mesh, [Shard(1)]) for tensor in (plain["coord"], plain["weight"])]
    value = distribute_tensor(plain["value"], mesh, [Replicate()])
    for settings in ({}, {"query_hw": ((4, 2),)}, {"out_dtype": torch.float32}):
        found = ours.forward(value, LEVELS, *queries, **settings)
        alone = ours.forward(plain["value"], LEVELS, plain["coord"], plain["weight"], **settings)
        assert found.dtype == alone.dtype
        check_same(found, alone, settings)


def part(step, rank):
    return slice(rank * train.BATCH // COUNT, (rank + 1) * train.BATCH // COUNT)


def made():
    torch.manual_seed(0)
    return train.Encoder().to(device())


def step_of(model, places, step, rank, scale=1.0):
    """Adds the gradients of a rank's part of the batch, times `scale`."""
    picture, answer = (tensor[part(step, rank)].to(device()) for tensor in train.batch_of(step, places))
    (scale * (model(picture) - answer).square().mean()).backward()


def alone():
    """Parameters after the training of one process: it takes the parts of all ranks in turn."""
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        for rank in range(COUNT):
            step_of(model, model.places, step, rank, 1 / COUNT)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def check_training(parallel, exact):
    model = made()
    places = model.places.clone()
    trained = parallel(model)
    first = [whole(parameter).clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        optimizer.zero_grad()
        step_of(trained, places, step, RANK)
        optimizer.step()
    found, wanted = [whole(parameter) for parameter in model.parameters()], alone()
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        if exact:
            assert torch.equal(one, other), (one - other).abs().max()
        else:
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        every = [torch.empty_like(one) for _ in range(COUNT)]
        dist.all_gather(every, one.contiguous())
        assert all(torch.equal(one, copy_of_other) for copy_of_other in every)
    assert any(not torch.equal(one, before) for one, before in zip(found, first))


def whole(parameter):
    parameter = parameter.detach()
    return parameter.full_tensor() if isinstance(parameter, DTensor) else parameter


def is_exact():
    """The sum of two is the same in either order; more are added up in the order that the backend likes. cuBLAS may take another
    kernel for other strides, as those of parameters that were gathered."""
    return COUNT == 2 and KIND == "cpu"


def training_by_ddp_is_that_of_one_process():
    check_training(lambda model: train.parallel(model, False, device()), is_exact())


def training_by_fsdp2_is_that_of_one_process():
    check_training(lambda model: train.parallel(model, True, device()), is_exact())


def training_by_compiled_ddp_is_that_of_one_process():
    torch._dynamo.reset()
    backend = "inductor" if KIND == "cuda" else "aot_eager"  # which compiles no C++
    compiled = lambda model: torch.compile(train.parallel(model, False, device()), backend=backend)
    check_training(compiled, False)


def training_of_fully_sharded_layers_keeps_the_state():
    """FSDP2's parameters are DTensors of the module's own names, so a state dict of one process loads."""
    model = made()
    state = copy.deepcopy(model.state_dict())
    sharded = fully_shard(model, mesh=init_device_mesh(KIND, (COUNT,)))
    assert isinstance(sharded, nn.Module) and [*sharded.state_dict()] == [*state]
    for name, tensor in sharded.state_dict().items():
        assert torch.equal(whole(tensor), state[name]), name


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if KIND == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.cuda.set_device(RANK)
    dist.init_process_group("nccl" if KIND == "cuda" else "gloo")
    for name in sys.argv[1:]:
        globals()[name]()
        print(json.dumps({"check": name, "rank": RANK}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
