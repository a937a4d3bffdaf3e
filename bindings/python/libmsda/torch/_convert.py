"""from_module(): MSDeformAttn in the place of the attention modules of a model of another project.

A module keeps its identity, layers, hooks and state dict. Its class becomes one that derives from
MSDeformAttn, with the call of the module's project, and from the module's own class.
"""

import copy
import functools
import inspect
from typing import Any, NamedTuple

import torch
from torch import nn

from ._levels import level_shapes
from ._module import LAYERS, MSDeformAttn, Sizes

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def from_module(model: nn.Module, *, return_weights: bool = False) -> "Conversion":
    """Has every attention module in `model`, or `model` itself, computed by MSDeformAttn.

        with libmsda.torch.from_module(model) as conversion:
            print(conversion)                # what was converted, and what was left with its reason
            model(**inputs).loss.backward()

    Modules of Deformable-DETR, mmcv, transformers, Ultralytics, GroundingDINO and of what derives from
    them are known by their layers and the names of forward()'s parameters. Each is compared with a
    random problem first, in a copy: one that computes something else is left as it is.

    return_weights    modules of transformers return attention weights, as output_attentions=True
                      needs them; else they return None in their place.

    Compiled code that holds the model is compiled anew at its next call. Returns a Conversion, which
    undo() or the end of a `with` block takes back. Raises LookupError where the model has no such module.
    """
    converted, left = {}, {}
    for name, module in model.named_modules():
        if isinstance(module, MSDeformAttn):
            left[name] = "it is an MSDeformAttn already"
        elif _looks_like_attention(module):
            try:
                converted[name] = module, _state_of(module, return_weights)
            except _Unlike as reason:
                left[name] = str(reason)
    if not converted and not left:
        raise LookupError(
            f"{type(model).__name__} has no module with layers sampling_offsets and attention_weights"
        )
    return Conversion(converted, left)


class Conversion:
    """Modules that MSDeformAttn computes, until undo() or the end of a `with` block.

    converted    their names in the model
    left         names of attention modules that stay as they are, and why

    from_module() makes one of what it `found`. Raises nothing.
    """

    def __init__(self, found: dict[str, tuple[nn.Module, "_State"]], left: dict[str, str]):
        self.converted, self.left = tuple(found), left
        self._before = []
        for module, state in found.values():
            self._before.append((module, type(module)))
            vars(module).update(state.attributes)
            module.__class__ = _class_of(state.convention, type(module))

    def undo(self) -> None:
        """Gives the modules their own classes back; parameters keep what they learned meanwhile."""
        while self._before:
            module, before = self._before.pop()
            module.__class__ = before
            for name in _State.NAMES:
                del vars(module)[name]

    def __enter__(self) -> "Conversion":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = [f"{len(self.converted)} modules by MSDeformAttn, {len(self.left)} left as they are"]
        lines += [f"  {name or 'the model itself'}" for name in self.converted]
        lines += [f"  left {name or 'the model itself'}: {why}" for name, why in self.left.items()]
        return "\n".join(lines)


class _Unlike(Exception):
    """Why a module is left as it is."""


class _State:
    """What a converted module has beside its own attributes."""

    NAMES = ("_sizes", "_mask_is_of_padding", "_return_weights")

    def __init__(self, convention: type[MSDeformAttn], *values: Any):
        self.convention, self.attributes = convention, dict(zip(self.NAMES, values))


def _looks_like_attention(module: nn.Module) -> bool:
    return all(isinstance(getattr(module, name, None), nn.Module) for name in LAYERS[1:3])


def _state_of(module: nn.Module, return_weights: bool) -> _State:
    """How to compute the module; _Unlike where MSDeformAttn cannot."""
    missing = [name for name in LAYERS if not isinstance(getattr(module, name, None), nn.Module)]
    if missing:
        raise _Unlike(f"it has no layer {', '.join(missing)}")
    for name in LAYERS:
        _check_layer(name, getattr(module, name))
    parameters = inspect.signature(module.forward).parameters
    convention = next((one for one in _CONVENTIONS if one.PARAMETERS <= parameters.keys()), None)
    if convention is None or "forward" in vars(module):
        raise _Unlike(f"its forward({', '.join(parameters)}) is of no known project")
    sizes = _sizes_of(module)
    failed = None
    for mask_is_of_padding in (True, False):
        state = _State(convention, sizes, mask_is_of_padding, return_weights)
        failed = _difference(module, state)
        if failed is None:
            return state
    raise _Unlike(failed)


def _check_layer(name: str, layer: nn.Module) -> None:
    if type(layer) is not nn.Linear:
        raise _Unlike(f"{name} is a {type(layer).__name__}, not a torch.nn.Linear")
    if layer.bias is None:
        raise _Unlike(f"{name} has no bias")
    if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks:
        raise _Unlike(f"{name} has hooks, which MSDeformAttn would not call")
    if layer.weight.dtype not in _DTYPES:
        raise _Unlike(f"{name} is of {layer.weight.dtype}, which libmsda does not take")
    if layer.weight.device.type not in ("cpu", "cuda"):
        raise _Unlike(f"{name} is on {layer.weight.device}; libmsda computes on the CPU and CUDA")


