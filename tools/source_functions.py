"""Finds the functions of C and C++ sources by their braces, in the layout that clang-format gives or in any other.

Every brace outside functions is told apart: it opens a namespace, a type, an initialiser or a function. What is none
of these is a ScanError, and so are braces that do not match, so that no part of a file goes unseen.
"""

import bisect
import re
from dataclasses import dataclass


class ScanError(Exception):
    """`line` of a source is not understood."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


@dataclass
class SourceFunction:
    """From the first line of the signature to the one of the closing brace."""

    first_line: int
    last_line: int

    @property
    def line_count(self) -> int:
        return self.last_line - self.first_line + 1


@dataclass
class Token:
    text: str
    line: int


RAW_STRING = r'R"(?P<mark>[^()\\\s]*)\((?:.|\n)*?\)(?P=mark)"'
QUIET = re.compile(
    r"//(?:\\\n|[^\n])*|/\*(?:.|\n)*?\*/|" + RAW_STRING + r'|"(?:\\(?:.|\n)|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'")
TOKEN = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*|\"\"|[A-Za-z_]\w*|->|::|\S", re.M)
TYPES = {"struct", "class", "union", "enum"}
PREFIXES = {"static", "inline", "constexpr", "typedef", "extern", "const", "friend"}
AFTER_INITIALISER = set(";,)}]{(?:.[=+-*/%&|<>")


def tokens_of(text: str) -> list[Token]:
    """Words and signs; comments are gone, a string is \"\", a preprocessor line is one token."""

    def quiet(match: re.Match) -> str:
        what = '""' if match.group()[0] in "\"'R" else " "
        return what + "\n" * match.group().count("\n")

    text = QUIET.sub(quiet, text)
    breaks = [i for i, letter in enumerate(text) if letter == "\n"]
    return [Token(m.group().strip(), bisect.bisect_left(breaks, m.end() - 1) + 1) for m in TOKEN.finditer(text)]


def first_branches(tokens: list[Token]) -> list[Token]:
    """Without preprocessor lines, and of #if and its #else the first branch where both open or close braces: a
    function may start in each of them and end behind."""
    kept: list[Token] = []
    open_ifs: list[tuple[int, int, bool]] = []  # where the branch starts in `kept`, braces of the first, is it later
    balance = lambda start: sum((t.text == "{") - (t.text == "}") for t in kept[start:])

    def end_branch() -> None:
        start, first, is_later = open_ifs.pop()
        if is_later and first != 0:
            del kept[start:]
        open_ifs.append((len(kept), first if is_later else balance(start), True))

    for token in tokens:
        if not token.text.startswith("#"):
            kept.append(token)
        elif re.match(r"#\s*if", token.text):
            open_ifs.append((len(kept), 0, False))
        elif re.match(r"#\s*(else|elif|endif)", token.text):
            if not open_ifs:
                raise ScanError(token.line, f"{token.text} without #if")
            end_branch()
            if "endif" in token.text:
                open_ifs.pop()
    return kept


def matching_braces(tokens: list[Token]) -> dict[int, int]:
    """Index of each { to that of its }."""
    pairs, opened = {}, []
    for i, token in enumerate(tokens):
        if token.text == "{":
            opened.append(i)
        elif token.text == "}":
            if not opened:
                raise ScanError(token.line, "} closes nothing")
            pairs[opened.pop()] = i
    if opened:
        raise ScanError(tokens[opened[-1]].line, "{ is not closed")
    return pairs


def without_groups(words: list[str], opening: str, closing: str) -> list[str]:
    """The words outside pairs of the two signs."""
    outside, depth = [], 0
    for word in words:
        depth += word == opening
        if depth == 0:
            outside.append(word)
        depth -= word == closing and depth > 0
    return outside


