#!/usr/bin/env python3
"""Makes stubs of the CUDA libraries that a CUDA build of torch is linked with.

    cuda_stubs.py SITE_PACKAGES

torch then loads and runs on the CPU without 3 GB of CUDA libraries. Each stub has the functions that
torch's own libraries ask of it, with the versions of their symbols. A function returns 100, which is
cudaErrorNoDevice and CUDA_ERROR_NO_DEVICE; one that returns a text returns "no CUDA device".
"""

import collections
import pathlib
import subprocess
import sys
import tempfile

# Unversioned symbols are told by their beginnings. The loader looks for them in all libraries, so any stub may have them.
PREFIXES = ("cu", "nccl", "pnccl", "nvshmem")
FAMILIES = (
    "cublas cublasLt cudart cuda cudnn cufft cufile cupti curand cusolver cusparse cusparseLt nccl nvrtc "
    "nvJitLink nvshmem_host nvtx3interop nvToolsExt"
).split()
FOLDERS = {"cudnn": "cudnn", "nccl": "nccl", "nvshmem_host": "nvshmem", "cusparseLt": "cusparselt"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(path):
    """The CUDA libraries that a library is linked with, by family; and theirs by the versions it asks of them."""
    libraries, of_version, library = {}, {}, None
    for words in map(str.split, output("objdump", "--private-headers", path).splitlines()):
        if words[:1] == ["NEEDED"] and family(words[1]):
            libraries[family(words[1])] = words[1]
        elif words[:2] == ["required", "from"]:
            library = words[2].rstrip(":")
        elif len(words) == 4 and words[0].startswith("0x") and family(library or ""):
            of_version[words[3]] = library
    return libraries, of_version


def family(library):
    """The name between lib and .so of a CUDA library; None for another library."""
    name = library.removeprefix("lib").partition(".so")[0]
    return name if name in FAMILIES else None


def make(site):
    wanted = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in sorted((site / "torch" / "lib").glob("*.so")):
        libraries, of_version = needed(path)
        for library in libraries.values():
            wanted[library][""] |= set()
        for line in output("nm", "--dynamic", "--undefined-only", "--with-symbol-versions", path).splitlines():
            name, _, version = line.split()[-1].partition("@")  # most have no version
            if version in of_version:
                wanted[of_version[version]][version].add(name)
            elif not version and libraries and name.startswith(PREFIXES):
                wanted[min(libraries.values())][""].add(name)
    for library, versions in sorted(wanted.items()):
        folder = site / "nvidia" / FOLDERS.get(family(library), "cu13") / "lib"
        folder.mkdir(parents=True, exist_ok=True)
        build(folder / library, versions)
        print(f"{library}: {sum(map(len, versions.values()))} functions")


def build(path, versions):
    lines = []
    for name in sorted(set().union(*versions.values())):
        is_text = name.endswith(("GetErrorString", "GetErrorName", "StatusString", "GetStatusName"))
        # cuGetErrorString(error, &text) writes its text; cudaGetErrorString(error) returns it.
        if is_text and not name.startswith("cuGet"):
            lines.append(f'const char *{name}(void) {{ return "no CUDA device"; }}')
        else:
            lines.append(f"int {name}(void) {{ return 100; }}")
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "stub.map")
        source.write_text("\n".join(lines) + "\n")
        nodes = [f"{v} {{ global: {' '.join(f'{n};' for n in sorted(ns))} }};\n" for v, ns in versions.items() if v]
        script.write_text("".join(nodes))
        options = ["-w", "-shared", "-nostdlib", "-fno-builtin", f"-Wl,-soname,{path.name}"]
        if nodes:
            options.append(f"-Wl,--version-script={script}")
        subprocess.run(["cc", *options, "-o", path, source], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    make(pathlib.Path(sys.argv[1]))
