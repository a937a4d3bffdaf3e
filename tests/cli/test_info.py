"""msda info, msda explain, and help."""

import json
import re
import subprocess

import pytest

from conftest import GOLDEN, ROOT, binary

COMMANDS = ["info", "run", "explain", "roofline", "bench", "tune"]


def readelf(option):
    library = binary().parent.parent / "lib" / "libmsda.so"
    return subprocess.run(["readelf", "-W", option, library], capture_output=True, text=True, check=True).stdout


def header_version():
    text = (ROOT / "include/msda.h").read_text()
    return ".".join(
        re.search(rf"#define MSDA_VERSION_{part} (\d+)", text)[1]
        for part in ("MAJOR", "MINOR", "PATCH")
    )


def test_version(msda_ok):
    assert msda_ok("--version") == f"msda {header_version()}\n"


def test_info(msda_ok):
    text = msda_ok("info")
    report = json.loads(msda_ok("info", "--json", "-", "-q"))
    assert report["version"] == header_version()
    assert report["devices"][0]["device"] == "cpu" and report["devices"][0]["threads"] >= 1
    assert report["build"] in text
    ids = [kernel["id"] for kernel in report["kernels"]]
    assert "ref.cpu@1" in ids and "simd.cpu.f32@2" in ids
    assert f"`msda info --kernels` lists all {len(ids)}." in text
    has_gpu = report["gpu_unavailable"] is None
    assert has_gpu or report["gpu_unavailable"].startswith("--device is 0: ") and f"none ({report['gpu_unavailable']})" in text
    assert len(report["devices"]) == 1 + has_gpu and has_gpu == bool(
        re.search(r"^gpu +device 0 is usable: .*, sm_\d+, \d+ SMs$", text, re.MULTILINE)
    )
    for kernel in report["kernels"]:
        assert kernel["runs_here"] or kernel["sm_min"] > 0
        assert has_gpu or kernel["sm_min"] == 0 or not kernel["runs_here"]


def test_info_says_what_the_library_needs(msda_ok):
    """As readelf reads it: the libraries, and the newest version of each kind."""
    needs = json.loads(msda_ok("info", "--json", "-", "-q"))["needs"]
    dynamic = readelf("-d")
    assert list(needs) == re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic) and "libc.so.6" in needs
    expected, library = {name: {} for name in needs}, None
    for line in readelf("-V").partition("Version needs section")[2].splitlines():
        library = (re.findall(r"File: (\S+)", line) or [library])[0]
        for kind, number in re.findall(r"Name: ([A-Z]+)_([\d.]+)", line):
            key = tuple(map(int, number.split(".")))
            expected[library][kind] = max(expected[library].get(kind, ()), key)
    for name, versions in needs.items():
        found = [version.partition("_") for version in versions]
        assert {kind: tuple(map(int, number.split("."))) for kind, _, number in found} == expected[name]
    line = re.search(r"^needs +(.*)$", msda_ok("info"), re.MULTILINE)[1]
    assert all(f"{name} ({' '.join(versions)})" in line for name, versions in needs.items() if versions)


def test_info_counts_families(msda_ok):
    """The table of families counts what the JSON lists, and has nothing else."""
    table = re.search(r"\n\nfamily +runs on +kernels +run here\n(.*?)\n\n", msda_ok("info"), re.DOTALL)
    rows = [re.split(r"  +", row) for row in table[1].splitlines()]
    kernels = json.loads(msda_ok("info", "--json", "-", "-q"))["kernels"]
    expected = {}
    for kernel in kernels:
        count = expected.setdefault(kernel["family"], [0, 0])
        count[0] += 1
        count[1] += kernel["runs_here"]
    assert {row[0]: [int(row[2]), int(row[3])] for row in rows} == expected
    assert [row[1] for row in rows[:2]] == ["cpu", "cpu"]
    assert all(row[1].startswith("sm_") for row in rows[2:])


def test_info_lists_kernels(msda_ok):
    text = msda_ok("info", "--kernels")
    kernels = json.loads(msda_ok("info", "--json", "-", "-q"))["kernels"]
    table = text.split("\n\n")[1].splitlines()
    assert len(table) == 1 + len(kernels)
    for row, kernel in zip(table[1:], kernels):
        here = "yes" if kernel["runs_here"] else "no"
        assert re.fullmatch(rf"{re.escape(kernel['id'])} +{kernel['family']} +.* +{here}", row)


@pytest.mark.parametrize(
    "source",
    [
        [GOLDEN / "edges.npz", "--dtype", "f32"],
        ["--workload", "dec"],
        ["--levels", "80x80,40x40", "--queries", 300, "--points", "3,6"],
    ],
)
def test_explain_ranks_every_kernel(msda_ok, source):
    rows = msda_ok("explain", *source).splitlines()
    assert rows[0].startswith("problem  forward sampled") and rows[1].startswith(
        "types    value f32"
    )
    kernels = rows[2:]
    assert re.match(r"1  simd\.cpu\.f32@2  predicted [0-9.]{1,4} [um]s$", kernels[0])
    last = ", [0-9]+ % above the first, only chosen where no other kernel takes the problem"
    assert re.match(rf"2  ref\.cpu@1  predicted [0-9.]{{1,4}} [um]s{last}$", kernels[1])
    assert all(re.match(r"-  \S+  rejected: ", row) for row in kernels[2:])
    assert len(kernels) == len(json.loads(msda_ok("info", "--json", "-", "-q"))["kernels"])


