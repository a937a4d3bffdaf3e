"""Writes everything that is derived from include/msda.h and its table of tensors, src/core/tensors.inc:

  src/api/msda.map                          linker version script: what libmsda.so exports
  bindings/python/libmsda/_cdef.py          declarations for cffi, ABI version, struct sizes, tensors
  bindings/rust/msda-sys/src/bindings.rs    declarations for Rust, by bindgen
  bindings/rust/msda-sys/src/struct_sizes.rs    sizes of structs, which Rust compares with its own
  bindings/rust/msda/src/tensor_table.rs    the tensors for Rust
  tests/abi/abi.json                        the binary interface as data: functions, structs, values
  tests/abi/all_symbols.c                   a C99 program that takes the address of every function

All are committed. With --check nothing is written: the files are made anew and compared, and the exit
status is 1 if one differs. --against compares the interface with that of an earlier release (its
abi.json): what was there must still be there, unchanged; structs may only have grown at the end.

Needs the Python package libclang, and bindgen (on PATH or in build/tools/bin).
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import parts
from msda_header import HEADER, ROOT, Header, clang_arguments, declare, read_header, read_tensors

GENERATED = "Generated from include/msda.h by tools/generate; do not edit."
GENERATED_TENSORS = GENERATED.replace("include/msda.h", "src/core/tensors.inc")


def version_script(header: Header) -> str:
    names = "".join(f"    {f.name};\n" for f in header.functions)
    abi = header.constant("MSDA_ABI_VERSION")
    return f"# {GENERATED}\nMSDA_{abi} {{\n  global:\n{names}  local:\n    *;\n}};\n"


def c_declarations(header: Header) -> str:
    """The header without comments and preprocessor, in an order that compiles."""
    lines = []
    for typedef in header.typedefs:
        lines.append(f"typedef {declare(typedef.type, typedef.name)};")
        if typedef.enumerators:
            values = ", ".join(f"{e.name} = {e.value}" for e in typedef.enumerators)
            lines.append(f"enum {{ {values} }};")
    lines += [f"#define {c.name} {c.value}" for c in header.constants]
    lines += [f"typedef {c.declaration};" for c in header.callbacks]
    for struct in header.structs:
        fields = "".join(f"  {declare(f.type, f.name)};\n" for f in struct.fields)
        lines.append(f"typedef struct {struct.name} {{\n{fields}}} {struct.name};")
    lines += [f"{f.declaration};" for f in header.functions]
    return "\n".join(lines) + "\n"


def cffi_module(header: Header) -> str:
    sizes = "".join(f'    "{s.name}": {s.size},\n' for s in header.structs)
    # Rows of TensorRow in _core/problem.py, as tuples.
    row = lambda t: (t.axes, t.dtype, t.strides, t.operation, t.input_mode, t.is_optional, t.is_result, t.is_extra)
    tensors = "".join(f'    "{t.name}": {row(t)},\n' for t in read_tensors())
    return (
        f'# {GENERATED}\n"""The C interface as cffi reads it, with what is checked when the library is loaded."""\n\n'
        f"ABI_VERSION = {header.constant('MSDA_ABI_VERSION')}\n\n"
        f"# Bytes on a 64-bit machine.\nSTRUCT_SIZES = {{\n{sizes}}}\n\n"
        f'CDEF = """\n{c_declarations(header)}"""\n\n'
        f"# Tensors stand in the order of msda_tensors.\nTENSORS = {{\n{tensors}}}\n"
    )


def rust_tensors(_: Header) -> str:
    option = lambda text: f'Some("{text}")' if text else "None"
    tensors = read_tensors()
    variants = "".join(f"    {t.id.removeprefix('k')},\n" for t in tensors)
    rows = "".join(
        f'    Row {{ name: "{t.name}", axes: "{t.axes}", dtype: {option(t.dtype)}, strides: {option(t.strides)} }},\n'
        for t in tensors)
    return (
        f"// {GENERATED_TENSORS}\n\n"
        "/// The tensors of a problem, in the order of `msda_tensors`.\n"
        f"#[derive(Clone, Copy, Debug)]\npub(crate) enum Tensor {{\n{variants}}}\n\n"
        "/// Axes in letters of msda.h (R is reference_dim), and the fields of `msda_problem` with the type (none:\n"
        "/// float) and the strides (none: packed).\n"
        "pub(crate) struct Row {\n    pub name: &'static str,\n    pub axes: &'static str,\n"
        "    pub dtype: Option<&'static str>,\n    pub strides: Option<&'static str>,\n}\n\n"
        f"#[rustfmt::skip]\npub(crate) const TENSORS: [Row; {len(tensors)}] = [\n{rows}];\n"
    )


def abi_description(header: Header) -> str:
    description = {
        "abi_version": header.constant("MSDA_ABI_VERSION"),
        "constants": {c.name: c.value for c in header.constants
                      if not c.name.startswith("MSDA_VERSION_")},
        "types": {t.name: {"is": t.type, "values": {e.name: e.value for e in t.enumerators}}
                  for t in header.typedefs},
        "callbacks": {c.name: c.declaration for c in header.callbacks},
        "structs": {
            s.name: {"size": s.size, "alignment": s.alignment,
                     "fields": [{"name": f.name, "type": f.type, "offset": f.offset, "size": f.size}
                                for f in s.fields]}
            for s in header.structs},
        "functions": {
            f.name: {"declaration": f.declaration, "result": f.result,
                     "parameters": [{"name": p.name, "type": p.type} for p in f.parameters]}
            for f in header.functions},
    }
    return json.dumps(description, indent=1) + "\n"


def all_symbols(header: Header) -> str:
    count = len(header.functions)
    uses = "".join(f"  functions[{i}] = (function)&{f.name};\n" for i, f in enumerate(header.functions))
    return (
        f"/* {GENERATED}\n * Links only if the library has every function of its header. */\n"
        "#include <msda.h>\n#include <stdio.h>\n\ntypedef void (*function)(void);\n\n"
        f"int main(void) {{\n  function functions[{count}];\n  int i, missing = 0;\n{uses}"
        f"  for (i = 0; i < {count}; ++i) missing += functions[i] == NULL;\n"
        f'  printf("{count} functions, %d missing\\n", missing);\n  return missing != 0;\n}}\n'
    )


def rust_module(_: Header) -> str:
    bindgen = shutil.which("bindgen") or shutil.which("bindgen", path=str(ROOT / "build/tools/bin"))
    if bindgen is None:
        sys.exit("generate: error: bindgen is not on PATH nor in build/tools/bin; tools/setup installs it")
    import clang

    environment = dict(os.environ, LIBCLANG_PATH=str(pathlib.Path(clang.__file__).parent / "native"))
    with clang_arguments() as arguments:
        # The flags are those of the crate's feature `bindgen`; the formatter keeps the committed file the same everywhere.
        flags = (ROOT / "bindings/rust/msda-sys/bindgen.flags").read_text().splitlines()
        command = [bindgen, str(HEADER.relative_to(ROOT)), *flags, "--formatter", "prettyplease",
                   "--raw-line", f"// {GENERATED}", "--", *arguments]
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"generate: error: bindgen failed:\n{result.stderr}")
    return result.stdout


def rust_struct_sizes(header: Header) -> str:
    sizes = "".join(f'    ("{s.name}", size_of::<crate::{s.name}>(), {s.size}),\n' for s in header.structs)
    return (
        f"// {GENERATED}\n\nuse core::mem::size_of;\n\n"
        "/// Name, bytes as compiled here, and bytes that the library has on a 64-bit machine.\n"
        "pub type StructSize = (&'static str, usize, usize);\n\n"
        f"pub const STRUCT_SIZES: &[StructSize] = &[\n{sizes}];\n"
    )


OUTPUTS = {
    "src/api/msda.map": version_script,
    "bindings/python/libmsda/_cdef.py": cffi_module,
    "bindings/rust/msda-sys/src/bindings.rs": rust_module,
    "bindings/rust/msda-sys/src/struct_sizes.rs": rust_struct_sizes,
    "bindings/rust/msda/src/tensor_table.rs": rust_tensors,
    "tests/abi/abi.json": abi_description,
    "tests/abi/all_symbols.c": all_symbols,
}


def broken_promises(old: dict, new: dict) -> list[str]:
    """What of an earlier interface is gone or changed."""
    broken = []
    for kind in ("constants", "types", "callbacks", "functions"):
        for name, was in old[kind].items():
            now = new[kind].get(name)
            if kind == "types" and now is not None:
                kept = now["is"] == was["is"] and was["values"].items() <= now["values"].items()
            else:
                kept = now == was
            if not kept:
                broken.append(f"{name}: was {was}, is {now}")
    for name, was in old["structs"].items():
        now = new["structs"].get(name, {"fields": []})
        if now["fields"][: len(was["fields"])] != was["fields"]:
            broken.append(f"{name}: its first {len(was['fields'])} fields have changed")
    return broken


def check_against(release: pathlib.Path, header: Header) -> int:
    old, new = json.loads(release.read_text()), json.loads(abi_description(header))
    if old["abi_version"] != new["abi_version"]:
        print(f"ABI version {old['abi_version']} -> {new['abi_version']}: nothing is promised")
        return 0
    broken = broken_promises(old, new)
    for line in broken:
        print(f"generate: error: {line}")
    print(f"{len(broken)} broken promises to clients of {release}")
    return int(bool(broken))


def main(words: list[str]) -> int:
    parser = parts.parser("generate bindings", __doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--against", type=pathlib.Path, metavar="ABI_JSON",
                        help="compare the interface with an earlier release's abi.json")
    options = parser.parse_args(words)
    header = read_header()
    if options.against:
        return check_against(options.against, header)
    changed = parts.renew({ROOT / name: generate(header) for name, generate in OUTPUTS.items()}, options.check, "include/msda.h")
    if not options.check:
        return 0
    print(f"generated bindings: {len(OUTPUTS) - changed} of {len(OUTPUTS)} up to date")
    if changed:
        print("generate: error: run tools/generate and commit what it writes", file=sys.stderr)
    return int(bool(changed))
