"""The interface that was promised last (released/: the header and its description) holds: libabigail finds no break,
the library exports every symbol of it, and clients that were compiled with its header run with the library."""

import copy
import json
import os
import re
import sys

import pytest

from test_abi import ABI, LIBRARY, ROOT, bindings, exported, run, symbols_of

RELEASED = ROOT / "tests/abi/released"
RELEASED_HEADER = (RELEASED / "msda.h").read_text()
RELEASED_ABI = json.loads((RELEASED / "abi.json").read_text())
CLIENT = ROOT / "tests/install/golden_client.c"
# What abidiff says of a change that breaks clients. A struct may grow at its end: its size is its first member.
BREAK = re.compile(r"data member (change|deletion)|of type '.*' changed:|return type changed|[1-9]\d* Removed")


def interface(folder, header, abi):
    """A library of nothing but the header's functions, with the debugger's description of their types."""
    folder.mkdir()
    bodies = [
        f"{function['declaration']} {{ {'' if function['result'] == 'void' else 'return 0;'} }}\n"
        for function in abi["functions"].values()
    ]
    (folder / "msda.h").write_text(header)
    (folder / "interface.c").write_text('#include "msda.h"\n' + "".join(bodies))
    library = folder / "libmsda.so"
    built = run("gcc", "-std=c99", "-g", "-fPIC", "-shared", "-Wl,-soname,libmsda.so.0", folder / "interface.c", "-o", library)
    assert built.returncode == 0, built.stderr
    return library


def breaks(old, new):
    """The lines of abidiff's report that say what breaks."""
    result = run("abidiff", old, new)
    assert result.returncode & 3 == 0, result.stderr  # it failed, or was called wrongly
    return [line for line in result.stdout.splitlines() if BREAK.search(line)]


@pytest.fixture
def released_interface(tmp_path):
    return interface(tmp_path / "old", RELEASED_HEADER, RELEASED_ABI)


def test_nothing_released_is_broken(released_interface, tmp_path):
    assert bindings.broken_promises(RELEASED_ABI, ABI) == []
    assert breaks(released_interface, interface(tmp_path / "new", (ROOT / "include/msda.h").read_text(), ABI)) == []


def test_every_symbol_that_was_released_is_there():
    assert symbols_of(RELEASED_ABI) <= exported()


GROWN = ("} msda_problem;", "  int64_t later;\n} msda_problem;")
BROKEN = [
    ("  int32_t thread_count;\n", "  int32_t thread_count;\n  int64_t later;\n"),  # not at the end
    ("  int32_t point_count;\n", "  int64_t point_count;\n"),
    ("  size_t workspace_bytes;\n} msda_tensors", "} msda_tensors"),
    ("typedef int32_t msda_dtype;", "typedef int64_t msda_dtype;"),
    ("msda_execute(const msda_plan* plan", "msda_execute(msda_plan** plan"),
    ("MSDA_API const char* msda_last_error(void);", ""),
]


@pytest.mark.parametrize(("was", "is_now"), [GROWN, *BROKEN])
def test_a_break_is_noticed_and_growth_is_none(was, is_now, released_interface, tmp_path):
    assert RELEASED_HEADER.count(was) == 1
    abi = copy.deepcopy(RELEASED_ABI)
    if is_now == "":
        del abi["functions"]["msda_last_error"]
    for function in abi["functions"].values():
        function["declaration"] = function["declaration"].replace(was, is_now)
    found = breaks(released_interface, interface(tmp_path / "new", RELEASED_HEADER.replace(was, is_now), abi))
    assert bool(found) == ((was, is_now) in BROKEN)


@pytest.fixture
def vectors(tmp_path):
    folder = tmp_path / "vectors"
    folder.mkdir()
    made = run(sys.executable, ROOT / "tests/golden/flatten.py", folder, *sorted((ROOT / "tests/golden").glob("*.npz")))
    assert made.returncode == 0, made.stderr
    return sorted(folder.glob("*.f64"))


@pytest.mark.parametrize("includes", [RELEASED, ROOT / "include"], ids=["released", "new"])
def test_clients_of_either_header_run_with_the_library(includes, vectors, tmp_path):
    client = tmp_path / "client"
    built = run("gcc", "-std=c11", f"-I{includes}", CLIENT, LIBRARY, "-lm", "-o", client)
    assert built.returncode == 0, built.stderr
    result = run(client, *vectors, env={**os.environ, "LD_LIBRARY_PATH": str(LIBRARY.parent)})
    assert result.stdout == f"{len(vectors)} golden vectors, forward and backward: right\n", result.stderr
