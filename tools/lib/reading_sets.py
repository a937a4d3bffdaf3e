"""How much one has to read for a kernel, and words of kernels/ that hide what they speak of."""

import pathlib
import re

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


def reading_set(root: pathlib.Path, file: pathlib.Path) -> tuple[tuple[int, int], tuple[int, int]]:
    """(files, lines) of its family, and with the engines: `file` and all that it includes in turn from these."""
    family, found, left = file.parent.name, {}, [file]
    while left:
        path = left.pop()
        if path in found:
            continue
        text = path.read_text()
        found[path] = len(text.splitlines())
        names = ((folder, name) for folder, name in INCLUDE.findall(text) if folder in (family, *ENGINES))
        left += [root / "kernels" / folder / name for folder, name in names]
    own = [lines for path, lines in found.items() if path.parent.name == family]
    return (len(own), sum(own)), (len(found), sum(found.values()))


def is_kernel(file: pathlib.Path) -> bool:
    """Whether it has a kernel, and is not an engine's."""
    return file.parent.name not in (*ENGINES, "common") and "__global__" in file.read_text()


def reading_faults(root: pathlib.Path, files: list[pathlib.Path]) -> list[str]:
    faults = []
    for file in filter(is_kernel, files):
        for whose, found, most in zip(("its family", "its family and the engines"), reading_set(root, file), (OWN, ALL)):
            if found[0] > most[0] or found[1] > most[1]:
                faults.append(f"{file.relative_to(root)}: a reader opens {found[0]} files of {whose}, {found[1]} lines; "
                              f"at most {most[0]} and {most[1]}")
    return faults


def word_faults(root: pathlib.Path, files: list[pathlib.Path]) -> list[str]:
    faults = []
    for file in files:
        code = COMMENT_OR_TEXT.sub(lambda found: "\n" * found[0].count("\n"), file.read_text())
        for number, line in enumerate(code.splitlines(), 1):
            for name in re.findall(r"[A-Za-z_]\w*", line):
                parts = {part.lower().removesuffix("s") for part in PART.findall(name)}
                instead = {word: other for word, other in PREFIXES.items() if name.startswith(word)}
                instead |= {word: other for word, other in WORDS.items() if word in parts}
                place = f"{file.relative_to(root)}:{number}"
                faults += [f"{place}: {name} has the word {word}: say {other}" for word, other in instead.items()]
    return faults


def subject_faults(root: pathlib.Path, files: list[pathlib.Path]) -> list[str]:
    """Blocks of comments that begin without their subject."""
    faults = []
    for file in files:
        inside = False
        for number, line in enumerate(file.read_text().splitlines(), 1):
            comment = re.match(r"\s*//\s?(.*)", line)
            if comment and not inside and (word := re.match(r"(Of|What|Where|Those|The same|By)\b", comment[1])):
                faults.append(f"{file.relative_to(root)}:{number}: a comment begins with {word[0]}: begin with its subject")
            inside = comment is not None
    return faults
