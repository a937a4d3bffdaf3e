"""Problem: the shapes, strides and types of one computation, in the words of the C interface."""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from .._cdef import TENSORS as TENSOR_ROWS
from .errors import InvalidArgumentError
from .library import ffi, lib

Strides = tuple[int, int, int]
PACKED: Strides = (0, 0, 0)

# Element types by the name that numpy, ml_dtypes, torch and JAX have for them.
DTYPE_CODES = {
    "float64": lib.MSDA_DTYPE_F64,
    "float32": lib.MSDA_DTYPE_F32,
    "float16": lib.MSDA_DTYPE_F16,
    "bfloat16": lib.MSDA_DTYPE_BF16,
    "float8_e4m3fn": lib.MSDA_DTYPE_F8_E4M3,
}
ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1}
_WIDE_DTYPES = [name for name in DTYPE_CODES if name != "float8_e4m3fn"]

_OPERATIONS = {"forward": lib.MSDA_FORWARD, "backward": lib.MSDA_BACKWARD}
_INPUT_MODES = {"sampled": lib.MSDA_INPUT_SAMPLED, "fused": lib.MSDA_INPUT_FUSED}
MATH_MODES = {"accurate": lib.MSDA_MATH_ACCURATE, "fast": lib.MSDA_MATH_FAST}

POINT_LOCALITIES = {
    "unknown": lib.MSDA_POINTS_UNKNOWN,
    "local": lib.MSDA_POINTS_LOCAL,
    "scattered": lib.MSDA_POINTS_SCATTERED,
}

SAMPLING_MODES = {"bilinear": lib.MSDA_SAMPLING_BILINEAR, "nearest": lib.MSDA_SAMPLING_NEAREST}

_INT32_MAX, _INT64_MAX = 2**31 - 1, 2**63 - 1


class TensorRow(NamedTuple):
    """What a tensor is: src/core/tensors.inc."""

    axes: str  # in letters; R is reference_dim
    dtype: str | None  # the Problem field of its type; None: float32
    strides: str | None  # the Problem field of its strides; None: packed
    operation: str | None  # that it belongs to; None: both
    input_mode: str | None
    is_optional: bool
    is_result: bool
    is_extra: bool  # computed only where a call asks for it by name


TENSORS = {name: TensorRow(*row) for name, row in TENSOR_ROWS.items()}
_STRIDES = sorted({row.strides for row in TENSORS.values() if row.strides})


def dtype_name(field: str, given: Any) -> str:
    """The library's name of an element type that `given` names or is: a text, a numpy or torch
    dtype, or a scalar type such as numpy.float32."""
    name = given
    if not isinstance(name, str):
        name = getattr(given, "name", None) or getattr(given, "__name__", None) or str(given)
        name = str(name).rpartition(".")[2]
    # float8 holds nothing but values.
    allowed = DTYPE_CODES if field in ("value_dtype", "value.dtype") else _WIDE_DTYPES
    if name not in allowed:
        shown = repr(given) if isinstance(given, str) else given
        raise InvalidArgumentError(f"{field} is {shown}: must be one of {', '.join(allowed)}")
    return name