def _sizes_of(module: nn.Module) -> Sizes:
    numbers = []
    for names in (("n_heads", "num_heads"), ("n_levels", "num_levels"), ("n_points", "num_points")):
        number = next((getattr(module, name) for name in names if hasattr(module, name)), None)
        if not isinstance(number, int):
            raise _Unlike(f"its {names[0]} is {number}, where MSDeformAttn needs one number")
        numbers.append(number)
    sizes = Sizes(*numbers)
    value, offsets, logits, output = (getattr(module, name) for name in LAYERS)
    for name, found, wanted in (
        ("sampling_offsets", offsets.out_features, 2 * sizes.points),
        ("attention_weights", logits.out_features, sizes.points),
        ("attention_weights, by inputs,", logits.in_features, offsets.in_features),
        ("output_proj, by inputs,", output.in_features, value.out_features),
        ("value_proj", value.out_features % sizes.head_count, 0),
    ):
        if found != wanted:
            words = "M {}, L {}, P {}".format(*sizes)
            raise _Unlike(f"{name} has {found} features where {words} need {wanted}")
    return sizes


def _difference(module: nn.Module, state: _State) -> str | None:
    """How the module and its conversion differ on a random problem; None where they do not."""
    try:
        stock = copy.deepcopy(module).eval()
    except Exception as error:  # noqa: BLE001, whatever a module's own code raises
        return f"it cannot be copied for a comparison: {error}"
    weight = stock.value_proj.weight
    make = torch.Generator().manual_seed(1)
    rand = lambda *shape: torch.rand(shape, generator=make).to(weight) - 0.5
    with torch.no_grad():
        for parameter in stock.parameters():
            parameter.copy_(rand(*parameter.shape))
    ours = copy.copy(stock)
    vars(ours).update(state.attributes)
    ours.__class__ = _class_of(state.convention, type(stock))
    levels = [(3, 2), (2, 4), (1, 2), (2, 2)] * state.attributes["_sizes"].level_count
    levels = levels[: state.attributes["_sizes"].level_count]
    tokens, queries = sum(height * width for height, width in levels), 5
    query = rand(2, queries, stock.sampling_offsets.in_features)
    value = rand(2, tokens, stock.value_proj.in_features)
    mask = torch.rand((2, tokens), generator=make).to(weight.device) < 0.3
    compared = 0
    with torch.no_grad(), torch.autocast(weight.device.type, enabled=False):
        for reference_levels, dims in ((len(levels), 2), (len(levels), 4), (1, 4)):
            reference = rand(2, queries, reference_levels, dims) + 0.5
            given = _Problem(query, rand(*query.shape), value, mask, reference, levels)
            call = state.convention.arguments(module, given)
            try:
                wanted = stock(**call)
            except Exception:  # noqa: BLE001, a project may take only one kind of reference
                continue
            found = ours(**call)
            wanted, found = (one[0] if isinstance(one, tuple) else one for one in (wanted, found))
            error = (found.double() - wanted.double()).norm() / wanted.double().norm()
            if not error < 100 * torch.finfo(weight.dtype).eps:
                return f"its output differs from MSDeformAttn's by {error:.1e} on a random problem"
            compared += 1
    return None if compared else "its forward() takes neither points nor boxes as references"


class _Problem(NamedTuple):
    """The tensors with which a module and its conversion are compared, and (H, W) of each level."""

    query: torch.Tensor
    position: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor
    reference: torch.Tensor
    levels: list[tuple[int, int]]


@functools.lru_cache
def _class_of(convention: type[MSDeformAttn], stock: type[nn.Module]) -> type[MSDeformAttn]:
    return type("MSDeformAttn", (convention, stock), {"__module__": MSDeformAttn.__module__})


class _Transformers(MSDeformAttn):
    PARAMETERS = {
        "hidden_states",
        "encoder_hidden_states",
        "position_embeddings",
        "reference_points",
        "spatial_shapes_list",
    }

    @staticmethod
    def arguments(module: nn.Module, given: _Problem) -> dict[str, Any]:
        """A call of the project's forward()."""
        call = dict(
            hidden_states=given.query,
            attention_mask=given.mask,
            encoder_hidden_states=given.value,
            position_embeddings=given.position,
            reference_points=given.reference,
            spatial_shapes_list=given.levels,
        )
        if "spatial_shapes" in inspect.signature(module.forward).parameters:
            call["spatial_shapes"] = torch.tensor(given.levels, device=given.query.device)
        return call

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        encoder_hidden_states: torch.Tensor | None = None,
        encoder_attention_mask: Any = None,
        position_embeddings: torch.Tensor | None = None,
        reference_points: torch.Tensor | None = None,
        spatial_shapes: Any = None,
        spatial_shapes_list: Any = None,
        level_start_index: Any = None,
        output_attentions: bool = False,
        **_rest: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        weights = self._return_weights or output_attentions
        found = MSDeformAttn.forward(
            self,
            hidden_states,
            reference_points,
            spatial_shapes_list,
            None if encoder_hidden_states is hidden_states else encoder_hidden_states,
            position=position_embeddings,
            padding_mask=_padding(attention_mask, self._mask_is_of_padding),
            return_weights=weights,
        )
        return found if weights else (found, None)


