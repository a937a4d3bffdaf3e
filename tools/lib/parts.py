"""A command of parts: `tools/NAME PART ...` runs main(words) of the module that does the part."""

import argparse
import importlib
import pathlib
import sys

from measurements import Refused


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
