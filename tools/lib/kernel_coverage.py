"""Lines of kernels/**/*.cuh that a build with --coverage has run, for tools/check simulated --coverage.

    kernel_coverage.py SOURCE_FOLDER BUILD_FOLDER [--gcov PROGRAM]

A line counts where any instance of a template ran it. Prints the covered lines of each file and of all, and the
lines that were not run. Exit status 1 if fewer than 90 % of all are, or if there are none.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

LEAST = 90  # per cent


def reports(build: pathlib.Path, gcov: str):
    """Those of the objects of kernels and of tests of instructions, which include the headers."""
    for data in sorted(build.rglob("*.cu.gcda")):
        result = subprocess.run([gcov, "--json-format", "--stdout", str(data)], cwd=build, capture_output=True,
                                text=True, check=True)
        yield from map(json.loads, filter(None, result.stdout.splitlines()))


def merge(all_reports, source: pathlib.Path, build: pathlib.Path) -> dict[str, dict[int, int]]:
    """The runs of each line of each kernel. gcov lists a line once an instance, and names files as the compiler did."""
    merged = collections.defaultdict(collections.Counter)
    for file in (file for report in all_reports for file in report["files"]):
        path = (build / file["file"]).resolve()
        if path.is_relative_to(source / "kernels") and path.suffix == ".cuh" and path.is_file():
            for line in file["lines"]:
                merged[str(path.relative_to(source))][line["line_number"]] += line["count"]
    return merged


def ranges(lines: list[int]) -> str:
    """"3, 5-7" for 3, 5, 6, 7."""
    parts = []
    for line in sorted(lines):
        if parts and line == parts[-1][1] + 1:
            parts[-1][1] = line
        else:
            parts.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--gcov", default="gcov")
    options = parser.parse_args(arguments)
    merged = merge(reports(options.build, options.gcov), options.source, options.build)
    covered_of_all = lines_of_all = 0
    for name, runs in sorted(merged.items()):
        missed = [line for line, count in runs.items() if count == 0]
        covered_of_all += len(runs) - len(missed)
        lines_of_all += len(runs)
        print(f"{name:40} {len(runs) - len(missed):4} of {len(runs):4} lines" + (f"; not {ranges(missed)}" if missed else ""))
    if lines_of_all == 0:
        print(f"{options.build} has no counts of lines of kernels; was it built with --coverage, and run?")
        return 1
    share = 100 * covered_of_all / lines_of_all
    print(f"all: {covered_of_all} of {lines_of_all} lines, {share:.1f} %; at least {LEAST} % are asked for")
    return 0 if share >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
