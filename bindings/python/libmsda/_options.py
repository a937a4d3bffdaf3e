"""Options: the keywords that forward, forward_fused, backward and backward_fused have in common."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from ._core.errors import InvalidArgumentError
from ._core.handle import Handle
from ._core.problem import (
    MATH_MODES,
    POINT_LOCALITIES,
    SAMPLING_MODES,
    check_choice,
    integer,
    pairs,
)

_INT32_MAX = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """What the four functions take beside their arrays, as keywords or as options=Options(...).

    Immutable. Raises InvalidArgumentError that names the field, its value and what is allowed.

    points            points of each level: one number, or L of them that sum to K. None: all the
                      same.
    level_start_index [L] integers: the token at which each level begins, in any order, with gaps or
                      not; each level ends within value's S tokens. None: one after another.
    value_scale       [M] float32: multiplies the values of each head. float8 values only.
    value_border      True: each level is stored (H+2) x (W+2), with a border of zeros around it.
    query_hw          grids (H, W) whose pixels the queries are, in order: a hint for speed that
                      never changes a result.
    point_locality    "local", "scattered" or "unknown": where points land, a hint for the choice of
                      the kernel.
    math_mode         "accurate": sums in float32 (float64 for float64 values). "fast": 16-bit values
                      may be summed in 16 bits, at most 8 at a time.
    kernel            a kernel id of libmsda.kernels(); None: the one predicted to be fastest.
    threads           CPU: how many work on the call; None or 0: all. Never changes the result.
    handle            a Handle to run on, instead of threads.
    sampling_mode     "bilinear": a point samples four pixels. "nearest": one, int(x W + 0.5) and
                      int(y H + 0.5) rounded towards 0, that of the level's edge where this is
                      outside; the gradients of coord, reference and offset are zero.
    """

    points: int | Sequence[int] | None = None
    level_start_index: Any = None
    value_scale: Any = None
    value_border: bool = False
    query_hw: Sequence[Sequence[int]] | None = None
    point_locality: Literal["unknown", "local", "scattered"] = "unknown"
    math_mode: Literal["accurate", "fast"] = "accurate"
    kernel: str | None = None
    threads: int | None = None
    handle: Handle | None = None
    sampling_mode: Literal["bilinear", "nearest"] = "bilinear"
    key: tuple[Any, ...] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        put = lambda field, value: object.__setattr__(self, field, value)
        if self.points is not None:
            put("points", integers("points", self.points))
        if self.level_start_index is not None:
            put("level_start_index", integers("level_start_index", self.level_start_index))
        put("value_border", bool(integer("value_border", self.value_border, 1)))
        if self.query_hw is not None:
            put("query_hw", pairs("query_hw", self.query_hw))
        check_choice("point_locality", self.point_locality, POINT_LOCALITIES)
        check_choice("math_mode", self.math_mode, MATH_MODES)
        check_choice("sampling_mode", self.sampling_mode, SAMPLING_MODES)
        if self.threads is not None:
            put("threads", integer("threads", self.threads, _INT32_MAX))
            if self.handle is not None:
                raise InvalidArgumentError(
                    f"threads is {self.threads}: must be None when handle is given"
                )
        if self.handle is not None and not isinstance(self.handle, Handle):
            raise InvalidArgumentError(
                f"handle is {self.handle!r}: must be a libmsda.Handle or None"
            )
        if self.kernel is not None and not isinstance(self.kernel, str):
            raise InvalidArgumentError(
                f"kernel is {self.kernel!r}: must be a kernel id, such as ref.cpu@1"
            )
        put(
            "key",
            (
                self.points,
                self.level_start_index,
                self.value_border,
                self.query_hw,
                self.point_locality,
                self.math_mode,
                self.kernel,
                self.sampling_mode,
            ),
        )

    def of_problem(self) -> dict[str, Any]:
        """The fields that Problem has, too."""
        return dict(
            value_border=self.value_border,
            query_hw=self.query_hw,
            point_locality=self.point_locality,
            math_mode=self.math_mode,
            sampling_mode=self.sampling_mode,
        )


class SharedKeywords(TypedDict, total=False):
    """The fields of Options that libmsda.torch takes as keywords, too."""

    points: int | Sequence[int] | None
    level_start_index: Any
    value_border: bool
    query_hw: Sequence[Sequence[int]] | None
    point_locality: Literal["unknown", "local", "scattered"]
    math_mode: Literal["accurate", "fast"]
    kernel: str | None
    threads: int | None
    sampling_mode: Literal["bilinear", "nearest"]


class Keywords(SharedKeywords, total=False):
    """The fields of Options, for type checkers: what the four functions take as keywords."""

    value_scale: Any
    handle: Handle | None


DEFAULT = Options()
_FIELDS = [field.name for field in dataclasses.fields(Options) if field.init]


def options_of(function: str, options: Options | None, keywords: dict[str, Any]) -> Options:
    """The options of a call, of the object and of the keywords, which go before it."""
    if options is not None and not isinstance(options, Options):
        raise InvalidArgumentError(f"options is {options!r}: must be a libmsda.Options or None")
    if not keywords:
        return options or DEFAULT
    for name in keywords:
        if name not in _FIELDS:
            raise TypeError(
                f"{function}() got an unexpected keyword argument {name!r}; "
                f"there are {', '.join(_FIELDS)}"
            )
    return dataclasses.replace(options, **keywords) if options else Options(**keywords)


def integers(field: str, given: Any) -> int | tuple[int, ...]:
    """One integer, or a tuple of them."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        return integer(field, given, 2**63 - 1)
    return tuple([integer(f"{field}[{i}]", n, 2**63 - 1) for i, n in enumerate(given)])
