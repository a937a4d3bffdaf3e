"""The binary interface: the header in every language standard, what the library exports and needs, and that
the tools which watch over them notice a change. MSDA_LIBRARY names the libmsda.so under test."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("MSDA_LIBRARY", ROOT / "build/release/lib/libmsda.so")).resolve()
ABI = json.loads((ROOT / "tests/abi/abi.json").read_text())
STRICT = ["-pedantic", "-Wall", "-Wextra", "-Werror"]
ALLOWED_NEEDED = {"libhwy", "libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64", "libasan",
                  "libubsan", "libtsan"}

sys.path.insert(0, str(ROOT / "tools/lib"))
import bindings  # noqa: E402
import tidy  # noqa: E402
from msda_header import read_header  # noqa: E402


def run(*command, **options):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)


def compilers(names):
    return [name for name in names if shutil.which(name)]


@pytest.mark.parametrize("standard", ["c99", "c11", "c17", "c2x"])
@pytest.mark.parametrize("compiler", compilers(["gcc", "clang"]))
def test_header_is_clean_c(compiler, standard, tmp_path):
    source = tmp_path / "client.c"
    source.write_text("#include <msda.h>\n#include <msda.h>\nint main(void) { return 0; }\n")
    result = run(compiler, f"-std={standard}", *STRICT, "-Wpadded", f"-I{ROOT}/include", "-c", source,
                 "-o", tmp_path / "client.o")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("header", ["msda.h", "msda.hpp"])
@pytest.mark.parametrize("standard", ["c++17", "c++20", "c++23"])
@pytest.mark.parametrize("compiler", compilers(["g++", "clang++"]))
def test_header_is_clean_cpp(compiler, standard, header, tmp_path):
    source = tmp_path / "client.cpp"
    source.write_text(f"#include <{header}>\n#include <{header}>\nint main() {{ return 0; }}\n")
    result = run(compiler, f"-std={standard}", *STRICT, f"-I{ROOT}/include", "-c", source,
                 "-o", tmp_path / "client.o")
    assert result.returncode == 0, result.stderr


def test_a_c_client_gets_every_function(tmp_path):
    program = tmp_path / "all_symbols"
    built = run("gcc", "-std=c99", *STRICT, f"-I{ROOT}/include", ROOT / "tests/abi/all_symbols.c",
                LIBRARY, "-o", program)
    assert built.returncode == 0, built.stderr
    result = run(program, env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARY.parent)})
    assert result.stdout == f"{len(ABI['functions'])} functions, 0 missing\n"


def exported():
    """The symbols of the library, with their versions."""
    lines = run("nm", "-D", "--defined-only", LIBRARY).stdout.splitlines()
    return {line.split()[-1] for line in lines}


def symbols_of(abi):
    return {f"{name}@@MSDA_{abi['abi_version']}" for name in abi["functions"]}


def test_exports_are_the_functions_of_the_header_and_nothing_else():
    assert exported() == symbols_of(ABI) | {f"MSDA_{ABI['abi_version']}"}


def test_needs_only_what_is_allowed():
    dynamic = run("readelf", "-d", LIBRARY).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+?)\.so", dynamic)
    assert needed and set(needed) <= ALLOWED_NEEDED
    assert re.search(r"\(SONAME\).*\[libmsda\.so\.0\]", dynamic)


CLIENT_OF_ANOTHER_VERSION = """
#include <msda.h>
#include <stdio.h>
#include <string.h>
struct newer { msda_handle_options known; long field; };
int main(void) {
  msda_handle* handle = NULL;
  struct newer options;
  memset(&options, 0, sizeof(options));
  options.known.device = MSDA_DEVICE_CPU;
  options.known.thread_count = 1;
  options.known.struct_size = sizeof(options);
  printf("%d", (int)msda_handle_create(&options.known, &handle));
  msda_handle_destroy(handle);
  options.field = 1;
  handle = NULL;
  printf(" %d", (int)msda_handle_create(&options.known, &handle));
  options.known.struct_size = sizeof(msda_handle_options) - 1;
  printf(" %d %d\\n", (int)msda_handle_create(&options.known, &handle), handle == NULL);
  return 0;
}
"""


def test_clients_of_newer_and_of_broken_headers(tmp_path):
    """A longer struct is fine while the unknown part is zero, an ABI mismatch when it is not; a shorter one
    than any version had is an invalid argument."""
    source, program = tmp_path / "client.c", tmp_path / "client"
    source.write_text(CLIENT_OF_ANOTHER_VERSION)
    built = run("gcc", "-std=c99", f"-I{ROOT}/include", source, LIBRARY, "-o", program)
    assert built.returncode == 0, built.stderr
    result = run(program, env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARY.parent)})
    assert result.stdout == "0 3 1 1\n"


@pytest.mark.parametrize("slot", ["@sync host only\n * @threads any; several", "@param problem  the problem; its",
                                  "@since 0.1\n */\nMSDA_API msda_status msda_execute", "/** Q, 0 or more. */"])
def test_tidy_notices_what_is_missing(slot, tmp_path):
    text = (ROOT / "include/msda.h").read_text()
    assert slot in text
    shorter = tmp_path / "msda.h"
    shorter.write_text(text.replace(slot, slot.replace("@", " ") if "@" in slot else "", 1))
    assert tidy.header_faults(read_header()) == []
    assert tidy.header_faults(read_header(shorter)) != []


def test_a_changed_interface_is_noticed():
    grown = json.loads(json.dumps(ABI))
    grown["structs"]["msda_plan_info"]["fields"].append(
        {"name": "later", "type": "int64_t", "offset": 48, "size": 8})
    assert bindings.broken_promises(ABI, grown) == []
    for kind, name in (("functions", "msda_execute"), ("types", "msda_status"), ("constants", "MSDA_DEVICE_CPU")):
        reduced = json.loads(json.dumps(ABI))
        del reduced[kind][name]
        assert len(bindings.broken_promises(ABI, reduced)) == 1
    moved = json.loads(json.dumps(ABI))
    moved["structs"]["msda_problem"]["fields"].reverse()
    assert len(bindings.broken_promises(ABI, moved)) == 1


@pytest.mark.parametrize("name", tidy.VERSIONS)
def test_tidy_notices_another_version(name, tmp_path):
    header = read_header()
    for other in tidy.VERSIONS:
        (tmp_path / other).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / other, tmp_path / other)
    assert tidy.version_faults(header, tmp_path) == []
    text, version = (tmp_path / name).read_text(), tidy.version_of(header)
    (tmp_path / name).write_text(text.replace(version, "9.9.9"))
    assert tidy.version_faults(header, tmp_path) == [f"{name}: has version 9.9.9; include/msda.h has {version}"]
