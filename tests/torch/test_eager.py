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


@pytest.fixture(autouse=True, params=["known", "keyed"])
def way(request, monkeypatch):
    """With torch's check of tensors, and as where torch has none."""
    if request.param == "keyed":
        monkeypatch.setattr(ours._known, "has_check", lambda: False)
    else:
        assert ours._known.has_check()
    ours._known._known.forget()
    return request.param


@pytest.fixture
def known(way, monkeypatch):
    """The results of calls that were known, one list a call."""
    found, compute = [], ours._known.Known.compute

    def spy(self, tensors):
        found.append(compute(self, tensors))
        return found[-1]

    monkeypatch.setattr(ours._known.Known, "compute", spy)
    return found


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
    call(*given)
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
    call(*given)
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


def trained(given):
    leaves = [t.detach().requires_grad_() for t in given]
    output = call(*leaves)
    return output.detach(), *torch.autograd.grad(output, leaves, torch.ones_like(output))


def test_a_call_like_an_earlier_one_is_known(given, known, way):
    expected = [trained(given) for _ in range(3)]
    # The first backward has no forward that was known, and the second is the first of its kind.
    assert [len(one) for one in known] == ([1, 1, 3] if way == "known" else [])
    assert all(torch.equal(one, other) for found in expected[1:] for one, other in zip(expected[0], found))
    known.clear()
    with torch.no_grad():
        leaves = [t.detach().requires_grad_() for t in given]
        assert torch.equal(call(*leaves), expected[0][0])
    assert len(known) == (way == "known")
    with torch.inference_mode():
        for _ in range(2):
            output = call(*[t.clone() for t in given])
            assert output.is_inference() and torch.equal(output, expected[0][0])


def test_a_known_call_ends_at_autocast_and_transforms(given):
    expected = call(*given)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            assert call(*given).dtype is torch.bfloat16
        assert torch.equal(call(*given), expected)
    mapped = torch.func.vmap(lambda weight: call(*given[:2], weight))(torch.stack([given[2], 2 * given[2]]))
    assert torch.equal(mapped[0], expected) and torch.equal(mapped[1], 2 * expected)
    by_function = torch.func.grad(lambda value: call(value, *given[1:]).sum())(given[0])
    assert torch.equal(by_function, trained(given)[1])


@pytest.mark.parametrize("frozen", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_a_known_call_leaves_frozen_inputs_without_gradients(given, frozen):
    expected = trained(given)[1:]
    for _ in range(3):
        leaves = [t.detach().requires_grad_(i not in frozen) for i, t in enumerate(given)]
        call(*leaves).sum().backward()
        for i, leaf in enumerate(leaves):
            assert leaf.grad is None if i in frozen else torch.equal(leaf.grad, expected[i])


def test_tensors_that_change_behind_a_known_call_are_seen(given):
    for _ in range(3):
        trained(given)
    leaves = [t.detach().requires_grad_() for t in given]
    output = call(*leaves)
    leaves[0].data = leaves[0].data[:, :-1].contiguous()
    with pytest.raises(libmsda.InvalidArgumentError, match="not 35"):
        output.sum().backward()


def test_gradients_of_gradients_of_a_known_call_are_refused(given):
    for _ in range(3):
        trained(given)
    leaves = [t.detach().requires_grad_() for t in given]
    first = torch.autograd.grad(call(*leaves).sum(), leaves[0], create_graph=True)
    with pytest.raises(NotImplementedError, match="gradients of gradients"):
        first[0].sum().backward()


def test_few_kinds_of_tensors_are_kept_for_a_key(given, known, way):
    value, coord, weight = given
    for batch in range(1, 20):
        more = [t.repeat(batch, *[1] * (t.dim() - 1)) for t in given]
        output = call(*more)
        assert torch.equal(call(*more), output) and torch.equal(output[:2], call(*given))
    kept = max(map(len, ours._known._known._young.values()))
    assert kept == (ours._known._MOST if way == "known" else 0) and bool(known) == (way == "known")


@pytest.mark.parametrize("way", ["known"], indirect=True)
def test_a_check_that_tells_no_tensors_apart_is_not_used(monkeypatch):
    guards, has_check = ours._known._guards_of, ours._known.has_check.__wrapped__
    assert has_check()
    unknown = [[None] * 2] * 2
    for other in (lambda *t, **k: guards(*t, dynamic_dims_sizes=unknown, dynamic_dims_strides=unknown), None):
        monkeypatch.setattr(ours._known, "_guards_of", other)
        assert not has_check()


def test_known_calls_copy_what_the_library_cannot_address(given, known, way):
    value, coord, weight = given
    strided = value.repeat_interleave(2, -1)[..., ::2]
    levels = torch.rand(2, 7, 1, 2), torch.rand(2, 7, 3, 12, 2), torch.rand(2, 7, 3, 12)  # a reference for all levels
    expected = call(*given)
    fused = [t.requires_grad_() for t in (strided.detach(), *levels)]
    results = []
    for _ in range(3):
        assert torch.equal(call(strided, coord, weight), expected)
        output = ours.forward_fused(fused[0], LEVELS, *fused[1:])
        results.append((output, *torch.autograd.grad(output.sum(), fused)))  # whose gradient is one number, repeated
    assert all(torch.equal(one, other) for found in results[1:] for one, other in zip(results[0], found))
    assert [one.shape for one in results[0][1:]] == [t.shape for t in fused]
    assert len(known) == (2 + 2 + 1 if way == "known" else 0)