def declared(words: list[str]) -> list[str]:
    """A declaration without template parameters, attributes and what stands before its kind."""
    words = list(words)
    while words:
        if words[0] in PREFIXES or words[0] == '""':
            del words[0]
        elif words[0] == "template":
            depth = end = 0
            for end, word in enumerate(words):  # noqa: B007  used behind the loop
                depth += (word == "<") - (word == ">")
                if word == ">" and depth == 0:
                    break
            del words[: end + 1]
        else:
            break
    text = " ".join(words)
    text = re.sub(r"\[ \[.*?\] \]|\balignas \( [^()]* \)|\b__attribute__ \( \(.*?\) \)", "", text)
    return text.split()


def kind_of(words: list[str]) -> str:
    """What the { behind these words of a declaration opens."""
    words = declared(words)
    if not words or words[0] == "namespace" or words[:2] == ["inline", "namespace"]:
        return "scope"  # or extern "C"
    text = " ".join(without_groups(words, "(", ")"))
    text = re.sub(r"\boperator (?:[-+*/%^&|~!=<>] ?)+", "operator ", text)
    if "=" in text.replace("= =", "").split():
        return "initialiser"
    if "(" in words:
        # The members of a constructor: `: a_{1}, b_(2) {` opens the body behind a bracket, not behind a name.
        after = without_groups(words, "(", ")")
        in_members = ":" in after
        return "member" if in_members and words[-1] not in (")", "}") else "function"
    return "scope" if words[0] in TYPES - {"enum"} else "enum" if words[0] == "enum" else "initialiser"


class Scanner:
    def __init__(self, text: str) -> None:
        self.tokens = first_branches(tokens_of(text))
        self.closing = matching_braces(self.tokens)
        self.functions: list[SourceFunction] = []

    def scan(self, begin: int, end: int) -> None:
        """The declarations of a namespace, a type or a file."""
        i = start = begin
        while i < end:
            text = self.tokens[i].text
            if text == ";" or (text == ":" and self.tokens[i - 1].text in ("public", "private", "protected")):
                start = i + 1
            elif text == "(":
                i = self.skip_parentheses(i, end)
            elif text == "{":
                i, start = self.open(start, i)
            i += 1

    def skip_parentheses(self, i: int, end: int) -> int:
        depth = 0
        for j in range(i, end):
            depth += (self.tokens[j].text == "(") - (self.tokens[j].text == ")")
            if depth == 0:
                return j
        raise ScanError(self.tokens[i].line, "( is not closed")

    def open(self, start: int, brace: int) -> tuple[int, int]:
        """Looks at a brace; returns its end and where the next declaration starts."""
        words = self.words(start, brace)
        kind, close = kind_of(words), self.closing[brace]
        if kind == "scope":
            self.scan(brace + 1, close)
        elif kind == "function":
            self.functions.append(SourceFunction(self.tokens[start].line, self.tokens[close].line))
        elif kind in ("initialiser", "member"):
            self.look_for_lambdas(brace, close)
            after = self.tokens[close + 1].text if close + 1 < len(self.tokens) else ""
            allowed = AFTER_INITIALISER if kind == "initialiser" else {",", "{"}
            if after not in allowed:
                raise ScanError(self.tokens[brace].line, f"cannot tell what {{ opens behind {' '.join(words[-6:])!r}")
        return close, start if kind in ("initialiser", "member") else close + 1

    def words(self, start: int, brace: int) -> list[str]:
        """Of a declaration, with {} for each pair of braces."""
        words, i = [], start
        while i < brace:
            if self.tokens[i].text == "{":
                words += ["{", "}"]
                i = self.closing[i]
            else:
                words.append(self.tokens[i].text)
            i += 1
        return words

    def look_for_lambdas(self, brace: int, close: int) -> None:
        i = brace + 1
        while i < close:
            if self.tokens[i].text == "{" and self.tokens[i - 1].text in (")", "mutable", "noexcept"):
                self.functions.append(SourceFunction(self.tokens[i].line, self.tokens[self.closing[i]].line))
                i = self.closing[i]
            i += 1


def functions_of(text: str) -> list[SourceFunction]:
    """The outermost functions of a source, in order. Raises ScanError where it is not understood."""
    scanner = Scanner(text)
    scanner.scan(0, len(scanner.tokens))
    return scanner.functions
