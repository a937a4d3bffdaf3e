"""The conda packages: made by pkg/conda/build, installed by rattler from their own channel into an empty prefix,
and used from C and from Python there.

    pytest tests/packages/conda --prefix PREFIX

No channel of others is reached. libmsda and libmsda-dev ask for nothing but the virtual package __glibc. What
libmsda-python asks for (python, numpy, cffi, ml_dtypes) comes from packages that this test makes: its Python is this
machine's behind a link, the others are the wheels of PyPI. So the solver's work, the installation of noarch files
and the search for the library are real; conda-forge's builds of Python and numpy are not tested.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest
import rattler
import rattler_build
from rattler.index import index_fs
from rattler.package import BuildString
from rattler.package_streaming import extract

from conftest import FAULT, PLUGINS, ROOT, RUN_TIME, TEST_TOOLS, golden_vectors, passed, python_suite, run

PLATFORM = str(rattler.Subdir.current())
PYTHON_VERSION = sysconfig.get_python_version()
CLIENT = ROOT / "tests" / "install" / "client.c"
PATH = {"PATH": "/usr/bin:/bin"}  # where Debian has the compiler


def build(prefix, folder):
    return subprocess.run([sys.executable, ROOT / "pkg/conda/build", prefix, folder], capture_output=True, text=True)


@pytest.fixture(scope="session")
def channel(prefix, tmp_path_factory):
    folder = tmp_path_factory.mktemp("channel")
    result = build(prefix, folder)
    assert result.returncode == 0, result.stderr
    return folder


def find(channel, name):
    return next(rattler_build.Package.from_file(path) for path in channel.rglob(f"{name}-*.conda")
                if rattler_build.Package.from_file(path).name == name)


def install(target, packages, *channels, virtual_packages=None):
    """As `conda create --prefix TARGET --channel ... PACKAGES`."""
    async def solve_and_install():
        records = await rattler.solve(
            [channel.as_uri() for channel in channels], packages, platforms=[PLATFORM, "noarch"],
            virtual_packages=rattler.VirtualPackage.detect() if virtual_packages is None else virtual_packages)
        await rattler.install(records, target, cache_dir=target.parent / "cache", show_progress=False)
        return sorted(record.name.normalized for record in records)

    return asyncio.run(solve_and_install())


@pytest.fixture(scope="session")
def stand_ins(wheelhouse, tmp_path_factory):
    """A channel with Python, and with what libmsda-python and its tests need of PyPI."""
    channel = tmp_path_factory.mktemp("stand_ins")
    base = pathlib.Path(sys.base_prefix) / "bin" / f"python{PYTHON_VERSION}"
    files = tmp_path_factory.mktemp("python")
    (files / "bin").mkdir()
    (files / "bin" / base.name).symlink_to(base)
    (files / "bin" / "python").symlink_to(base.name)
    (files / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
    folders = {"python": (files, sys.version.split()[0], [])}
    for name in RUN_TIME + TEST_TOOLS:
        (wheel,) = [w for w in wheelhouse.glob("*.whl") if w.name.split("-")[0].lower() == name.lower()]
        files = tmp_path_factory.mktemp(name)
        packages = files / "lib" / f"python{PYTHON_VERSION}" / "site-packages"
        passed(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--no-index",
               "--disable-pip-version-check", "--target", packages, wheel)
        folders[name.lower()] = (files, wheel.name.split("-")[1], ["python"])
    for name, (files, version, depends) in folders.items():
        rattler_build.assemble_package(name, version, PLATFORM, "0", channel / PLATFORM, files_dir=files,
                                       depends=depends, compression_level=1)
    asyncio.run(index_fs(channel))
    return channel


@pytest.fixture(scope="session")
def c_prefix(channel, tmp_path_factory):
    target = tmp_path_factory.mktemp("c") / "prefix"
    assert install(target, ["libmsda-dev"], channel) == ["libmsda", "libmsda-dev"]
    return target


@pytest.fixture(scope="session")
def python(channel, stand_ins, tmp_path_factory):
    target = tmp_path_factory.mktemp("python") / "prefix"
    names = install(target, ["libmsda-python", *TEST_TOOLS], channel, stand_ins)
    assert {"libmsda", "libmsda-python", "python", "numpy"} <= set(names) and "libmsda-dev" not in names
    return target / "bin" / "python"


# ---- the packages ----


def test_library_plugins_and_command_are_those_of_the_prefix(c_prefix, prefix):
    (library,) = {path.resolve() for path in prefix.glob("lib*/**/libmsda.so")}
    installed = c_prefix / "lib" / "libmsda.so"
    assert installed.resolve().read_bytes() == library.read_bytes()
    assert os.readlink(c_prefix / "lib" / "libmsda.so.0") == library.name
    for plugin in PLUGINS:
        assert (c_prefix / "lib" / plugin).read_bytes() == library.with_name(plugin).read_bytes()
    assert (c_prefix / "bin" / "msda").read_bytes() == (prefix / "bin" / "msda").read_bytes()


def test_contents(channel):
    """What each package holds and asks for; licences in all."""
    libmsda, dev, python = (find(channel, name) for name in ("libmsda", "libmsda-dev", "libmsda-python"))
    assert len(libmsda.depends) == 1 and libmsda.depends[0].startswith("__glibc >=2.")
    assert dev.depends == [f"libmsda =={libmsda.version} {libmsda.build_string}"]
    major, minor, _ = map(int, libmsda.version.split("."))
    assert python.depends[-1] == f"libmsda >={libmsda.version},<{major}.{minor + 1}.0a0"
    assert python.noarch == "python" and not [f for f in python.files if ".so" in str(f)]
    assert not [f for f in map(str, python.files) if "direct_url" in f or f.endswith(".pyc")]


def test_exports_and_licenses(channel, tmp_path):
    for name in ("libmsda", "libmsda-dev", "libmsda-python"):
        (package,) = [p for p in channel.rglob("*.conda") if p.name.rsplit("-", 2)[0] == name]
        extract(package, tmp_path / name)
        for license in (ROOT / "LICENSE", ROOT / "pkg" / "third_party.txt"):
            assert (tmp_path / name / "info/licenses" / license.name).read_bytes() == license.read_bytes()
        exports = tmp_path / name / "info" / "run_exports.json"
        assert exports.exists() == (name == "libmsda-dev")
    weak = json.loads((tmp_path / "libmsda-dev/info/run_exports.json").read_text())["weak"]
    assert weak == [find(channel, "libmsda-python").depends[-1]]


def test_same_contents(channel, prefix, tmp_path):
    """Another build differs in the time it was made at, and in nothing else."""
    assert build(prefix, tmp_path / "again").returncode == 0
    for package in channel.rglob("*.conda"):
        (again,) = (tmp_path / "again").rglob(package.name)
        texts = []
        for i, path in enumerate((package, again)):
            folder = tmp_path / package.stem / str(i)
            extract(path, folder)
            index = folder / "info" / "index.json"
            index.write_text("".join(li for li in index.read_text().splitlines(True) if '"timestamp"' not in li))
            texts.append({f.relative_to(folder): f.read_bytes() for f in folder.rglob("*") if f.is_file()})
        assert texts[0] == texts[1]


def test_prefix_without_a_library(tmp_path):
    result = build(tmp_path, tmp_path / "channel")
    assert result.returncode == 1
    assert result.stderr.startswith(f"PREFIX is {tmp_path}: it must hold one lib/libmsda.so.")


def test_a_file_that_is_missing(prefix, tmp_path):
    """The recipe's own tests refuse a package that lacks a file they name."""
    subprocess.run(["cp", "-a", prefix, tmp_path / "prefix"], check=True)
    (pc,) = (tmp_path / "prefix").rglob("msda.pc")
    pc.unlink()
    result = build(tmp_path / "prefix", tmp_path / "channel")
    assert result.returncode == 1 and "msda.pc" in result.stderr


