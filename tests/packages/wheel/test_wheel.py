"""The wheel and the sdist: what is in them, the platform they are for, and that their bits can be made again. Each
check is shown a wheel that it has to refuse.

    pytest tests/packages/wheel --prefix PREFIX --policy manylinux_2_28_x86_64
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from elftools.elf.elffile import ELFFile
from installer.records import parse_record_file
from installer.sources import WheelFile
from packaging.metadata import Metadata

from conftest import FAULT, PLUGINS, ROOT, build_wheel, clean_environment, golden_vectors, passed, python_suite

LICENSES = {"LICENSE": ROOT / "LICENSE", "third_party.txt": ROOT / "pkg" / "third_party.txt"}


# ---- what is in it ----


def needed(library):
    with open(library, "rb") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        return [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]


def check_record(path, _):
    """RECORD has every file with its hash and size, and nothing else."""
    with WheelFile.open(path) as source:
        source.validate_record()
        listed = {row[0] for row in parse_record_file(source.read_dist_info("RECORD").splitlines())}
    with zipfile.ZipFile(path) as archive:
        assert listed == {name for name in archive.namelist() if not name.endswith("/")}


def check_licenses(path, _):
    with zipfile.ZipFile(path) as archive:
        (metadata,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
        assert "\nLicense-Expression: Apache-2.0\n" in text
        for name, source in LICENSES.items():
            assert f"\nLicense-File: {name}\n" in text
            stored = archive.read(f"{metadata.removesuffix('METADATA')}licenses/{name}")
            assert stored == source.read_bytes(), name


def check_sbom(path, folder):
    """A valid CycloneDX document that names what is inside the library and the command."""
    with zipfile.ZipFile(path) as archive:
        (name,) = [n for n in archive.namelist() if ".dist-info/sboms/" in n and n.endswith(".json")]
        text = archive.read(name).decode()
        library, command = (archive.extract(f"libmsda/{name}", folder) for name in ("lib/libmsda.so.0", "bin/msda"))
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert error is None, error
    document = json.loads(text)
    components = {c["name"]: c for c in document["components"]}
    assert {"highway", "fmt", "CLI11", "nlohmann_json"} <= set(components)
    assert all(re.match(r"\d+\.\d+", c["version"]) for c in components.values())
    assert f"libmsda {document['metadata']['component']['version']} " in build_info(library)
    assert ("cudart_static" in components) == ("CUDA: none" not in build_info(library))
    for file, name in [(library, "libstdc++"), (command, "libzip")]:
        outside = any(library.startswith(name) for library in needed(file))
        assert (name in components) != outside, name


def build_info(library):
    code = "import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).msda_build_info; f.restype = ctypes.c_char_p"
    return passed(sys.executable, "-c", f"{code}; print(f().decode())", library)


CHECKS = [check_record, check_licenses, check_sbom]


@pytest.mark.parametrize("check", CHECKS)
def test_contents(check, wheel, tmp_path):
    check(wheel, tmp_path)


def rewrite(wheel, folder, change):
    """A copy of the wheel; change(name, content) gives a file's new content, or None to drop it."""
    copy = folder / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(copy, "w") as target:
        for info in source.infolist():
            content = change(info.filename, source.read(info))
            if content is not None:
                target.writestr(info, content)
    return copy


@pytest.mark.parametrize(
    "check, file, fault",
    [
        (check_record, "libmsda/_plan.py", lambda b: b + b"#"),
        (check_record, "libmsda/py.typed", lambda b: None),
        (check_licenses, "licenses/third_party.txt", lambda b: b[:-1]),
        (check_licenses, "licenses/LICENSE", lambda b: None),
        (check_sbom, "libmsda.cdx.json", lambda b: None),
        (check_sbom, "libmsda.cdx.json", lambda b: b.replace(b'"type": "library"', b'"type": "book"')),
        (check_sbom, "libmsda.cdx.json", lambda b: b.replace(b"highway", b"motorway")),
        (check_sbom, "libmsda.cdx.json", lambda b: re.sub(rb'("libmsda",\s+"version": ")\d', rb"\g<1>9", b)),
    ],
)
def test_contents_that_are_refused(check, file, fault, wheel, tmp_path):
    broken = rewrite(wheel, tmp_path, lambda n, b: fault(b) if n.endswith(file) else b)
    assert hashlib.sha256(broken.read_bytes()).digest() != hashlib.sha256(wheel.read_bytes()).digest()
    with pytest.raises(Exception):  # noqa: B017  each check raises what its reader does
        check(broken, tmp_path)


