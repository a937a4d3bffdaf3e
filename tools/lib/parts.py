"""A command of parts: `tools/NAME PART ...` runs main(words) of the module that does the part."""

import argparse
import importlib
import sys


def run(doc: str, parts: dict[str, str], words: list[str]) -> int:
    part = words[0] if words else ""
    if part in ("--help", "-h"):
        print(doc.strip())
        return 0
    if part not in parts:
        print(f"error: '{part}' is not a part; there are: {', '.join(parts)}", file=sys.stderr)
        return 2
    return importlib.import_module(parts[part]).main(words[1:])


def parser(name: str, doc: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(prog=f"tools/{name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
