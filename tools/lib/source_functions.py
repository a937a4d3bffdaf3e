"""Finds the functions of C and C++ sources by their indentation, in the layout that clang-format gives."""

import re
from typing import NamedTuple

QUIET = re.compile(
    r"//(?:\\\n|[^\n])*|/\*(?:.|\n)*?\*/|R\"(?P<mark>[^()\\\s]*)\((?:.|\n)*?\)(?P=mark)\"|\"(?:\\(?:.|\n)|[^\"\\\n])*\""
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*", re.M)
SCOPE = re.compile(r"(template <.*> )?(inline )?(namespace|extern \"\"$|(typedef )?(struct|class|union|enum)\b[^(]*$)")
BODY = re.compile(r"[)}][^()={}]*$")  # what stands in front of the { of a function


class SourceFunction(NamedTuple):
    """From the first line of the signature to the one of the closing brace."""

    first_line: int
    line_count: int


def quiet_lines(text: str) -> list[str]:
    """Lines without comments and preprocessor; a string is \"\"."""
    blank = lambda found: ('""' if found[0][0] in "\"'R" else "") + "\n" * found[0].count("\n")
    return [line.rstrip() for line in QUIET.sub(blank, text).split("\n")]


def functions_of(text: str) -> list[SourceFunction]:
    """The outermost functions of a source, in order, but for those whose body is on the line of its brace."""
    lines = quiet_lines(text)
    indent = [len(line) - len(line.lstrip()) if line else None for line in lines]
    found = []
    for last, line in enumerate(lines):
        aligned = [i for i in range(last) if indent[i] == indent[last]] if line.lstrip().startswith("}") else []
        if not aligned:
            continue
        first = aligned[-1]
        while first > 0 and lines[first - 1] and lines[first - 1][-1] not in ";{}:":  # the signature begins earlier
            first -= 1
        body = next((i for i in range(first, last) if lines[i].endswith("{")), last)
        signature = re.sub(r"alignas\([^)]*\) ?", "", " ".join(map(str.strip, lines[first:body + 1])).rstrip("{ "))
        if body < last and ";" not in signature and not SCOPE.match(signature) and BODY.search(signature):
            found = [f for f in found if f.first_line <= first] + [SourceFunction(first + 1, last - first + 1)]
    return found
