"""Writes the man page and the shell completions of the msda command, from what the command says of itself.

    tools/generate command-docs MSDA FOLDER

MSDA is the path of the command, whose `help --json` is read. The files are those that a package installs:
msda.1, and completions by the names that the shells look for: msda (bash), _msda (zsh), msda.fish. The build makes
them behind the command, and `cmake --install` installs them.
"""

import json
import pathlib
import re
import subprocess
import sys


def flags(option):
    letter = [f"-{option['letter']}"] if option["letter"] else []
    return letter + [f"--{name}" for name in option["names"]]


def one_line(text):
    return " ".join(text.split())


def completed(option, file, folder, words, other):
    """What completes an option's value: `words` with the values that it takes, where help names them all."""
    value = option["value"] or ""
    if value.startswith("TYPE"):  # of several separated by commas the first
        return words.format(re.search(r"\((.*)\)", option["group"])[1])
    if "|" in value:
        return words.format(value.replace("|", " "))
    return file if value.startswith("FILE") else folder if value == "FOLDER" else other


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def example_lines(text):
    return [line.strip() for line in text.splitlines()[1:]]


def man_page(help):
    lines = [
        f'.TH MSDA 1 "" "libmsda {help["version"]}" "User Commands"',
        ".SH NAME", f"msda \\- {roff(help['summary'])}",
        ".SH SYNOPSIS", ".B msda", r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIKEY=VALUE\fR ...]", ".br", r".B msda \-\-version",
        ".SH DESCRIPTION", roff(help["notes"]),
    ]
    for command in help["commands"]:
        lines += [f".SH MSDA {command['name'].upper()}", roff(command["description"])]
        if command["input"]:
            lines += [".TP", r"\fIINPUT\fR", roff(one_line(command["input"]))]
        group = None
        for option in command["options"]:
            if option["group"] != group:
                group = option["group"]
                lines.append(f".SS {roff(group)}")
            value = rf" \fI{roff(option['value'])}\fR" if option["value"] else ""
            names = ", ".join(rf"\fB{roff(flag)}\fR" for flag in flags(option))
            lines += [".TP", names + value, roff(one_line(option["help"]))]
        lines += [".SS Examples", ".nf", *map(roff, example_lines(command["examples"])), ".fi"]
    lines += [".SH EXAMPLES", ".nf", *map(roff, example_lines(help["examples"])), ".fi"]
    return "\n".join(lines) + "\n"


def bash_completion(help):
    complete = "mapfile -t COMPREPLY < <(compgen {} -- \"$word\")".format
    cases = []
    for command in help["commands"]:
        values = {}  # what completes a value: the options that have such a one
        for option in command["options"]:
            action = completed(option, complete("-f"), complete("-d"), complete("-W '{}'"), "")
            if option["value"]:
                values.setdefault(action, []).extend(flags(option))
        values = "".join(f"        {' | '.join(names)}) {action and action + '; '}return ;;\n"
                         for action, names in values.items())
        words = " ".join(flag for option in command["options"] for flag in flags(option))
        cases.append(
            f"    {command['name']})\n      case $previous in\n{values}      esac\n"
            f"      words='{words} --help'\n      files={'yes' if command['input'] else ''} ;;\n"
        )
    names = " ".join(command["name"] for command in help["commands"])
    return f"""# bash completion of msda; made by tools/generate
_msda() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} words files
  COMPREPLY=()
  if [[ $word == = ]]; then
    word=
  elif [[ $previous == = ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  if ((COMP_CWORD == 1)); then
    {complete(f"-W '{names} help --help --version -V'")}
    return
  fi
  case ${{COMP_WORDS[1]}} in
{"".join(cases)}  esac
  if [[ $word != -* && $files ]]; then
    {complete("-f")}
  else
    {complete('-W "$words"')}
  fi
}}
complete -o filenames -F _msda msda
"""


def zsh_completion(help):
    escape = lambda text: re.sub(r"([\[\]:\\])", r"\\\1", one_line(text)).replace("'", r"'\''")
    names = "\n".join(f"    '{command['name']}:{escape(command['summary'])}'" for command in help["commands"])
    cases = []
    for command in help["commands"]:
        specs = ["'(- *)'{-h,--help}'[show this help]'"]
        for option in command["options"]:
            action = completed(option, "_files", "_files -/", "({})", "")
            value = option["value"] and f":{escape(option['value'])}:{action}"
            for flag in flags(option):
                assign = ("=" if flag.startswith("--") else "+") if value else ""
                specs.append(f"'{flag}{assign}[{escape(option['help'])}]{value or ''}'")
        if command["input"]:
            specs.append("'*:INPUT:_files'")
        specs = " \\\n        ".join(specs)
        cases.append(f"    {command['name']})\n      _arguments \\\n        {specs} ;;")
    return f"""#compdef msda
# zsh completion of msda; made by tools/generate
_msda() {{
  local -a commands=(
{names}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    _arguments '--help[show help]' '--version[show the version of the library]'
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
""" + "\n".join(cases) + """
  esac
}
_msda "$@"
"""


def fish_completion(help):
    escape = lambda text: one_line(text).replace("\\", "\\\\").replace("'", "\\'")
    lines = [
        "# fish completion of msda; made by tools/generate", "complete -c msda -f", "complete -c msda -l help -d 'show help'",
        "complete -c msda -n __fish_use_subcommand -l version -d 'show the version of the library'",
    ]
    for command in help["commands"]:
        lines.append(f"complete -c msda -n __fish_use_subcommand -a {command['name']} -d '{escape(command['summary'])}'")
        condition = f"complete -c msda -n '__fish_seen_subcommand_from {command['name']}'"
        if command["input"]:
            lines.append(f"{condition} -F")
        for option in command["options"]:
            value = completed(option, " -r -F", " -x -a '(__fish_complete_directories)'", " -x -a '{}'",
                              " -x" if option["value"] else "")
            names = f" -s {option['letter']}" if option["letter"] else ""
            names += "".join(f" -l {name}" for name in option["names"])
            lines.append(f"{condition}{names}{value} -d '{escape(option['help'])}'")
    return "\n".join(lines) + "\n"


OUTPUTS = {"msda.1": man_page, "msda": bash_completion, "_msda": zsh_completion, "msda.fish": fish_completion}


def main(words):
    if len(words) != 2:
        sys.exit(__doc__)
    command, folder = words[0], pathlib.Path(words[1])
    text = subprocess.run([command, "help", "--json"], check=True, capture_output=True, text=True).stdout
    folder.mkdir(parents=True, exist_ok=True)
    for name, write in OUTPUTS.items():
        (folder / name).write_text(write(json.loads(text)))
    return 0