class _Mmcv(MSDeformAttn):
    """mmcv, onedl-mmcv, detrex; GroundingDINO, which has no `identity` and adds none."""

    PARAMETERS = {"query", "value", "query_pos", "key_padding_mask", "reference_points", "spatial_shapes"}

    @staticmethod
    def arguments(module: nn.Module, given: _Problem) -> dict[str, Any]:
        turn = lambda t: t if module.batch_first else t.transpose(0, 1)
        return dict(
            query=turn(given.query),
            value=turn(given.value),
            query_pos=turn(given.position),
            key_padding_mask=given.mask,
            reference_points=given.reference,
            **_shapes("spatial_shapes", "level_start_index", given.levels, given.query.device),
        )

    def forward(
        self,
        query: torch.Tensor,
        key: Any = None,
        value: torch.Tensor | None = None,
        identity: torch.Tensor | None = None,
        query_pos: torch.Tensor | None = None,
        key_padding_mask: torch.Tensor | None = None,
        reference_points: torch.Tensor | None = None,
        spatial_shapes: Any = None,
        level_start_index: Any = None,
        **_rest: Any,
    ) -> torch.Tensor:
        turn = lambda t: t if self.batch_first or t is None else t.transpose(0, 1)
        output = MSDeformAttn.forward(
            self,
            turn(query),
            reference_points,
            level_shapes(spatial_shapes),
            None if value is query else turn(value),
            position=turn(query_pos),
            padding_mask=_padding(key_padding_mask, self._mask_is_of_padding),
        )
        if not hasattr(self, "dropout"):
            return turn(output)
        return self.dropout(turn(output)) + (query if identity is None else identity)


class _DeformableDetr(MSDeformAttn):
    """Deformable-DETR, DINO, Mask2Former, rf-detr."""

    PARAMETERS = {"query", "reference_points", "input_flatten", "input_spatial_shapes"}

    @staticmethod
    def arguments(module: nn.Module, given: _Problem) -> dict[str, Any]:
        return dict(
            query=given.query,
            reference_points=given.reference,
            input_flatten=given.value,
            input_padding_mask=given.mask,
            **_shapes("input_spatial_shapes", "input_level_start_index", given.levels, given.query.device),
        )

    def forward(
        self,
        query: torch.Tensor,
        reference_points: torch.Tensor,
        input_flatten: torch.Tensor,
        input_spatial_shapes: Any,
        input_level_start_index: Any = None,
        input_padding_mask: torch.Tensor | None = None,
        **_rest: Any,
    ) -> torch.Tensor:
        return MSDeformAttn.forward(
            self,
            query,
            reference_points,
            level_shapes(input_spatial_shapes),
            None if input_flatten is query else input_flatten,
            padding_mask=_padding(input_padding_mask, self._mask_is_of_padding),
        )


class _Ultralytics(MSDeformAttn):
    PARAMETERS = {"query", "refer_bbox", "value", "value_shapes"}

    @staticmethod
    def arguments(module: nn.Module, given: _Problem) -> dict[str, Any]:
        return dict(
            query=given.query,
            refer_bbox=given.reference,
            value=given.value,
            value_shapes=given.levels,
            value_mask=given.mask,
        )

    def forward(
        self,
        query: torch.Tensor,
        refer_bbox: torch.Tensor,
        value: torch.Tensor,
        value_shapes: Any,
        value_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return MSDeformAttn.forward(
            self,
            query,
            refer_bbox,
            level_shapes(value_shapes),
            None if value is query else value,
            padding_mask=_padding(value_mask, self._mask_is_of_padding),
        )


_CONVENTIONS = (_Transformers, _Mmcv, _DeformableDetr, _Ultralytics)


def _padding(mask: torch.Tensor | None, is_of_padding: bool) -> torch.Tensor | None:
    if mask is None:
        return None
    mask = mask.bool()
    return mask if is_of_padding else ~mask


def _shapes(
    shapes: str, starts: str, levels: list[tuple[int, int]], device: torch.device
) -> dict[str, torch.Tensor]:
    """The levels as the two tensors that compiled extensions take."""
    given = torch.tensor(levels, device=device)
    sizes = given.prod(1)
    return {shapes: given, starts: sizes.cumsum(0) - sizes}