def test_an_older_glibc_is_refused(channel, tmp_path):
    old = [rattler.GenericVirtualPackage(rattler.PackageName("__glibc"), rattler.Version("2.5"), BuildString("0"))]
    with pytest.raises(Exception, match="__glibc"):
        install(tmp_path / "prefix", ["libmsda"], channel, virtual_packages=old)


# ---- from C ----


def test_c_client(c_prefix, tmp_path):
    """By pkg-config and a plain compiler; the library is found in the prefix, which may be anywhere."""
    environment = PATH | {"PKG_CONFIG_PATH": str(c_prefix / "lib" / "pkgconfig")}
    flags = passed("pkg-config", "--cflags", "--libs", "msda", env=environment).split()
    passed("cc", "-std=c99", CLIENT, *flags, f"-Wl,-rpath,{c_prefix}/lib", "-o", tmp_path / "client", env=PATH)
    assert "is 5\n" in passed(tmp_path / "client")


def test_cmake_client(c_prefix, tmp_path):
    cmake = pathlib.Path(sys.executable).with_name("cmake")
    (tmp_path / "CMakeLists.txt").write_text(f"""
        cmake_minimum_required(VERSION 3.24)
        project(client LANGUAGES C CXX)
        find_package(msda REQUIRED)
        add_executable(client {CLIENT})
        target_link_libraries(client PRIVATE msda::msda)
    """)
    passed(cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={c_prefix}", env=PATH)
    passed(cmake, "--build", tmp_path / "build", env=PATH)
    assert "is 5\n" in passed(tmp_path / "build" / "client")


def test_c_client_without_the_library(c_prefix, tmp_path):
    """What the client test would say of a prefix that has no library."""
    environment = PATH | {"PKG_CONFIG_PATH": str(c_prefix / "lib" / "pkgconfig")}
    flags = passed("pkg-config", "--cflags", "--libs", "msda", env=environment).split()
    passed("cc", "-std=c99", CLIENT, *flags, f"-Wl,-rpath,{tmp_path}", "-o", tmp_path / "client", env=PATH)
    assert "libmsda.so.0: cannot open shared object file" in run(tmp_path / "client").stderr


# ---- from Python ----


def test_first_use(python, tmp_path):
    path = passed(python, "-c", "import libmsda; print(libmsda.library_path)", cwd=tmp_path).strip()
    assert path == str(python.parents[1] / "lib" / "libmsda.so.0")


def test_python_suite(python, tmp_path):
    """With the command of the package libmsda."""
    python_suite(python, tmp_path, python.with_name("msda"))


def test_golden_vectors_find_a_fault(channel, stand_ins, tmp_path):
    target = tmp_path / "prefix"
    install(target, ["libmsda-python", *TEST_TOOLS], channel, stand_ins)
    (package,) = target.rglob("libmsda/__init__.py")
    text = package.read_text()
    package.unlink()  # a link to the cache
    package.write_text(text + FAULT)
    result = golden_vectors(target / "bin" / "python", tmp_path, "-k", "ddetr_test")
    assert result.returncode == 1 and "off by" in result.stdout


def test_removes_without_leftovers(channel, tmp_path):
    target = tmp_path / "prefix"
    install(target, ["libmsda-dev"], channel)
    asyncio.run(rattler.install([], target, cache_dir=tmp_path / "cache", show_progress=False))
    assert list(target.rglob("*msda*")) == []


# ---- the recipe that compiles ----


@pytest.mark.parametrize("cuda", ["None", "13.0"])
def test_conda_forge_recipe(cuda, channel, monkeypatch):
    """It renders, and its packages ask for the same as those made here and for the compilers' libraries."""
    version = find(channel, "libmsda-python").version
    monkeypatch.setenv("MSDA_VERSION", version)
    recipe = rattler_build.Stage0Recipe.from_file(ROOT / "pkg/conda/conda-forge/recipe.yaml")
    variants = rattler_build.VariantConfig({
        "c_compiler": ["gcc"], "c_compiler_version": ["14"], "cxx_compiler": ["gxx"], "cxx_compiler_version": ["14"],
        "c_stdlib": ["sysroot"], "c_stdlib_version": ["2.17"],
        "cuda_compiler": ["cuda-nvcc"], "cuda_compiler_version": [cuda]})
    config = rattler_build.RenderConfig(
        platform=rattler_build.PlatformConfig(target_platform=PLATFORM, experimental=True))
    found = {}
    for variant in recipe.render(variants, config):
        rendered = variant.recipe.to_dict()
        found[rendered["package"]["name"]] = rendered
    assert sorted(found) == ["libmsda", "libmsda-dev", "libmsda-python"]
    assert {r["package"]["version"] for r in found.values()} == {version}
    (staged,) = found["libmsda"]["staging_caches"]
    tools = " ".join(staged["requirements"]["build"])
    assert "gxx" in tools and "sysroot" in tools and ("cuda-nvcc" in tools) == (cuda != "None")
    assert f"MSDA_CUDA={'OFF' if cuda == 'None' else 'ON'}" in staged["build"]["script"][0]
    made, rendered = find(channel, "libmsda-python").depends, found["libmsda-python"]["requirements"]["run"]
    assert [d for d in rendered if isinstance(d, str)] == made[:-1]