def test_explain_says_how_much_longer_a_kernel_takes(msda_ok):
    text = msda_ok("explain", "--workload", "dec", "--backward", "--any-order", "--json", "-", "-q")
    lines = json.loads(text)["results"][0]["kernels"]
    pattern = r"\d+  \S+  predicted ([0-9.]+) us(?:, (\d+) % (above|below) the first)?(?:, only .*)?"
    times = [re.fullmatch(pattern, line) for line in lines if not line.startswith("-")]
    assert len(times) > 1 and all(times) and times[0][2] is None
    for time in times[1:]:
        more = 100 * (float(time[1]) / float(times[0][1]) - 1)
        assert int(time[2]) == pytest.approx(abs(more), abs=0.51)
        assert time[3] == ("below" if more < 0 else "above")


def test_explain_changes_with_the_problem(msda_ok):
    backward = msda_ok("explain", "--workload", "dec", "--backward")
    assert backward.startswith("problem  backward sampled")
    assert re.search(r"^1  simd\.cpu\.f32@2  predicted ", backward, re.MULTILINE)
    wide = msda_ok("explain", "--workload", "dec", "--backward", "--dtype", "f64")
    assert re.search(r"^-  simd\.cpu\.f32@2  rejected: ", wide, re.MULTILINE)
    several = msda_ok("explain", "--workload", "dec,rtdetr", "--fused", 4)
    assert several.count("problem  forward fused(4)") == 2


def test_explain_says_where_points_land(msda_ok):
    for word, said in (("unknown", None), ("local", "local"), ("scattered", "scattered")):
        types = msda_ok("explain", "--workload", "dec", "--point-locality", word).splitlines()[1]
        assert types.endswith(f"  points {said}" if said else "output f32")
    both = msda_ok("explain", "--workload", "enc-local,enc-uniform", "--point-locality", "pattern")
    types = [line for line in both.splitlines() if line.startswith("types")]
    assert [line.split()[-1] for line in types] == ["local", "scattered"]
    assert " points " not in msda_ok("explain", "--workload", "enc-uniform").splitlines()[1]


def test_general_help(msda_ok):
    for words in (["--help"], ["-h"], ["help"]):
        text = msda_ok(*words)
        for command in COMMANDS:
            assert re.search(rf"^  {command} ", text, re.MULTILINE)
        assert "Exit codes" in text and "Examples:" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(msda_ok, command):
    text = msda_ok(command, "--help")
    assert f"Usage: msda {command} " in text and "Examples:" in text
    assert "\n\n\n" not in text
    assert max(map(len, text.splitlines())) <= 110
    assert msda_ok(command, "-h") == text


@pytest.mark.parametrize("command", COMMANDS)
def test_documented(msda_ok, command):
    """docs/cli.md names every option of the help, and no option that there is not."""
    documented = (ROOT / "docs/cli.md").read_text()
    helps = "".join(msda_ok(name, "--help") for name in COMMANDS)
    for option in re.findall(r"^  (?:-h,)?(--[a-z-]+)", msda_ok(command, "--help"), re.MULTILINE):
        assert f"`{option}" in documented, f"{option} is not in docs/cli.md"
    for option in set(re.findall(r"`(--[a-z-]+)", documented)) - {"--version", "--some-name"}:
        assert option in helps, f"docs/cli.md has {option}, which is no option"


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_the_help_are_valid(msda, tmp_path, command):
    """Each example of a help text is understood: what it lacks is at most its files."""
    examples = msda(command, "--help").stdout.split("Examples:\n")[1].strip().splitlines()
    assert len(examples) >= 2
    for example in examples:
        words = example.split()
        env = dict(word.split("=") for word in words[: words.index("msda")])
        words = words[words.index("msda") + 1 :]
        if "bench" in words and "--list" not in words:
            words += ["--iterations", "1"] if "--levels" in words else ["--kernels", "none@1"]
        if words[0] == "tune":
            words += ["--iterations", "1", "--budget-ms", "1"]
            words += [] if "--levels" in words else ["--levels", "9x7,4x3", "--points", "4"]
        result = msda(*words, env=env, cwd=tmp_path)
        refused_for = result.stderr.split("error: ")[-1]
        assert (
            result.returncode == 0
            or "does not exist" in refused_for
            or ("is not a folder" in refused_for or "none@1" in refused_for)
            or ("--device" in words and "--device is" in refused_for)
        ), (example, result.stderr)