def packed_strides(shape: tuple[int, ...]) -> Strides:
    """Element strides of the first three axes of a packed array."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(3))  # type: ignore[return-value]


def integer(field: str, given: Any, largest: int = _INT64_MAX) -> int:
    try:
        number = operator.index(given)
    except TypeError:
        raise InvalidArgumentError(f"{field} is {given!r}: must be an integer") from None
    if not 0 <= number <= largest:
        raise InvalidArgumentError(f"{field} is {number}: must be 0 to {largest}")
    return number


def level_pairs(given: Any) -> tuple[tuple[int, int], ...]:
    """level_hw as a tuple of pairs of integers; Problem says what sizes are allowed."""
    if type(given) is list:
        given = tuple(given)
    if type(given) is tuple:
        for row in given:
            if type(row) is not tuple or len(row) != 2 or type(row[0]) is not int or type(row[1]) is not int:
                break
        else:
            return given
    else:
        if hasattr(given, "tolist"):  # numbers of an array are slow to take one by one
            given = given.tolist()
        try:
            given = [*given]
        except TypeError:
            return pairs("level_hw", given)
    index = operator.index
    try:
        return tuple([(index(h), index(w)) for h, w in given])
    except (TypeError, ValueError):
        return pairs("level_hw", given)


def pairs(field: str, given: Any) -> tuple[tuple[int, int], ...]:
    """Pairs (H, W) of what is an iterable of such pairs."""
    if hasattr(given, "tolist"):
        given = given.tolist()
    rows = []
    try:
        given = list(given)
        rows = [tuple(row) for row in given]
    except TypeError:
        message = f"{field} is {given!r}: must be pairs (H, W)"
        if isinstance(given, list) and given and not len(given) % 2:
            message += f"; if these are H and W in turn, {list(zip(given[::2], given[1::2]))} is meant"
        raise InvalidArgumentError(message) from None
    for index, row in enumerate(rows):
        if len(row) != 2:
            raise InvalidArgumentError(f"{field}[{index}] is {row}: must be a pair (H, W)")
    return tuple(
        (integer(f"{field}[{i}][0]", h, _INT32_MAX), integer(f"{field}[{i}][1]", w, _INT32_MAX))
        for i, (h, w) in enumerate(rows)
    )


def check_choice(field: str, given: Any, allowed: dict[str, int]) -> None:
    if not isinstance(given, str) or given not in allowed:
        raise InvalidArgumentError(f"{field} is {given!r}: must be one of {', '.join(allowed)}")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """The shapes, strides and types of one computation. Immutable; equal problems are equal.

    B batch, S tokens of a value, M heads, D channels of a head, Q queries, L levels,
    P points of a level, K points of all levels together. Every field is checked. Raises
    InvalidArgumentError, which names the field, its value and what is allowed.

    level_hw          L pairs (H, W), in pixels.
    points            P: one number for all levels, or one for each.
    batch, query_count, head_count, head_dim    B, Q, M, D.
    value_dtype       "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", or such a dtype
                      of numpy, ml_dtypes, torch or JAX; kept as its name.
    coord_dtype, weight_dtype    None: float64 when value is, else float32. Not float8.
    reference_dtype   of reference and its gradient; None: coord_dtype. Not float8.
    output_dtype, grad_value_dtype    None: like value; float32 when value is float8.
    operation         "forward" or "backward".
    input_mode        "sampled": coord and weight; "fused": reference, offset and logit.
    reference_dim     of a fused problem: 2 = (x, y), 4 = (cx, cy, w, h).
    value_border      True: every level is stored (H+2) x (W+2), with a border of zeros around it.
    math_mode         "accurate" or "fast" (16-bit values may be summed in 16 bits, 8 at a time).
    deterministic     False allows kernels whose gradients differ in the last bits from run to run.
    query_hw          the queries are the pixels, row by row, of these grids (H, W) in turn; None:
                      they are not. A hint that never changes a result.
    point_locality    where points land: "local", near those of the neighbouring queries; "scattered",
                      anywhere on the maps; "unknown". A hint for the choice of the kernel.
    level_start       the token at which each level starts, in any order, with gaps or not; None: one
                      level after another.
    token_count       S; 0: where the last level ends, which the field is then.
    value_strides     element strides of [B][S][M]; (0, 0, 0) is packed. 0 in part repeats an input.
    coord_strides     of [B][Q][M] of coord and offset; weight_strides of weight and logit;
    output_strides    of output and grad_output. Inner axes and all other arrays are packed.
    grad_coord_strides    of grad_coord and grad_offset; grad_weight_strides of grad_weight and
                      grad_logit. Rows must not overlap; the two can be parts of one array.
    sampling_mode     "bilinear": four pixels; "nearest": pixel int(x W + 0.5), int(y H + 0.5) of the
                      level, that of its edge where this is outside; gradients by coord are zero.
    """

    level_hw: Sequence[Sequence[int]]
    points: int | Sequence[int]
    batch: int
    query_count: int
    head_count: int
    head_dim: int
    value_dtype: Any = "float32"
    coord_dtype: Any = None
    weight_dtype: Any = None
    output_dtype: Any = None
    grad_value_dtype: Any = None
    operation: Literal["forward", "backward"] = "forward"
    input_mode: Literal["sampled", "fused"] = "sampled"
    reference_dim: int = 0
    value_border: bool = False
    math_mode: Literal["accurate", "fast"] = "accurate"
    deterministic: bool = True
    query_hw: Sequence[Sequence[int]] | None = None
    point_locality: Literal["unknown", "local", "scattered"] = "unknown"
    value_strides: Strides = PACKED
    coord_strides: Strides = PACKED
    weight_strides: Strides = PACKED
    output_strides: Strides = PACKED
    level_start: Sequence[int] | None = None
    token_count: int = 0
    grad_coord_strides: Strides = PACKED
    grad_weight_strides: Strides = PACKED
    sampling_mode: Literal["bilinear", "nearest"] = "bilinear"
    reference_dtype: Any = None

    def __post_init__(self) -> None:
        put = lambda field, value: object.__setattr__(self, field, value)
        put("level_hw", pairs("level_hw", self.level_hw))
        if self.query_hw is not None:
            put("query_hw", pairs("query_hw", self.query_hw))
        put("points", self._points_of_levels())
        for field in ("batch", "query_count", "head_count", "head_dim"):
            put(field, integer(field, getattr(self, field)))
        put("reference_dim", integer("reference_dim", self.reference_dim, _INT32_MAX))
        put("value_border", bool(integer("value_border", self.value_border, 1)))
        put("deterministic", bool(self.deterministic))
        check_choice("operation", self.operation, _OPERATIONS)
        check_choice("input_mode", self.input_mode, _INPUT_MODES)
        check_choice("math_mode", self.math_mode, MATH_MODES)
        check_choice("point_locality", self.point_locality, POINT_LOCALITIES)
        check_choice("sampling_mode", self.sampling_mode, SAMPLING_MODES)
        self._resolve_dtypes(put)
        for field in _STRIDES:
            given = getattr(self, field)
            strides = tuple(given) if isinstance(given, tuple | list) else ()
            if len(strides) != 3:
                raise InvalidArgumentError(f"{field} is {given}: must be three numbers")
            put(field, tuple(integer(f"{field}[{i}]", s) for i, s in enumerate(strides)))
        self._place_levels(put)

    def _points_of_levels(self) -> tuple[int, ...]:
        levels, points = len(self.level_hw), self.points
        if hasattr(points, "tolist"):
            points = points.tolist()
        if not isinstance(points, tuple | list):
            points = [integer("points", points, _INT32_MAX)] * levels
        if len(points) != levels:
            raise InvalidArgumentError(
                f"points has {len(points)} entries: must have one for each of the {levels} levels"
            )
        return tuple(integer(f"points[{i}]", p, _INT32_MAX) for i, p in enumerate(points))

    def _place_levels(self, put: Any) -> None:
        border = 2 * self.value_border
        tokens = [(h + border) * (w + border) for h, w in self.level_hw]
        starts = packed = tuple(sum(tokens[:i]) for i in range(len(tokens)))
        if self.level_start is not None:
            starts = tuple(integer(f"level_start[{i}]", s) for i, s in enumerate(self.level_start))
            if len(starts) != len(tokens):
                raise InvalidArgumentError(
                    f"level_start has {len(starts)} entries: must have one for each of the "
                    f"{len(tokens)} levels"
                )
        put("level_start", None if starts == packed else starts)
        end = max((start + count for start, count in zip(starts, tokens)), default=0)
        put("token_count", integer("token_count", self.token_count) or end)

    def _resolve_dtypes(self, put: Any) -> None:
        value = dtype_name("value_dtype", self.value_dtype)
        like_value = value if ITEM_BYTES[value] > 1 else "float32"
        sampling = value if value == "float64" else "float32"
        put("value_dtype", value)
        for field, default in (
            ("coord_dtype", sampling),
            ("weight_dtype", sampling),
            ("output_dtype", like_value),
            ("grad_value_dtype", like_value),
        ):
            given = getattr(self, field)
            put(field, default if given is None else dtype_name(field, given))
        reference = self.reference_dtype
        put(
            "reference_dtype",
            self.coord_dtype if reference is None else dtype_name("reference_dtype", reference),
        )

    @property
    def point_total(self) -> int:
        """K, the points of all levels."""
        return sum(self.points)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Returns the shape of a `tensor` by its name, such as "value" or "grad_coord". Raises KeyError."""
        size = {
            "B": self.batch,
            "S": self.token_count,
            "M": self.head_count,
            "D": self.head_dim,
            "Q": self.query_count,
            "L": len(self.level_hw),
            "K": self.point_total,
            "R": self.reference_dim,
            "2": 2,
        }
        return tuple(size[letter] for letter in TENSORS[tensor].axes)

    def dtype(self, tensor: str) -> str:
        """Returns the name of the element type of a `tensor` by its name. Raises KeyError."""
        field = TENSORS[tensor].dtype
        return "float32" if field is None else getattr(self, field)

    def strides(self, tensor: str) -> Strides:
        """Returns element strides of the first three axes of a `tensor` by its name; PACKED (0, 0, 0)
        where it is packed. Axes of length 1 count as packed, whatever stride they were given. Raises
        KeyError."""
        field = TENSORS[tensor].strides
        given = PACKED if field is None else getattr(self, field)
        shape = self.shape(tensor)
        packed = packed_strides(shape)
        if given == PACKED or 0 in shape:
            return PACKED
        used = tuple(s if n > 1 else p for n, s, p in zip(shape, given, packed))
        return PACKED if used == packed else used

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the tensors that are read and must be given."""
        return self._tensors(lambda row: not row.is_result and not row.is_optional)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the tensors that can be computed."""
        return self._tensors(lambda row: row.is_result and not row.is_extra)

    @property
    def extras(self) -> tuple[str, ...]:
        """The names of the tensors that are computed only where a call asks for them by name."""
        return self._tensors(lambda row: row.is_extra)

    def _tensors(self, wanted: Callable[[TensorRow], bool]) -> tuple[str, ...]:
        mine = (None, self.operation), (None, self.input_mode)
        return tuple(
            name
            for name, row in TENSORS.items()
            if row.operation in mine[0] and row.input_mode in mine[1] and wanted(row)
        )

    def to_c(self) -> tuple[Any, Any]:
        """The msda_problem, and what must live as long as it is used."""
        flat = lambda pairs: [number for pair in pairs for number in pair]
        level_hw = ffi.new("int32_t[]", flat(self.level_hw))
        points = ffi.new("int32_t[]", list(self.points))
        c = ffi.new("msda_problem*")
        c.struct_size = ffi.sizeof("msda_problem")
        c.level_hw, c.point_counts = level_hw, points
        c.level_count = len(self.level_hw)
        level_start = ffi.NULL
        if self.level_start is not None:
            level_start = c.level_start = ffi.new("int64_t[]", list(self.level_start))
        query_hw = ffi.NULL
        if self.query_hw:
            query_hw = c.query_hw = ffi.new("int32_t[]", flat(self.query_hw))
            c.query_grid_count = len(self.query_hw)
        for field in (
            "batch",
            "query_count",
            "head_count",
            "head_dim",
            "token_count",
            "reference_dim",
            "value_border",
            *_STRIDES,
        ):
            setattr(c, field, getattr(self, field))
        for field in fields(self):
            if field.name.endswith("_dtype"):
                setattr(c, field.name, DTYPE_CODES[getattr(self, field.name)])
        c.operation = _OPERATIONS[self.operation]
        c.input_mode = _INPUT_MODES[self.input_mode]
        c.math_mode = MATH_MODES[self.math_mode]
        c.point_locality = POINT_LOCALITIES[self.point_locality]
        c.sampling_mode = SAMPLING_MODES[self.sampling_mode]
        c.determinism = lib.MSDA_DETERMINISTIC if self.deterministic else lib.MSDA_NONDETERMINISTIC
        return c, (level_hw, points, query_hw, level_start)