def check_metadata(text):
    """The index refuses metadata that their specification does not allow, and has the README for the page of the project."""
    metadata = Metadata.from_email(text, validate=True)
    assert metadata.name == "libmsda" and metadata.description.startswith("# ")
    assert metadata.description_content_type == "text/markdown"


def metadata_of(wheel, sdist):
    with WheelFile.open(wheel) as source:
        of_wheel = source.read_dist_info("METADATA")
    with tarfile.open(sdist) as archive:
        return of_wheel, archive.extractfile(f"{sdist.name.removesuffix('.tar.gz')}/PKG-INFO").read().decode()


def test_index_takes_it(wheel, sdist):
    for text in metadata_of(wheel, sdist):
        check_metadata(text)
        for field in ("Name", "Version", "License-Expression", "Description-Content-Type"):
            with pytest.raises(Exception):  # noqa: B017  the specification's own, one a field
                check_metadata(re.sub(rf"^{field}: ", f"{field}: ;", text, count=1, flags=re.M))


def test_library_plugins_and_command_are_those_of_the_prefix(wheel, prefix):
    (library,) = {path.resolve() for path in prefix.glob("lib*/**/libmsda.so")}
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("libmsda/lib/libmsda.so.0") == library.read_bytes()
        for plugin in PLUGINS:
            assert archive.read(f"libmsda/lib/{plugin}") == library.with_name(plugin).read_bytes()
        assert archive.read("libmsda/bin/msda") == (prefix / "bin" / "msda").read_bytes()


# ---- its platform ----


def test_platform(wheel, policy):
    """The tag is the policy or an older one, and auditwheel finds the same."""
    python_tag, abi_tag, platforms = wheel.stem.split("-")[-3:]
    assert (python_tag, abi_tag) == ("py3", "none")
    audit = json.loads(passed(sys.executable, "-m", "auditwheel", "show", "--json", wheel))
    assert audit["overall_tag"] in platforms.split(".") or policy == "linux_x86_64"
    if policy != "linux_x86_64":
        assert audit["external_libs"] == {}
        newest, found = (tuple(map(int, re.findall(r"_(\d+)_(\d+)_", tag)[0]))
                         for tag in (policy, audit["overall_tag"]))
        assert found <= newest


@pytest.mark.parametrize(
    "source, error",
    [
        ("int other(void); int f(void) { return other(); }", "libmsda.so or msda needs libother.so\n"),
        ("unsigned arc4random(void); unsigned f(void) { return arc4random(); }",  # of glibc 2.36
         "libmsda.so or msda needs manylinux_2_36_x86_64; allowed is manylinux_2_28_x86_64 or older\n"),
    ],
    ids=["another library", "a newer glibc"],
)
def test_libraries_that_are_refused(source, error, prefix, tmp_path):
    """By default; and nothing is left in the folder."""
    version = (ROOT / "include/msda.h").read_text()
    version = ".".join(re.findall(r"#define MSDA_VERSION_[A-Z]+ +(\d+)", version)[:3])
    library = tmp_path / "lib" / f"libmsda.so.{version}"
    library.parent.mkdir()
    for folder in ("bin", "share"):
        shutil.copytree(prefix / folder, tmp_path / folder)
    for name, code, *options in [("libother.so", "int other(void) { return 1; }"),
                                 (library.name, source, "-L.", "-lother", "-Wl,--as-needed")]:
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", *options, "-o", name], input=code,
                       text=True, check=True, cwd=library.parent)
    (library.parent / "libmsda.so").symlink_to(library.name)
    result = build_wheel(tmp_path, tmp_path / "dist")
    assert result.returncode == 1 and error in result.stderr, result.stderr
    assert list((tmp_path / "dist").iterdir()) == []


def test_policy_that_is_none(prefix, tmp_path):
    result = build_wheel(prefix, tmp_path / "dist", "manylinux2014")
    assert result.returncode == 1
    assert "POLICY is manylinux2014; allowed are linux_x86_64 and manylinux_<major>_<minor>" in result.stderr


