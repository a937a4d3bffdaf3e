"""msda help --json, and what tools/generate command-docs makes of it."""

import json
import re
import subprocess
import sys

import pytest

from conftest import ROOT, binary
from test_info import COMMANDS


@pytest.fixture
def documents(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools/generate", "command-docs", binary(), tmp_path], check=True)
    return tmp_path


def options_of(help, command):
    return next(c["options"] for c in help["commands"] if c["name"] == command)


@pytest.mark.parametrize("command", COMMANDS)
def test_has_what_help_has(msda_ok, command):
    help = json.loads(msda_ok("help", "--json"))
    assert [c["name"] for c in help["commands"]] == COMMANDS
    shown = re.findall(r"^  (?:-[a-z],)?(--[a-z-]+)", msda_ok(command, "--help"), re.MULTILINE)
    listed = [f"--{option['names'][0]}" for option in options_of(help, command)]
    assert sorted(shown) == sorted([*listed, "--help"])
    assert {"--json", "--quiet"} <= {*listed}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(msda_ok, command):
    assert msda_ok("help", command) == msda_ok(command, "--help")


def complete(documents, *words, cwd):
    code = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _msda; printf "%s\\n" "${COMPREPLY[@]}"'
    command = ["bash", "-c", code, "bash", documents / "msda", "msda", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=cwd).stdout.split()


@pytest.mark.parametrize(
    "words, expected",
    [
        (["r"], ["roofline", "run"]),
        (["run", "--ba"], ["--backward", "--batch", "--batch-size"]),
        (["run", "--dtype", "bf"], ["bf16"]),
        (["run", "--dtype", "=", "f8"], ["f8_e4m3"]),
        (["run", "--value-border", ""], ["0", "1"]),
        (["run", "--kernel", ""], []),
        (["run", "x"], ["x.npz", "xs"]),
        (["run", "--dir", "x"], ["xs"]),
        (["info", "--j"], ["--json"]),
        (["bench", "--dtype", "bf"], ["bf16"]),
    ],
)
def test_bash_completes(documents, tmp_path, words, expected):
    folder = tmp_path / "here"
    (folder / "xs").mkdir(parents=True)
    (folder / "x.npz").touch()
    assert sorted(complete(documents, *words, cwd=folder)) == expected


def test_man_page_has_every_option(documents, msda_ok):
    page = (documents / "msda.1").read_text().replace("\\-", "-")
    sections = re.split(r"^\.SH MSDA ", page, flags=re.MULTILINE)
    help = json.loads(msda_ok("help", "--json"))
    for command, section in zip(COMMANDS, sections[1:], strict=True):
        for option in options_of(help, command):
            for name in option["names"]:
                assert f"\\fB--{name}\\fR" in section, name
            if option["letter"]:
                assert f"\\fB-{option['letter']}\\fR, \\fB--{option['names'][0]}\\fR" in section
