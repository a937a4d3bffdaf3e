"""What a call of libmsda.torch refuses, it refuses in the same words where it is only traced."""

import pytest
import torch
from torch._subclasses import FakeTensorMode

import libmsda
import libmsda.torch as ours
from problems import FLAT, LEVELS, call, tensors

FLOAT8 = torch.float8_e4m3fn


def sampled(**changed):
    value, coord, weight = tensors()
    return {"value": value, "coord": coord, "weight": weight, "level_hw": FLAT, **changed}


def fused(**changed):
    value, reference, offset, logit = tensors(True)
    given = {"value": value, "reference": reference, "offset": offset, "logit": logit}
    return {**given, "level_hw": FLAT, **changed}


VALUE, COORD, WEIGHT = tensors()
_, REFERENCE, OFFSET, LOGIT = tensors(True)
SCALE = torch.ones(3)
WRONG = {
    "value of integers": (sampled(value=VALUE.long()), "value.dtype is 'int64': must be one of"),
    "coord of integers": (sampled(coord=COORD.int()), "coord.dtype is 'int32': must be one of"),
    "weight of integers": (sampled(weight=WEIGHT.short()), "weight.dtype is 'int16': must be one"),
    "coord of float8": (sampled(coord=COORD.to(FLOAT8)), "coord.dtype is 'float8_e4m3fn'"),
    "value without batch": (sampled(value=VALUE[0]), r"value has shape \(36, 3, 4\): must be"),
    "value of heads together": (sampled(value=VALUE.flatten(2)), "if axis 2 is all heads together"),
    "coord of 4 axes": (sampled(coord=COORD[..., 0, 0]), r"coord has shape \(2, 7, 3, 2\): must be"),
    "coord of one level": (sampled(coord=COORD[:, :, :, :1]), "axis 3 must be the 2 levels"),
    "coord of 3 numbers": (sampled(coord=COORD.repeat(1, 1, 1, 1, 1, 2)[..., :3]), "coord has shape"),
    "weight of fewer queries": (sampled(weight=WEIGHT[:, 1:]), "weight has shape"),
    "heads of another number": (sampled(value=VALUE[:, :, 1:]), "coord has shape"),
    "a token too few": (sampled(value=VALUE[:, 1:]), r"6 x 5 \+ 3 x 2 pixels, not 35"),
    "value by heads": (sampled(value=VALUE.transpose(1, 2)), r"if it is \[B, M, S, D\]"),
    "levels of odd length": (sampled(level_hw=[6, 5, 3]), "must be H and W in turn"),
    "a negative level": (sampled(level_hw=[-6, -5, 3, 2]), r"level_hw\[0\]\[0\] is -6: must be 0"),
    "no levels": (sampled(level_hw=[]), "coord has shape .*: axis 3 must be the 0 levels"),
    "points of one level": (sampled(points=[4]), "points has 1 entries: must have one for each"),
    "points that are too few": (sampled(points=[1, 2]), "coord has shape"),
    "a level past the end": (sampled(level_start_index=[0, 31]), r"level_start_index\[1\] is 31"),
    "output of float8": (sampled(out_dtype=FLOAT8), "out_dtype is torch.float8_e4m3fn: must be"),
    "output of integers": (sampled(out_dtype=torch.int32), "out_dtype is torch.int32: must be"),
    "scale of float32": (sampled(value_scale=SCALE), "value_scale is given: must be None, as"),
    "scale of 2 heads": (sampled(value=VALUE.to(FLOAT8), value_scale=SCALE[1:]), r"must be \(3,\)"),
    "scale of float64": (sampled(value=VALUE.to(FLOAT8), value_scale=SCALE.double()), "float64: must"),
    "an unknown math mode": (sampled(math_mode="swift"), "math_mode is 'swift': must be one of"),
    "an unknown locality": (sampled(point_locality="far"), "point_locality is 'far': must be one"),
    "threads below 0": (sampled(threads=-1), "threads is -1: must be 0 to"),
    "queries of another grid": (sampled(query_hw=[3, 3]), "query_hw has 9 pixels in all: must be"),
    "coord elsewhere": (sampled(coord=COORD.to("meta")), "coord is on meta: must be on cpu"),
    "reference of integers": (fused(reference=REFERENCE.int()), "reference.dtype is 'int32': must be one of"),
    "reference of 3 numbers": (
        fused(reference=REFERENCE.repeat(1, 1, 1, 2)[..., :3]),
        "axis 3 must be 2 .x, y. or 4",
    ),
    "reference of 3 levels": (
        fused(reference=REFERENCE.repeat(1, 1, 2, 1)[:, :, :3]),
        "reference has shape",
    ),
    "offset of integers": (fused(offset=OFFSET.long()), "offset.dtype is 'int64': must be one of"),
    "logit of fewer points": (fused(logit=LOGIT[..., 1:]), "logit has shape"),
}


