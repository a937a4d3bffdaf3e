"""tools/check tidy finds the functions of a source, and what else is not as it should be."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/lib"))

from source_functions import functions_of  # noqa: E402

BODY = "\n".join(f"  work({i});" for i in range(10))

# What opens a function of 10 lines of body, in front of its {.
SIGNATURES = {
    "one line": "int f(int a)",
    "parameters on two lines": "static int f(int a,\n             int b) noexcept",
    "result on a line of its own": "std::vector<int>\nf()",
    "template": "template <typename T, int N = 3>\n  requires(N > 2)\nauto f(T (&a)[N]) -> decltype(a[0])",
    "members before the body": "Thing::Thing(int a)\n    : Base(a),\n      b_{1, 2},\n      c_{a > 1 ? a : 2}",
    "operator": "bool operator==(Thing const& a, Thing const& b)",
    "assignment": "Thing& Thing::operator=(Thing const& other)",
    "call operator": "int Thing::operator()(int a) const",
    "default argument": 'void f(std::string text = "{", char sign = \'{\')',
    "attribute": "[[nodiscard]] int f(int a)",
    "struct as result": "struct point f(int a)",
    "test case": 'TEST_CASE("a name with { in it" * needs_gpu())',
    "kernel host": "void launch(Params const& p, cudaStream_t stream)",
    "macro with an argument": "MSDA_NOINLINE(3) void f()",
    "extern C": 'extern "C" int f(int a)',
}


def source(signature):
    return f"int before = 1;\n{signature} {{\n{BODY}\n}}\nint behind = 2;\n"


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_is_found(name):
    signature = SIGNATURES[name]
    found = functions_of(source(signature))
    assert [(f.first_line, f.line_count) for f in found] == [(2, 12 + signature.count("\n"))]


@pytest.mark.parametrize("name", SIGNATURES)
def test_the_function_behind_is_found_too(name):
    """A scanner that loses its place after one of them goes blind for the rest of the file."""
    found = functions_of(source(SIGNATURES[name]) + source("void next()"))
    assert len(found) == 2 and found[1].line_count == 12


@pytest.mark.parametrize(
    "around",
    [
        "namespace a::b {{\n{}\n}}",
        "namespace {{\n{}\n}}  // namespace",
        'extern "C" {{\n{}\n}}',
        "struct Thing : Base<int> {{\n  int a = 1, b{{2}};\n{}\n}};",
        "class alignas(16) MSDA_EXPORT Thing final {{\n public:\n  Thing() = default;\n{}\n}};",
        "template <class T>\nclass Thing {{\n{}\n}};",
        "#if A\n#include <a>\n{}\n#else\nint x;\n#endif",
    ],
)
def test_inside_what_is_no_function(around):
    text = around.format(source("int f(int a)"))
    assert [f.line_count for f in functions_of(text) if f.line_count > 3] == [12]


def test_what_is_no_function():
    text = """
    const int kTable[] = {1, 2, {3}};
    enum class Kind : int { kA, kB };
    std::atomic<bool> flag{false};
    constexpr std::size_t kMebibyte = std::size_t{1} << 20;
    using Setter = std::function<void(int)>;
    #define WORK(x) { work(x); }
    const char* text = "} {" R"x( { )x" "\\"{";  // {
    char brace = '{', quote = '"';  /* { */
    int separated = 10'000'000;
    struct Empty {};
    void declared(int a, int b = {});
    """
    assert functions_of(text) == []


def test_functions_in_tables_are_found():
    text = "Setters const kAll = {\n  {1, [](int a) {\n" + BODY.replace("  ", "    ") + "\n  }},\n};\n"
    assert [f.line_count for f in functions_of(text)] == [12]


def test_two_beginnings_of_one_function():
    text = "#if A\nint f(int a) {\n#else\nint f(long a) {\n#endif\n" + BODY + "\n}\n" + source("int g()")
    assert [f.line_count for f in functions_of(text)] == [13, 12]


def tidy_of(tmp_path, text):
    """What the command says of a copy of the project with one more source."""
    subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", ROOT, "copy"], cwd=tmp_path, check=True)
    copy = tmp_path / "copy"
    for folder in ("tools/lib", "include"):
        (copy / folder).mkdir(parents=True)
        for file in (ROOT / folder).iterdir():
            if file.is_file():
                (copy / folder / file.name).write_bytes(file.read_bytes())
    versions = ["CHANGELOG.md", "bindings/rust"]  # what tidy compares the header's version with
    subprocess.run(["git", "checkout", "-q", "HEAD", *versions], cwd=copy, check=True)
    (copy / "planted.cpp").write_text(text)
    subprocess.run(["git", "add", "planted.cpp", "include"], cwd=copy, check=True)
    return subprocess.run([sys.executable, copy / "tools/lib/tidy.py"], capture_output=True, text=True)


def test_the_command_fails_for_a_long_function(tmp_path):
    long_body = "  work();\n" * 68
    signature = "void f(int a,\n       int b) {\n"
    result = tidy_of(tmp_path, signature + long_body + "}\n")
    assert result.returncode == 1
    assert "planted.cpp:1: a function of 71 lines; at most 70" in result.stdout


def test_the_command_counts_what_it_saw(tmp_path):
    result = tidy_of(tmp_path, "void f(int a,\n       int b) {\n" + "  work();\n" * 67 + "}\n")
    assert result.returncode == 0, result.stdout
    assert "lines of host code" in result.stdout


def test_the_command_fails_for_a_name_twice_and_a_dead_link(tmp_path):
    assert "0 findings" in tidy_of(tmp_path, "").stdout
    copy = tmp_path / "copy"
    for folder in "kernels/one", "kernels/two", "one", "two":
        (copy / folder).mkdir(parents=True)
        (copy / folder / "twice.cuh").write_text("int x;\n")
    (copy / "page.md").write_text("[there](CHANGELOG.md#changes), [elsewhere](https://example.org/x)\n[gone](docs/gone.md#part)\n")
    subprocess.run(["git", "add", "kernels", "one", "two", "page.md"], cwd=copy, check=True)
    result = subprocess.run([sys.executable, copy / "tools/lib/tidy.py"], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stdout.splitlines()[:-1] == ["one/twice.cuh, two/twice.cuh: the same file name",
                                               "page.md:2: the link's target docs/gone.md is not there"]


def kernel_faults(tmp_path, files):
    """What the command finds in a project with these files under kernels/ and no others."""
    tidy_of(tmp_path, "")
    copy = tmp_path / "copy"
    for name, text in files.items():
        (copy / "kernels" / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / "kernels" / name).write_text(text)
    subprocess.run(["git", "add", "kernels"], cwd=copy, check=True)
    return subprocess.run([sys.executable, copy / "tools/lib/tidy.py"], capture_output=True, text=True).stdout.splitlines()[:-1]


@pytest.mark.parametrize(
    ("headers", "lines", "engine_lines", "found"),
    [
        (7, 100, 10, None),
        (8, 100, 10, "9 files of its family, 803 lines; at most 8 and 1500"),
        (7, 300, 10, "8 files of its family, 2103 lines; at most 8 and 1500"),
        (7, 100, 2000, "9 files of its family and the engines, 2703 lines; at most 12 and 2300"),
    ],
)
def test_the_command_fails_for_a_kernel_that_needs_much_reading(tmp_path, headers, lines, engine_lines, found):
    """A header that includes the next one, the last an engine's, and that one a file of common/, which is not counted."""
    files = {f"new/part{i}.cuh": f'#include "kernels/new/part{i + 1}.cuh"\n' + "int x;\n" * (lines - 1) for i in range(headers)}
    last = f"new/part{headers - 1}.cuh"
    files[last] = files[last].replace(f"kernels/new/part{headers}.cuh", "kernels/rows/rows.cuh")
    files["rows/rows.cuh"] = '#include "kernels/common/long.cuh"\n' + "int x;\n" * (engine_lines - 1)
    files["common/long.cuh"] = "int x;\n" * 5000
    files["new/kernel.cuh"] = '#include "kernels/new/part0.cuh"\n\n__global__ void rows();\n'
    files["new/new.cuh"] = '#include "kernels/new/kernel.cuh"\n' + "int x;\n" * 3000  # instantiations: no kernel
    faults = kernel_faults(tmp_path, files)
    assert faults == ([f"kernels/new/kernel.cuh: a reader opens {found}"] if found else [])


def test_the_command_fails_for_words_of_several_meanings(tmp_path):
    text = '// kept pieces\nint kept_rows = 1; const char* s = "share";\nint kMostPieces, stepped, keptUp;\n'
    assert kernel_faults(tmp_path, {"new/new.h": text}) == [
        "kernels/new/new.h:2: kept_rows has the word kept: say cached",
        "kernels/new/new.h:3: kMostPieces has the word kMost: say kMax",
        "kernels/new/new.h:3: kMostPieces has the word piece: say part or vec",
        "kernels/new/new.h:3: keptUp has the word kept: say cached",
    ]


def test_the_command_fails_for_a_comment_without_its_subject(tmp_path):
    text = "// A row.\n// Of 8 lanes.\nint x;\n  // Where it lies.\nint y;  // Of a row\n// Offsets.\nint z;\n"
    assert kernel_faults(tmp_path, {"new/new.h": text}) == [
        "kernels/new/new.h:4: a comment begins with Where: begin with its subject"
    ]


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("tests/unit/new_test.cpp", "auto const begin = std::chrono::steady_clock::now();"),
        ("tests/ptx/new_test.cu", "CHECK(steady_us() < limit);"),
        ("tests/kernel/new_test.cpp", "CHECK(changed.wait_for(lock, std::chrono::seconds(1)));"),
        ("tests/python/test_new.py", "deadline = time.monotonic() + 5"),
        ("tests/cli/test_new.py", "subprocess.run(command, timeout=60)"),
        ("examples/service/tests/new_test.rs", "let start = Instant::now();"),
    ],
)
def test_the_command_fails_for_a_test_that_reads_the_clock(tmp_path, place, line):
    tidy_of(tmp_path, "")
    copy = tmp_path / "copy"
    for name in (place, "src/core/new.cpp"):  # who is no test may
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(f"\n{line}\n")
    subprocess.run(["git", "add", place, "src"], cwd=copy, check=True)
    result = subprocess.run([sys.executable, copy / "tools/lib/tidy.py"], capture_output=True, text=True)
    assert result.returncode == 1
    assert len(result.stdout.splitlines()) == 2 and result.stdout.startswith(f"{place}:2: "), result.stdout
    assert ": a test depends on the host's time" in result.stdout


def test_the_command_fails_for_what_the_compiler_of_packages_does_not_know(tmp_path):
    tidy_of(tmp_path, "")
    source = tmp_path / "copy" / "src/core/new.h"
    source.parent.mkdir(parents=True)
    source.write_text("enum Sign { plus };\nnamespace n {\nusing enum Sign;\n}\n")
    subprocess.run(["git", "add", "src"], cwd=tmp_path / "copy", check=True)
    result = subprocess.run([sys.executable, "tools/lib/tidy.py"], cwd=tmp_path / "copy", capture_output=True, text=True)
    assert result.stdout.startswith("src/core/new.h:3: GCC 10, which makes packages, has no `using enum`\n")
