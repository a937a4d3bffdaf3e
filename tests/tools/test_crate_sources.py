"""The sources that the crate msda-sys packs suffice for the options that its build script gives CMake."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRATE = ROOT / "bindings" / "rust" / "msda-sys"


def configure(folder, options):
    """CMake's own words; the folder of the crate has links where its package has files."""
    return subprocess.run(["cmake", "-S", CRATE / "native", "-B", folder, *options], capture_output=True, text=True)


def test_cmake_configures_what_the_crate_packs(tmp_path):
    defined = re.findall(r'\.define\("(MSDA_\w+)", "(\w+)"\)', (CRATE / "build.rs").read_text())
    options = [f"-D{name}={value}" for name, value in defined]
    result = configure(tmp_path / "build", options)
    assert result.returncode == 0, result.stderr
    missing = configure(tmp_path / "build", [*options, "-DMSDA_BUILD_JAX=ON"])
    assert missing.returncode == 1 and "plugins/jax" in missing.stderr