def operator(given, name="forward"):
    return getattr(torch.ops.msda, name + ("_fused" if "logit" in given else ""))


def as_fakes(mode, given):
    return {
        name: mode.from_tensor(what) if isinstance(what, torch.Tensor) else what
        for name, what in given.items()
    }


@pytest.mark.parametrize("case", WRONG)
def test_fake_tensors_are_refused_as_real_ones_are(case):
    given, words = WRONG[case]
    with pytest.raises(libmsda.InvalidArgumentError, match=words) as real:
        operator(given)(**given)
    with FakeTensorMode() as mode, pytest.raises(libmsda.InvalidArgumentError, match=words) as fake:
        operator(given)(**as_fakes(mode, given))
    assert str(fake.value) == str(real.value).removeprefix("msda_plan_create: problem.")


def test_wrong_gradients_are_refused():
    for given in (sampled(), fused()):
        count = len(given) - 1
        for grad_output, wanted, words in [
            (torch.ones(2, 7, 12), [True] * count, r"grad_output has shape \(2, 7, 12\): must be"),
            (torch.ones(2, 6, 3, 4), [True] * count, r"grad_output has shape \(2, 6, 3, 4\): must be"),
            (torch.ones(2, 7, 3, 4).int(), [True] * count, "grad_output.dtype is 'int32': must be"),
            (torch.ones(2, 7, 3, 4), [True], "wanted has 1 entries: must have one for each of value"),
        ]:
            call = {"grad_output": grad_output, **given, "wanted": wanted}
            for mode in (None, FakeTensorMode()):
                with pytest.raises(libmsda.InvalidArgumentError, match=words):
                    if mode is None:
                        operator(given, "backward")(**call)
                    else:
                        with mode:
                            operator(given, "backward")(**as_fakes(mode, call))


def test_traced_tensors_of_two_devices_are_refused():
    with FakeTensorMode():
        given = {
            name: torch.empty_like(what, device="cuda") if isinstance(what, torch.Tensor) else what
            for name, what in sampled().items()
        }
        assert torch.ops.msda.forward(**given).device.type == "cuda"
        given["weight"] = torch.empty(WEIGHT.shape)
        with pytest.raises(libmsda.InvalidArgumentError, match="weight is on cpu: must be on cuda:0"):
            torch.ops.msda.forward(**given)


def test_meta_tensors_have_shapes_under_the_operator_alone():
    meta = [t.to("meta") for t in tensors()]
    assert torch.ops.msda.forward(*meta, FLAT).shape == (2, 7, 3, 4)
    for index, name in enumerate(("value", "coord", "weight")):
        given = tensors(grad=True)
        given[index] = given[index].detach().to("meta").requires_grad_()
        with pytest.raises(libmsda.InvalidArgumentError, match=f"{name} is a .* tensor on meta"):
            call(False, given)


def test_compiled_code_refuses_what_eager_code_refuses():
    torch._dynamo.reset()
    compiled = torch.compile(lambda *t: call(False, t), fullgraph=True, backend="eager")
    with pytest.raises(Exception, match=r"6 x 5 \+ 3 x 2 pixels, not 35"):
        compiled(VALUE[:, 1:], COORD, WEIGHT)


def test_integers_have_no_gradients():
    for index, name in enumerate(("value", "coord", "weight")):
        given = tensors(grad=True)
        given[index] = (100 * given[index].detach()).long()
        with pytest.raises(libmsda.InvalidArgumentError, match=f"{name}.dtype is 'int64': must be"):
            call(False, given)


def test_a_scale_has_no_gradient():
    value, coord, weight = tensors()
    scale = torch.ones(3, requires_grad=True)
    given = value.to(FLOAT8), LEVELS, coord, weight
    with pytest.raises(libmsda.InvalidArgumentError, match="value_scale requires a gradient"):
        ours.forward(*given, value_scale=scale)
    with torch.no_grad():
        assert torch.equal(ours.forward(*given, value_scale=scale), ours.forward(*given))


def test_settings_that_cannot_be_hashed_are_refused():
    for name, words in [
        ("threads", r"threads is \[1\]: must be an integer"),
        ("math_mode", r"math_mode is \[1\]: must be one of"),
        ("kernel", r"kernel is \[1\]: must be a kernel id"),
    ]:
        with pytest.raises(libmsda.InvalidArgumentError, match=words):
            call(False, tensors(), **{name: [1]})
