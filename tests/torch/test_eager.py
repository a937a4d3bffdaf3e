"""The direct way of plain eager calls: what takes it, and what must not."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import libmsda
import libmsda.torch as ours

LEVELS = ((6, 5), (3, 2))
OPERATOR = torch.ops.msda.forward.default


@pytest.fixture
def given():
    make = torch.Generator().manual_seed(2)
    rand = lambda *shape: torch.rand(shape, generator=make)
    return rand(2, 36, 3, 4) - 0.5, rand(2, 7, 3, 2, 4, 2), rand(2, 7, 3, 2, 4)


def call(value, *rest):
    return ours.forward(value, LEVELS, *rest)


def test_a_plain_call_and_its_gradients_pass_the_dispatcher_by(given, monkeypatch):
    expected = libmsda.forward(given[0], LEVELS, *given[1:])
    monkeypatch.setattr(ours._operators, "operators", {})
    monkeypatch.setattr(ours._eager, "operators", {})
    leaves = [t.clone().requires_grad_() for t in given]
    output = call(*leaves)
    output.sum().backward()
    assert torch.equal(output, expected)
    gradients = libmsda.backward(given[0], LEVELS, *given[1:], torch.ones_like(expected))
    assert all(torch.equal(leaf.grad, one) for leaf, one in zip(leaves, gradients))


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        self.found = [*getattr(self, "found", []), function]
        return function(*arguments, **(keywords or {}))


class SeenFunctions(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        self.found = [*getattr(self, "found", []), function]
        return function(*arguments, **(keywords or {}))


@pytest.mark.parametrize("mode", [Seen, SeenFunctions])
def test_modes_see_the_operator(given, mode):
    call(*given)  # so that the call is planned
    with mode() as seen:
        call(*given)
    assert OPERATOR in seen.found


def test_a_traced_call_is_the_operator(given):
    traced = torch.jit.trace(call, given, check_trace=False)
    assert "msda::forward" in str(traced.graph)


def test_a_subclass_sees_the_operator(given):
    class Sub(torch.Tensor):
        found = []

        @classmethod
        def __torch_function__(cls, function, types, arguments=(), keywords=None):
            cls.found.append(function)
            return super().__torch_function__(function, types, arguments, keywords)

    call(*given)
    for index in range(3):
        Sub.found.clear()
        one = [t.as_subclass(Sub) if i == index else t for i, t in enumerate(given)]
        assert torch.equal(torch.Tensor(call(*one)), call(*given)) and OPERATOR in Sub.found


def test_a_negated_view_is_resolved(given):
    negated = torch._neg_view(given[0])
    assert negated.is_neg() and torch.equal(call(negated, *given[1:]), call(-given[0], *given[1:]))


def test_tangents_of_forward_mode_are_refused(given):
    call(*given)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(given[0], torch.ones_like(given[0]))
        with pytest.raises(NotImplementedError):
            call(dual, *given[1:])
    with pytest.raises(NotImplementedError):
        torch.func.jvp(lambda value: call(value, *given[1:]), given[:1], given[:1])


def test_a_planned_call_does_not_let_other_tensors_pass(given):
    """Each differs from a call that was planned in one thing."""
    expected = call(*given)
    value, coord, weight = given
    for other, words in [
        (value.to("meta"), "value is a torch.strided tensor on meta"),
        (value.to_sparse(), "value is a torch.sparse_coo tensor"),
        (value.int(), "value.dtype is 'int32'"),
        (value[:, :-1].contiguous(), "not 35"),
    ]:
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            call(other, coord, weight)
    for same in (
        value.transpose(1, 2).contiguous().transpose(1, 2),
        value.repeat_interleave(2, -1)[..., ::2],
    ):
        assert torch.equal(call(same, coord, weight), expected)
    assert torch.equal(call(value[:1].expand(2, -1, -1, -1), coord[:1].expand_as(coord), weight)[0], expected[0])
    assert call(value.double(), coord, weight).dtype is torch.float64
    with pytest.raises(libmsda.InvalidArgumentError, match="level_hw"):
        ours.forward(value, ((6.0, 5), (3, 2)), coord, weight)
