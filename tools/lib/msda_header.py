"""The public header include/msda.h as data, read with libclang, and the table of its tensors.

tools/generate writes the bindings from it and tools/check tidy checks its comments. The result depends on
the header alone: the target is always x86-64 Linux, and the two system headers it includes are replaced
by the stand-ins below, so every machine reads the same types.
"""

import contextlib
import pathlib
import re
import tempfile
import types
from dataclasses import dataclass

from clang import cindex

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "msda.h"
TENSORS = ROOT / "src" / "core" / "tensors.inc"
TARGET = "x86_64-unknown-linux-gnu"

_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
_SYSTEM_HEADERS = {
    "stddef.h": "typedef __SIZE_TYPE__ size_t;\n#define NULL ((void*)0)\n",
    "stdint.h": "".join(f"typedef __{name}_TYPE__ {name.lower()}_t;\n" for name in _INTEGERS),
}


class Declared(types.SimpleNamespace):
    """A declaration: its name, comment and line, and what Header says of its kind. Types are texts; sizes are in bytes."""

    def __init__(self, cursor, **more):
        super().__init__(name=cursor.spelling, comment=cursor.raw_comment or "", line=cursor.location.line, **more)


@dataclass
class Tensor:
    """A row of src/core/tensors.inc, which says what the columns mean."""

    name: str
    id: str
    axes: str
    dtype: str | None  # a field of msda_problem; None: float32
    strides: str | None  # likewise; None: packed
    operation: str | None  # "forward" or "backward"; None: both
    input_mode: str | None  # "sampled" or "fused"; None: both
    is_optional: bool
    is_result: bool
    is_extra: bool  # computed only where a call asks for it by name


@dataclass
class Header:
    text: str
    constants: list[Declared]  # of the preprocessor: value
    typedefs: list[Declared]  # type: an integer's with enumerators (value), a pointer to an opaque struct's, or an opaque struct
    callbacks: list[Declared]  # as functions
    structs: list[Declared]  # size, alignment, fields (type, offset, size)
    functions: list[Declared]  # declaration, result, parameters (type), is_callback

    def constant(self, name: str) -> int:
        return next(c.value for c in self.constants if c.name == name)


def declare(type_text: str, name: str) -> str:
    """`name` declared with a type: ("int64_t[3]", "strides") gives "int64_t strides[3]"."""
    element, bracket, count = type_text.partition("[")
    element = re.sub(r" +(?=\*)", "", element.strip())
    return f"{element} {name}{bracket}{count}"


@contextlib.contextmanager
def clang_arguments():
    """The compiler's arguments; the stand-ins of the system headers live as long as the context."""
    with tempfile.TemporaryDirectory(prefix="msda-header-") as folder:
        for name, text in _SYSTEM_HEADERS.items():
            (pathlib.Path(folder) / name).write_text(text)
        yield ["-std=c99", "-nostdinc", f"--target={TARGET}", f"-isystem{folder}"]


def read_header(path: pathlib.Path = HEADER) -> Header:
    """Parses the header; raises ValueError when the compiler objects to it."""
    with clang_arguments() as arguments:
        unit = cindex.Index.create().parse(
            str(path), args=arguments, options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
        )
        problems = [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Warning]
        if problems:
            raise ValueError("the header does not compile:\n" + "\n".join(problems))
        own = [c for c in unit.cursor.get_children() if c.location.file and c.location.file.name == str(path)]
        return _convert(own, path.read_text())


def read_tensors(path: pathlib.Path = TENSORS) -> list[Tensor]:
    rows = re.findall(r"^MSDA_TENSOR\((.*?)\)", path.read_text(), re.M | re.S)
    return [_tensor(*re.split(r",\s*", row)) for row in rows]


def _tensor(name, id, axes, dtype, strides, modes, role) -> Tensor:
    of = lambda *names: next((n for n in names if f"k{n.title()}" in modes), None)
    return Tensor(name, id, axes, None if dtype == "float32" else dtype, None if strides == "packed" else f"{strides}_strides",
                  of("forward", "backward"), of("sampled", "fused"),
                  "Optional" in role, role.endswith("Result"), "Extra" in role)


def _convert(cursors, text: str) -> Header:
    header = Header(text, [], [], [], [], [])
    kind = cindex.CursorKind
    for cursor in cursors:
        if cursor.kind == kind.MACRO_DEFINITION:
            if (value := _macro_value(cursor)) is not None:
                header.constants.append(Declared(cursor, value=value))
        elif cursor.kind == kind.ENUM_DECL:
            header.typedefs[-1].enumerators = [Declared(e, value=e.enum_value) for e in cursor.get_children()]
        elif cursor.kind == kind.STRUCT_DECL and cursor.is_definition():
            header.structs.append(_struct(cursor))
        elif cursor.kind == kind.TYPEDEF_DECL:
            _add_typedef(header, cursor)
        elif cursor.kind == kind.FUNCTION_DECL:
            header.functions.append(_function(cursor, cursor.type, is_callback=False))
    return header


def _macro_value(cursor) -> int | None:
    """The integer a macro stands for, or None for the other macros."""
    tokens = [t.spelling for t in cursor.get_tokens()][1:]
    match = re.fullmatch(r"\(?(-?\d+)\)?", "".join(tokens))
    return int(match.group(1)) if match and cursor.spelling.startswith("MSDA_") else None


def _struct(cursor) -> Declared:
    kind = cursor.type
    fields = [Declared(f, type=f.type.spelling, offset=kind.get_offset(f.spelling) // 8, size=f.type.get_size())
              for f in kind.get_fields()]
    return Declared(cursor, size=kind.get_size(), alignment=kind.get_align(), fields=fields)


def _add_typedef(header: Header, cursor) -> None:
    underlying = cursor.underlying_typedef_type
    if underlying.kind == cindex.TypeKind.POINTER:
        pointee = underlying.get_pointee().get_canonical()
        if pointee.kind == cindex.TypeKind.FUNCTIONPROTO:
            header.callbacks.append(_function(cursor, pointee, is_callback=True))
            return
    if not any(s.name == cursor.spelling for s in header.structs):
        header.typedefs.append(Declared(cursor, type=underlying.spelling, enumerators=[]))


def _function(cursor, kind, is_callback: bool) -> Declared:
    """A function of the library, or a type of callback."""
    result = kind.get_result().spelling
    parameters = [Declared(child, type=child.type.spelling) for child in cursor.get_children()
                  if child.kind == cindex.CursorKind.PARM_DECL]
    listed = ", ".join(declare(p.type, p.name) for p in parameters) or "void"
    declaration = f"{declare(result, f'(*{cursor.spelling})' if is_callback else cursor.spelling)}({listed})"
    return Declared(cursor, declaration=declaration, result=result, parameters=parameters, is_callback=is_callback)
