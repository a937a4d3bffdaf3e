#!/usr/bin/env python3
"""Makes stubs of the CUDA libraries that a CUDA build of torch is linked with.

    cuda_stubs.py SITE_PACKAGES

torch then loads and runs on the CPU without 3 GB of CUDA libraries. Each stub has the functions that
torch's own libraries ask of it, with the versions of their symbols. A function returns 100, which is
cudaErrorNoDevice and CUDA_ERROR_NO_DEVICE; one that returns a text returns "no CUDA device".
"""

import collections
import pathlib
import struct
import subprocess
import sys
import tempfile

# Unversioned symbols are told by their beginnings; the first that fits counts.
PREFIXES = {
    "cufile": ("cuFile",),
    "cusparseLt": ("cusparseLt",),
    "cuda": ("cu",),
    "nccl": ("nccl", "pnccl"),
    "nvshmem_host": ("nvshmem",),
}
FAMILIES = (
    "cublas cublasLt cudart cuda cudnn cufft cufile cupti curand cusolver cusparse cusparseLt nccl nvrtc "
    "nvJitLink nvshmem_host nvtx3interop nvToolsExt"
).split()
FOLDERS = {"cudnn": "cudnn", "nccl": "nccl", "nvshmem_host": "nvshmem", "cusparseLt": "cusparselt"}


class Elf:
    """The sections of a 64-bit little-endian ELF file, as far as the dynamic linker needs them."""

    def __init__(self, path):
        self.data = path.read_bytes()
        start, size, count = struct.unpack_from("<40xQ10xHH", self.data)
        names = "<IIQQQQIIQQ"
        heads = [struct.unpack_from(names, self.data, start + i * size) for i in range(count)]
        self.sections = {head[1]: head for head in heads}
        self.heads = heads

    def part(self, kind):
        """Bytes of the section of a type, and those of the texts it links to."""
        head = self.sections.get(kind)
        if head is None:
            return b"", b""
        texts = self.heads[head[6]]
        cut = lambda h: self.data[h[4] : h[4] + h[5]]
        return cut(head), cut(texts)

    def needed(self):
        entries, texts = self.part(6)
        return [
            text(texts, value) for tag, value in struct.iter_unpack("<qQ", entries) if tag == 1
        ]

    def versions(self):
        """(library, version) by number."""
        data, texts = self.part(0x6FFFFFFE)
        found, at = {}, 0
        while data:
            _, count, file, first, following = struct.unpack_from("<HHIII", data, at)
            entry = at + first
            for _ in range(count):
                _, _, number, name, step = struct.unpack_from("<IHHII", data, entry)
                found[number] = text(texts, file), text(texts, name)
                entry += step
            if not following:
                break
            at += following
        return found

    def undefined(self):
        """(name, library, version) of each symbol that is asked of another library."""
        symbols, texts = self.part(11)
        numbers = [number for (number,) in struct.iter_unpack("<H", self.part(0x6FFFFFFF)[0])]
        versions = self.versions()
        for index, (name, _, _, section, _, _) in enumerate(struct.iter_unpack("<IBBHQQ", symbols)):
            if section == 0 and name:
                number = numbers[index] & 0x7FFF if numbers else 0
                yield text(texts, name), *versions.get(number, ("", ""))


def text(data, at):
    return data[at : data.index(b"\0", at)].decode()


def family(library):
    """The name between lib and .so of a CUDA library; None for another library."""
    name = library.removeprefix("lib").partition(".so")[0]
    return name if name in FAMILIES else None


def make(site):
    wanted = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in sorted((site / "torch" / "lib").glob("*.so")):
        elf = Elf(path)
        by_family = {family(library): library for library in elf.needed() if family(library)}
        for library in by_family.values():
            wanted[library][""] |= set()
        for name, library, version in elf.undefined():
            if family(library):
                wanted[library][version].add(name)
            elif not library:
                for owner, beginnings in PREFIXES.items():
                    if name.startswith(beginnings) and owner in by_family:
                        wanted[by_family[owner]][""].add(name)
                        break
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
        nodes = [(version, names) for version, names in versions.items() if version]
        script.write_text(
            "".join(f"{v} {{ global: {' '.join(f'{n};' for n in sorted(ns))} }};\n" for v, ns in nodes)
        )
        command = ["cc", "-w", "-shared", "-nostdlib", "-fno-builtin", f"-Wl,-soname,{path.name}"]
        if nodes:
            command.append(f"-Wl,--version-script={script}")
        subprocess.run([*command, "-o", path, source], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    make(pathlib.Path(sys.argv[1]))
