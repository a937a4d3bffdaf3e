"""A command of parts: `tools/NAME PART ...` runs main(words) of the module that does the part. What parts share."""

import argparse
import difflib
import importlib
import pathlib
import sys

from measurements import ROOT, Refused


def run(doc: str, parts: dict[str, str], words: list[str]) -> int:
    part = words[0] if words else ""
    if part in ("--help", "-h"):
        print(doc.strip())
        return 0
    if part not in parts:
        print(f"error: '{part}' is not a part; there are: {', '.join(parts)}", file=sys.stderr)
        return 2
    try:
        return importlib.import_module(parts[part]).main(words[1:])
    except (Refused, OSError) as error:
        print(f"{pathlib.Path(sys.argv[0]).name}: error: {error}", file=sys.stderr)
        return 2


def parser(name: str, doc: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"tools/{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def renew(made: dict[pathlib.Path, str], check: bool, source: str) -> int:
    """Writes the files that are not what they are made from, or with `check` prints how they differ; their number."""
    stale = 0
    for path, text in made.items():
        old = path.read_text() if path.exists() else ""
        if old == text:
            continue
        stale += 1
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        if check:
            lines = (version.splitlines(keepends=True) for version in (old, text))
            sys.stdout.writelines(difflib.unified_diff(*lines, str(name), f"as {source} has it"))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {name}")
    return stale