def test_prefix_without_a_library(tmp_path):
    result = build_wheel(tmp_path, tmp_path / "dist")
    assert result.returncode == 1
    message = " ".join(result.stderr.split())  # CMake breaks the lines
    assert f"MSDA_PREFIX is '{tmp_path}'; it must hold an installed libmsda" in message


def test_prefix_without_the_command(prefix, tmp_path):
    """It is refused, and taken where the command is not wanted: then there is no script either."""
    shutil.copytree(prefix, tmp_path / "prefix", symlinks=True, ignore=shutil.ignore_patterns("bin", "*.a"))
    result = build_wheel(tmp_path / "prefix", tmp_path / "dist")
    assert result.returncode == 1 and "it must hold bin/msda" in " ".join(result.stderr.split())
    passed(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT / "bindings" / "python",
           "-C", f"build-dir={tmp_path}/build", "-C", f"cmake.define.MSDA_PREFIX={tmp_path}/prefix",
           "-C", "cmake.define.MSDA_BUILD_CLI=OFF", env=os.environ)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        names = archive.namelist()
    assert "libmsda/lib/libmsda.so.0" in names and not [name for name in names if name.endswith("/msda")]


def test_same_bits(dist, prefix, policy, tmp_path):
    assert build_wheel(prefix, tmp_path, policy).returncode == 0
    for path in dist.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


# ---- as it is installed: beside test_installed.py ----


def test_golden_vectors_find_a_fault(wheel, wheelhouse, tmp_path):
    def fault(name, content):
        return content + FAULT.encode() if name == "libmsda/__init__.py" else content

    broken = rewrite(wheel, tmp_path, fault)
    python = clean_environment(tmp_path / "venv", wheelhouse, broken)
    result = golden_vectors(python, tmp_path, "-k", "ddetr_test")
    assert result.returncode == 1 and "off by" in result.stdout


def test_processor_without_avx2(python, tmp_path):
    """The numbers are right, and the package says which kernels are used."""
    code = "import libmsda; print(libmsda.build_info())"
    processor = ("/usr/bin/qemu-x86_64", "-cpu", "Nehalem", python, "-B")
    assert re.search(r"SSE4, SCALAR \(used here\)", passed(*processor, "-c", code, cwd=tmp_path))
    output = passed(*processor, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "stored_results",
                    ROOT / "tests" / "python" / "test_golden_vectors.py", cwd=tmp_path)
    assert "16 passed" in output


# ---- the sdist ----


def test_sdist_makes_the_same_wheel(wheel, sdist, wheelhouse, tmp_path):
    """Unpacked outside the repository, compiled without network: the same files, and the Python tests pass with the
    library and the command that were compiled."""
    with tarfile.open(sdist) as archive:
        assert not [m.name for m in archive if m.islnk() or m.issym()]
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.glob("libmsda-*")
    kept = ("PATH", "HOME", "CMAKE_CXX_COMPILER_LAUNCHER", "CMAKE_C_COMPILER_LAUNCHER", "CCACHE_STATSLOG")
    # A build folder beside the sources: the compiler cache then knows the files wherever they lie.
    subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-index", "--no-deps", "--no-build-isolation",
                    "-C", f"build-dir={source}/native/build", "-C", "cmake.define.MSDA_CUDA=OFF",
                    "-w", tmp_path, source],
                   env={name: os.environ[name] for name in kept if name in os.environ}, check=True)
    (made,) = tmp_path.glob("*.whl")
    # compiled here, for this platform
    differing = (*PLUGINS, "libmsda.so.0", "bin/msda", "libmsda.cdx.json", "RECORD", "WHEEL")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(made) as other:
        names = [{n for n in z.namelist() if not n.endswith("/")} for z in (one, other)]
        assert names[0] == names[1]
        for name in names[0]:
            assert one.read(name) == other.read(name) or name.endswith(differing), name
    check_record(made, tmp_path)
    check_sbom(made, tmp_path)
    python = clean_environment(tmp_path / "venv", wheelhouse, made)
    python_suite(python, tmp_path, python.with_name("msda"))
