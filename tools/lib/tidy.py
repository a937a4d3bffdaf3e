"""What tools/check tidy does: checks what compilers and formatters do not:

  header    every public type, field, enumerator and function of include/msda.h is documented; functions have
            every slot (@param of each parameter and of no other, @status or @return, @sync, @threads, @owns,
            @since); a function that returns a status lists MSDA_SUCCESS and only statuses that exist
  comments  60 to 80 % of the header's lines are comments
  names     file names of the C++ sources are unique in the tree, but for those of families, kernels/ and tests/families/
  length    host functions have at most 70 lines, signature and all
  reading   a kernel's .cuh includes at most 8 files and 1,500 lines of its family, with the engines kernels/rows and
            kernels/points 12 files and 2,300 lines
  words     identifiers under kernels/ have none of the words that meant several things, and no block of comments
            there or under src/ begins with Of, What, Where, Those, The same or By
  clocks    tests do not depend on the host's time: they give the code a clock of theirs (src/core/clock.h), and what
            ends a hang has its limit from tests/support/hang.h or hang.py
  links     what a document links to in this tree is there
  version   files that have to repeat the version of include/msda.h have that one

Exit status 1 if anything was found. Needs the Python package libclang.
"""

import collections
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

from msda_header import HEADER, ROOT, Declared, Header, read_header
from source_functions import functions_of

LARGEST_FUNCTION = 70
COMMENT_SHARE = (0.60, 0.80)
# Files that cannot read the version from the header, and where they have it.
VERSIONS = {
    "CHANGELOG.md": r"^## (\S+?),? ",
    "bindings/rust/Cargo.toml": r'^version = "(.*)"$',
    "bindings/rust/msda/Cargo.toml": r'^msda-sys = \{ version = "(.*?)"',
}
CLOCK = re.compile(r"(steady|system|high_resolution)_clock|\bsteady_us\b|clock_gettime|\bInstant::now|"
                   r"\btime\.(monotonic|perf_counter|time)\(|\.wait_(for|until)\(|timeout=\d")
# Files of tests that read the time, and what for.
CLOCK_READERS = {
    "tests/ptx/watchdog.h": "ends the program after kHangLimit",
    "tests/kernel/many_launches_test.cpp": "the same",
    "tests/kernel/gpu_test.cpp": "measures what a call costs; tools/check gpu runs it alone",
    "tests/simt/plant_bugs": "prints how long it took",
    "tests/tools/plant_faults": "the same",
    "tests/fuzz/run": "ends an input that hangs",
    "tests/tools/test_tidy.py": "has what is to be found",
}
# Copies of what was released elsewhere, not sources.
COPIES = ("tests/abi/released/", "plugins/onnxruntime/third_party/", "plugins/tensorrt/third_party/")
FUNCTION_SLOTS = ("sync", "threads", "owns", "since")
INCLUDE = re.compile(r'^#include "kernels/(\w+)/([\w.]+)"', re.M)
ENGINES = ("rows", "points")
# Files and lines of the family itself, and with the engines. common/ has names that say what they do: it is not counted.
OWN, ALL = (8, 1500), (12, 2300)
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
# Words with several meanings, and the one to take instead.
WORDS = {
    "piece": "part or vec",
    "kept": "cached",
    "step": "stride or vec",
    "share": "fraction",
    "quickly": "fast",
    "strictly": "exact",
}
PREFIXES = {"kMost": "kMax", "kLeast": "kMin"}


def function_faults(function: Declared, statuses: set[str]) -> list[str]:
    found = re.findall(r"@(\w+)\s+(\S.*)", function.comment)  # such as ("param", "handle  a handle")
    names = [text.split()[0] for slot, text in found if slot == "param"]
    wanted = [p.name for p in function.parameters]
    faults = [f"parameter {name} has no @param" for name in wanted if name not in names]
    faults += [f"@param {name} is no parameter" for name in names if name not in wanted]
    have = {slot for slot, _ in found}
    needed = ("since",) if function.is_callback else FUNCTION_SLOTS
    faults += [f"has no @{slot}" for slot in needed if slot not in have]
    listed = [text.split()[0] for slot, text in found if slot == "status"]
    faults += [f"@status {status} does not exist" for status in listed if status not in statuses]
    if function.result == "msda_status":
        if "MSDA_SUCCESS" not in listed:
            faults.append("has no @status MSDA_SUCCESS")
    elif function.result != "void" and "return" not in have:
        faults.append("has no @return")
    if not re.match(r"/\*\*\s*\n \* \S", function.comment):
        faults.append("does not say what it does")
    return faults


