"""The trees that pkg/portable/build made: what they need, every golden vector, clients, damaged files, old processors.

    pkg/portable/build --no-cuda build/portable/x86_64
    pkg/portable/build --architecture aarch64 --tests build/portable/aarch64

Each runs in a root folder that has the tree, Debian 11's package of glibc and nothing else, with an empty environment.
What the processor of this machine is not, qemu-user-static is. Needs root, for chroot.
"""

import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORTABLE = ROOT / "build/portable"
CHROOT = PORTABLE / "chroot"
GOLDEN = sorted((ROOT / "tests/golden").glob("*.npz"))
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
BARE = {"x86_64": [], "aarch64": ["/qemu-aarch64-static"]}

sys.path.insert(0, str(ROOT / "tests/golden"))
import generate  # noqa: E402


class System:
    """A root folder with glibc, an installed tree in /usr and the golden vectors."""

    def __init__(self, folder, architecture):
        self.folder, self.emulator = folder, BARE[architecture]
        package = f"libc6:{DEBIAN[architecture]}"
        copy = f"dpkg -L {package} | while read -r f; do [ -d $f ] || echo $f; done | tar -c -T - 2>/dev/null"
        archive = subprocess.run(["chroot", CHROOT, "sh", "-c", copy], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        shutil.copytree(PORTABLE / architecture, folder / "usr", symlinks=True, dirs_exist_ok=True)
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
            assert (result.returncode, result.stderr) == (0, "")
            with np.load(self.folder / "result.npz") as arrays:
                results = dict(arrays) | results
            (self.folder / "result.npz").unlink()
        stored = dict(np.load(path))
        inputs = {name: stored[name] for name in set(stored) - set(results)}
        assert list(generate.differences(inputs, results, stored)) == []


@pytest.fixture(scope="module", params=DEBIAN)
def system(request, tmp_path_factory):
    return System(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def x86_64(tmp_path_factory):
    return System(tmp_path_factory.mktemp("old_processor"), "x86_64")


@pytest.mark.parametrize("architecture", DEBIAN)
def test_the_tree_needs_nothing_but_an_old_glibc(architecture):
    tree = PORTABLE / architecture
    subprocess.run([sys.executable, ROOT / "pkg/check_library", tree / "lib/libmsda.so", tree / "bin/msda"], check=True)


def test_info_names_the_processor_and_what_runs_on_it(system):
    text = system.run("/usr/bin/msda", "info").stdout
    used = "NEON (used here)" if system.emulator else "(used here)"
    assert used in text and "GNU 10.2.1" in text


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_vectors(system, path):
    system.run_golden(path)
