"""pkg/check_library names every fault that is planted in a library or in a program that uses it."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "pkg/check_library"
RELEASE = ["-Wl,--as-needed", "-Wl,-z,relro,-z,now", "-s"]
LIBRARY = ["-shared", "-fPIC", f"-Wl,--version-script={ROOT}/src/api/msda.map", "-Wl,-soname,libmsda.so.0", *RELEASE]


def load_tool():
    loader = importlib.machinery.SourceFileLoader("check_library", str(TOOL))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_library", loader))
    loader.exec_module(module)
    return module


FUNCTIONS, _ = load_tool().exported_by_map()
SOURCE = "".join(f"int {name}(void) {{ return 0; }}\n" for name in sorted(FUNCTIONS))


def link(path, source, options):
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-x", "c", "-", "-x", "none", "-o", path, *options], input=source,
                   text=True, check=True)
    return path


def check(*arguments):
    result = subprocess.run([sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True)
    return result.returncode, result.stdout


def test_a_library_without_faults_passes(tmp_path):
    assert check(link(tmp_path / "libmsda.so", SOURCE, LIBRARY))[0] == 0


PLANTED = {
    "needs libz.so.1: allowed are": (SOURCE + "int zlibVersion(void); int msda_version_of(void) { return zlibVersion(); }",
                                     [*LIBRARY, "-l:libz.so.1"]),
    "needs GLIBCXX_3.4 of libstdc++.so.6": (
        SOURCE + "void _ZNSt8ios_base4InitC1Ev(void*); void f(void* p) { _ZNSt8ios_base4InitC1Ev(p); }",
        [*LIBRARY, "-l:libstdc++.so.6"]),
    "needs GLIBC_2.29 of libm.so.6: must run with glibc 2.17": (
        SOURCE + "double exp(double); double msda_exp(double x) { return exp(x); }", [*LIBRARY, "-lm"]),
    "stack is executable": (SOURCE, [*LIBRARY, "-Wl,-z,execstack"]),
    "relocations stay writable": (SOURCE, [*LIBRARY, "-Wl,-z,norelro"]),
    "code has relocations": (
        SOURCE + 'int zero; __asm__(".text; .quad zero");', [*LIBRARY, "-Wl,-z,notext"]),
    "symbols are bound late": (SOURCE, [*LIBRARY, "-Wl,-z,lazy"]),
    "soname is libmsda.so.9: must be libmsda.so.0": (SOURCE, [*LIBRARY, "-Wl,-soname,libmsda.so.9"]),
    "looks for libraries in /opt/lib (RUNPATH)": (SOURCE, [*LIBRARY, "-Wl,-rpath,/opt/lib"]),
    "looks for libraries in /opt/old (RPATH)": (SOURCE, [*LIBRARY, "-Wl,--disable-new-dtags,-rpath,/opt/old"]),
    "does not export msda_execute: is in msda.map": (
        SOURCE.replace("int msda_execute(", "static int msda_execute("), LIBRARY),
    "has a symbol table": (SOURCE, [option for option in LIBRARY if option != "-s"]),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_named(fault, tmp_path):
    source, options = PLANTED[fault]
    path = link(tmp_path / "libmsda.so", source, options)
    status, text = check(path)
    assert status == 1 and f"{path}: {fault}" in text
    assert len(text.splitlines()) <= 2  # a needed library is a fault of its own beside its versions


def test_an_export_too_many_is_named(tmp_path):
    text = (ROOT / "src/api/msda.map").read_text()
    (tmp_path / "more.map").write_text(text.replace("global:", "global: msda_secret;"))
    options = [f"-Wl,--version-script={tmp_path}/more.map" if "version-script" in option else option for option in LIBRARY]
    path = link(tmp_path / "libmsda.so", SOURCE + "int msda_secret(void) { return 0; }", options)
    assert check(path) == (1, f"{path}: exports msda_secret: is not in msda.map\n")


def test_a_truncated_file_is_named(tmp_path):
    path = link(tmp_path / "libmsda.so", SOURCE, LIBRARY)
    whole = path.read_bytes()
    for size in (64, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert check(path) == (1, f"{path}: has {size} bytes: must have {len(whole)}, so it is truncated\n")


def test_a_large_file_and_an_old_glibc_are_named(tmp_path):
    path = link(tmp_path / "libmsda.so", SOURCE + "int getpid(void); int f(void) { return getpid(); }", LIBRARY)
    assert "must have 0.001 MB at most" in check("--megabytes", 0.001, path)[1]
    assert "must run with glibc 2.0" in check("--glibc", "2.0", path)[1]


def test_programs_may_need_the_library_and_nothing_else(tmp_path):
    library = link(tmp_path / "libmsda.so.0", SOURCE, LIBRARY)
    source = "int msda_execute(void); int main(void) { return msda_execute(); }"
    options = [library, "-Wl,-rpath,$ORIGIN/../lib", *RELEASE]
    assert check("--glibc", "2.34", link(tmp_path / "good", source, options))[0] == 0  # main's own version
    assert "symbols are bound late" in check(link(tmp_path / "late", source, [*options, "-Wl,-z,lazy"]))[1]
    status, text = check(link(tmp_path / "lost", source, [library, "-Wl,-rpath,/opt/lib", *RELEASE]))
    assert status == 1 and "looks for libraries in /opt/lib" in text


def test_plugins_may_need_the_library_beside_them_and_export_what_their_host_looks_for(tmp_path):
    library = link(tmp_path / "libmsda.so.0", SOURCE, LIBRARY)
    source = "int msda_execute(void); int RegisterCustomOps(void) { return msda_execute(); }"
    options = ["-shared", "-fPIC", library, "-Wl,-rpath,$ORIGIN", *RELEASE]
    path = link(tmp_path / "libmsda_ort.so", source, options)
    assert check(path) == (0, f"{path}: {path.stat().st_size} bytes, runs with glibc 2.17\n")
    link(path, source + "int helper;", options)
    assert check(path)[1] == f"{path}: exports helper: is not in what the host of libmsda_ort.so looks for\n"
    link(path, source.replace("RegisterCustomOps", "Register"), options)
    assert "does not export RegisterCustomOps" in check(path)[1]
    link(path, source, ["-Wl,-rpath,/opt/lib" if "rpath" in str(option) else option for option in options])
    assert "looks for libraries in /opt/lib" in check(path)[1]