def header_faults(header: Header) -> list[str]:
    statuses = {e.name for t in header.typedefs if t.name == "msda_status" for e in t.enumerators}
    values = [e for t in header.typedefs for e in t.enumerators] + [f for s in header.structs for f in s.fields]
    faults = [(it, "has no @since") for it in header.typedefs + header.structs if "@since" not in it.comment]
    faults += [(it, "is not documented") for it in values if not it.comment.strip()]
    faults += [(it, "does not start with struct_size") for it in header.structs
               if not it.fields or it.fields[0].name != "struct_size"]
    faults += [(it, what) for it in header.functions + header.callbacks for what in function_faults(it, statuses)]
    return [f"{HEADER.relative_to(ROOT)}:{it.line}: {it.name}: {what}" for it, what in faults]


def comment_faults(header: Header) -> list[str]:
    without = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), header.text, flags=re.S)
    written, bare = (sum(bool(line.strip()) for line in text.split("\n")) for text in (header.text, without))
    share = 1 - bare / written
    if COMMENT_SHARE[0] <= share <= COMMENT_SHARE[1]:
        return []
    return [(f"{HEADER.relative_to(ROOT)}: {share:.0%} of the lines are comments; "
             f"should be {COMMENT_SHARE[0]:.0%} to {COMMENT_SHARE[1]:.0%}")]


def listed_files(*patterns: str) -> list[pathlib.Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).exists() and not name.startswith(COPIES)]


def numbered(file: pathlib.Path, text: str | None = None) -> Iterator[tuple[str, str]]:
    """FILE:NUMBER and text of each line of a file, or of what is left of its text."""
    for number, line in enumerate((file.read_text() if text is None else text).splitlines(), 1):
        yield f"{file.relative_to(ROOT)}:{number}", line


def link_faults(document: pathlib.Path) -> list[str]:
    targets = ((place, target.partition("#")[0]) for place, line in numbered(document)
               for target in re.findall(r"\]\(([^)\s]+)\)", line))
    return [f"{place}: the link's target {target} is not there" for place, target in targets
            if target and "://" not in target and not (document.parent / target).exists()]


def clock_faults(file: pathlib.Path) -> list[str]:
    if file.suffix in (".npz", ".bin") or str(file.relative_to(ROOT)) in CLOCK_READERS:
        return []
    return [f"{place}: {match[0]}: a test depends on the host's time" for place, line in numbered(file)
            for match in CLOCK.finditer(line)]


def version_of(header: Header) -> str:
    return ".".join(str(header.constant(f"MSDA_VERSION_{part}")) for part in ("MAJOR", "MINOR", "PATCH"))


def version_faults(header: Header, root: pathlib.Path = ROOT) -> list[str]:
    version = version_of(header)
    faults = []
    for name, pattern in VERSIONS.items():
        found = re.search(pattern, (root / name).read_text(), re.M)
        if not found or found[1] != version:
            faults.append(f"{name}: has version {found[1] if found else 'none'}; include/msda.h has {version}")
    return faults


def name_faults(files: list[pathlib.Path]) -> list[str]:
    places = collections.defaultdict(list)
    for file in files:
        if not str(file.relative_to(ROOT)).startswith(("kernels/", "tests/families/")):
            places[file.name].append(str(file.relative_to(ROOT)))
    return [f"{', '.join(where)}: the same file name" for where in places.values() if len(where) > 1]


def compiler_faults(file: pathlib.Path) -> list[str]:
    """What GCC 10 does not know, by which pkg/portable compiles packages."""
    return [f"{place}: GCC 10, which makes packages, has no `using enum`" for place, line in numbered(file)
            if line.lstrip().startswith("using enum ")]


