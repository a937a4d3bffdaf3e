"""The trees that pkg/portable/build made: what they need, every golden vector, clients, damaged files, old processors.

    pkg/portable/build --no-cuda build/portable/x86_64
    pkg/portable/build --architecture aarch64 --tests build/portable/aarch64
    pytest tests/packages/test_portable.py [--trees build/portable]

Each runs in a root folder that has the tree, Debian 11's package of glibc and nothing else, with an empty environment.
What the processor of this machine is not, qemu-user-static is. Needs root, for chroot.
"""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from conftest import PLUGINS

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHROOT = ROOT / "build/portable/chroot"
GOLDEN = sorted((ROOT / "tests/golden").glob("*.npz"))
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
BARE = {"x86_64": [], "aarch64": ["/qemu-aarch64-static"]}

sys.path.insert(0, str(ROOT / "tests/golden"))
import generate  # noqa: E402


class System:
    """A root folder with glibc, an installed tree in /usr and the golden vectors."""

    def __init__(self, folder, architecture, trees):
        self.folder, self.architecture, self.emulator = folder, architecture, BARE[architecture]
        package = f"libc6:{DEBIAN[architecture]}"
        copy = f"dpkg -L {package} | while read -r f; do [ -d $f ] || echo $f; done | tar -c -T - 2>/dev/null"
        archive = subprocess.run(["chroot", CHROOT, "sh", "-c", copy], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        shutil.copytree(trees / architecture, folder / "usr", symlinks=True, dirs_exist_ok=True)
        shutil.copytree(ROOT / "tests/golden", folder / "golden")
        for program in {"qemu-x86_64-static", *(name.strip("/") for name in self.emulator)}:
            shutil.copy2(f"/usr/bin/{program}", folder)

    def run(self, *command, emulator=None):
        return subprocess.run([shutil.which("chroot"), self.folder, *(emulator or self.emulator), *map(str, command)],
                              capture_output=True, text=True, env={})

    def run_golden(self, path, emulator=None):
        """Float64 results against the stored ones; float32 by the SIMD kernels against the reference."""
        results = {}
        for arguments in (["--check", "--kernel=ref.cpu@1"], ["--backward"], ["--check", "--dtype=f32"]):
            result = self.run("/usr/bin/msda", "run", f"/golden/{path.name}", *arguments, "--iterations=1", "--warmup=0",
                              "--output=/result.npz", emulator=emulator)
            warnings = [line for line in result.stderr.splitlines() if not line.startswith("qemu-")]
            assert (result.returncode, warnings) == (0, [])
            with np.load(self.folder / "result.npz") as arrays:
                results = dict(arrays) | results
            (self.folder / "result.npz").unlink()
        stored = dict(np.load(path))
        inputs = {name: stored[name] for name in set(stored) - set(results)}
        assert list(generate.differences(inputs, results, stored)) == []


@pytest.fixture(scope="module")
def trees(request):
    return request.config.getoption("--trees").resolve()


@pytest.fixture(scope="module", params=DEBIAN)
def system(request, trees, tmp_path_factory):
    return System(tmp_path_factory.mktemp(request.param), request.param, trees)


@pytest.mark.parametrize("architecture", DEBIAN)
def test_the_tree_needs_nothing_but_an_old_glibc(architecture, trees):
    tree = trees / architecture
    plugins = sorted((tree / "lib").glob("libmsda_*.so"))
    assert [path.name for path in plugins] == list(PLUGINS)
    command = [sys.executable, ROOT / "pkg/check_library", tree / "lib/libmsda.so", tree / "bin/msda", *plugins]
    subprocess.run(command, check=True)


def test_info_says_what_runs_here(system):
    text = system.run("/usr/bin/msda", "info").stdout
    assert ("NEON (used here)" if system.emulator else "(used here)") in text
    result = system.run("/usr/bin/msda", "run", "/golden/edges.npz", "--dtype=f32", "--check")
    assert "kernel   simd.cpu.f32@2" in result.stdout and result.returncode == 0


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_vectors(system, path):
    system.run_golden(path)


def test_a_c_client(system):
    source, prefix = f"/msda/{system.architecture}/source", f"/msda/{system.architecture}/build/prefix"
    subprocess.run([shutil.which("chroot"), CHROOT, f"{system.architecture}-linux-gnu-gcc", "-std=c99",
                    f"{source}/tests/install/client.c", f"-I{prefix}/include", f"-L{prefix}/lib", "-lmsda", "-o", "/tmp/client"],
                   check=True)
    shutil.copy2(CHROOT / "tmp/client", system.folder)
    assert system.run("/client").stdout == "C client: twice the mean of 1 2 3 4 is 5\n"


def test_clients_of_the_relocated_tree_by_cmake_and_pkg_config(tmp_path, trees):
    """With this machine's compilers; the static library holds Highway, too."""
    shutil.copytree(trees / "x86_64", tmp_path / "moved", symlinks=True)
    subprocess.run([ROOT / "tests/install/run", tmp_path / "moved"], check=True)


# Highway asks for AES beside SSE 4.2, which Nehalem has not.
OLD_PROCESSORS = {"Nehalem": "SCALAR (used here)", "Westmere": "SSE4 (used here)", "Haswell": "AVX2 (used here)"}


@pytest.mark.parametrize("processor", OLD_PROCESSORS)
def test_right_results_on_old_processors(tmp_path, trees, processor):
    system = System(tmp_path, "x86_64", trees)
    emulator = ["/qemu-x86_64-static", "-cpu", processor]
    assert OLD_PROCESSORS[processor] in system.run("/usr/bin/msda", "info", emulator=emulator).stdout
    reasons = system.run("/usr/bin/msda", "explain", "/golden/edges.npz", "--dtype=f32", emulator=emulator).stdout
    assert ("needs vector instructions that this processor has not" in reasons) == (processor == "Nehalem")
    for path in GOLDEN[::4]:
        system.run_golden(path, emulator)


# Without what takes minutes under emulation, or ran above.
EMULATED = {"unit": "--test-case-exclude=gradients computed in float32*,of 2000 random problems*,kernels refuse of random*",
            "contract": "--test-case-exclude=soak,execute allocates nothing,a plan comes back*,many callers*,golden vectors*",
            "kernel": "--test-case=*golden vectors*"}


@pytest.mark.parametrize("program", EMULATED)
def test_aarch64_under_emulation(program):
    shutil.copy2("/usr/bin/qemu-aarch64-static", CHROOT)
    result = subprocess.run(
        [shutil.which("chroot"), CHROOT, "/qemu-aarch64-static", f"/msda/aarch64/build/bin/msda_test_{program}",
         "--no-path-filenames", EMULATED[program]], capture_output=True, text=True,
        env={"LD_LIBRARY_PATH": "/usr/aarch64-linux-gnu/lib"})
    assert result.returncode == 0, result.stdout[-4000:]


def test_a_truncated_library_does_not_start(system):
    library = next((system.folder / "usr/lib").glob("libmsda.so.*.*"))
    whole = library.read_bytes()
    try:
        library.write_bytes(whole[:100])
        result = system.run("/usr/bin/msda", "info")
    finally:
        library.write_bytes(whole)
    assert result.returncode == 127 and len(result.stderr.splitlines()) == 1 and "libmsda.so.0" in result.stderr