def reading_set(file: pathlib.Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """(files, lines) of its family, and with the engines: `file` and all that it includes in turn from these."""
    family, found, left = file.parent.name, {}, [file]
    while left:
        path = left.pop()
        if path in found:
            continue
        text = path.read_text()
        found[path] = len(text.splitlines())
        names = ((folder, name) for folder, name in INCLUDE.findall(text) if folder in (family, *ENGINES))
        left += [ROOT / "kernels" / folder / name for folder, name in names]
    own = [lines for path, lines in found.items() if path.parent.name == family]
    return (len(own), sum(own)), (len(found), sum(found.values()))


def reading_faults(file: pathlib.Path) -> list[str]:
    if file.parent.name in (*ENGINES, "common") or "__global__" not in file.read_text():
        return []
    return [f"{file.relative_to(ROOT)}: a reader opens {found[0]} files of {whose}, {found[1]} lines; "
            f"at most {most[0]} and {most[1]}"
            for whose, found, most in zip(("its family", "its family and the engines"), reading_set(file), (OWN, ALL))
            if found[0] > most[0] or found[1] > most[1]]


def word_faults(file: pathlib.Path) -> list[str]:
    faults = []
    code = COMMENT_OR_TEXT.sub(lambda found: "\n" * found[0].count("\n"), file.read_text())
    for place, line in numbered(file, code):
        for name in re.findall(r"[A-Za-z_]\w*", line):
            parts = {part.lower().removesuffix("s") for part in PART.findall(name)}
            instead = {word: other for word, other in PREFIXES.items() if name.startswith(word)}
            instead |= {word: other for word, other in WORDS.items() if word in parts}
            faults += [f"{place}: {name} has the word {word}: say {other}" for word, other in instead.items()]
    return faults


def subject_faults(file: pathlib.Path) -> list[str]:
    """Blocks of comments that begin without their subject."""
    faults, inside = [], False
    for place, line in numbered(file):
        comment = re.match(r"\s*//\s?(.*)", line)
        if comment and not inside and (word := re.match(r"(Of|What|Where|Those|The same|By)\b", comment[1])):
            faults.append(f"{place}: a comment begins with {word[0]}: begin with its subject")
        inside = comment is not None
    return faults


def length_faults(files: list[pathlib.Path]) -> tuple[list[str], str]:
    """Functions of host code that are too long; and what was looked at, in words."""
    faults = []
    line_count = line_in_functions = function_count = 0
    for file in files:
        text, name = file.read_text(), file.relative_to(ROOT)
        functions = functions_of(text)
        line_count += len(text.splitlines())
        function_count += len(functions)
        line_in_functions += sum(f.line_count for f in functions)
        faults += [f"{name}:{f.first_line}: a function of {f.line_count} lines; at most {LARGEST_FUNCTION}"
                   for f in functions if f.line_count > LARGEST_FUNCTION]
    return faults, f"{line_count} lines of host code, {line_in_functions} of them in {function_count} functions"


def main() -> int:
    header, files = read_header(), listed_files("*.cpp", "*.h", "*.hpp", "*.c", "*.cu", "*.cuh")
    lengths, scanned = length_faults(listed_files("*.c", "*.cpp", "*.h", "*.hpp"))
    faults = header_faults(header) + comment_faults(header) + name_faults(files) + version_faults(header) + lengths
    kernels = ("kernels/*.h", "kernels/*.cuh", "kernels/*.cpp", "kernels/*.inc")
    for check, patterns in (
        (compiler_faults, ("command/*", "include/*", "kernels/*", "plugins/*", "src/*")),
        (link_faults, ("*.md",)),
        (reading_faults, ("kernels/*.cuh",)),
        (word_faults, kernels),
        (subject_faults, (*kernels, "src/*.h", "src/*.cpp", "src/*.inc")),
        (clock_faults, ("tests/*", "bindings/rust/*/tests/*", "examples/*/tests/*")),
    ):
        faults += [fault for file in listed_files(*patterns) for fault in check(file)]
    for fault in faults:
        print(fault)
    documented = len(header.functions) + len(header.callbacks) + sum(len(s.fields) for s in header.structs)
    print(f"tidy: {documented} functions and fields, {len(files)} files, {scanned}, "
          f"{len(faults)} findings")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
