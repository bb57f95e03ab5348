"""Writes the manual page and the bash completion of the stiefel command from what its --help and those of its sub-commands say.

    python3 manual.py PATH/TO/stiefel --man stiefel.1 --completion stiefel
"""
import argparse
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

COLUMN = 34  # where explanations begin (app/run.cpp)


@dataclass
class Help:
    """What --help says of one command: an entry is what is typed, and its explanation."""

    words: List[str]
    about: str = ""
    usage: str = ""
    sections: Dict[str, List[Tuple[str, str]]] = field(default_factory=dict)

    @property
    def subcommands(self):
        """Without the older names that some have, as in `training, epoch`."""
        return [names.split(",")[0] for names, _ in self.sections.get("Subcommands", [])]

    @property
    def flags(self):
        """--nesterov and --no-nesterov of `--nesterov,--no-nesterov{false}`."""
        return [flag for typed, _ in self.sections.get("Options", []) for flag in split_option(typed)[0]]


def split_option(typed):
    """The flags of an option, and what stands for its value: (["--epochs"], "INT=200")."""
    flags, _, value = typed.partition(" ")
    return [re.sub(r"\{.*\}$", "", flag) for flag in flags.split(",")], value


def parse_help(words, text):
    page = Help(words)
    entries = None
    for line in text.splitlines():
        if re.fullmatch(r"\S.*:", line):
            entries = page.sections.setdefault(line[:-1], [])
        elif line.startswith("Usage: "):
            page.usage = line[len("Usage: "):]
        elif entries is None:
            page.about = f"{page.about} {line}".strip()
        elif line.startswith(" " * COLUMN):  # goes on with the entry above, or explains one that is wider than the column
            typed, about = entries[-1]
            entries[-1] = (typed, f"{about} {line.strip()}".strip())
        elif line.startswith("  ") and line[COLUMN - 1:COLUMN] == " ":
            entries.append((line[:COLUMN].strip(), line[COLUMN:].strip()))
        elif line.startswith("  "):
            entries.append((line.strip(), ""))
        elif line.strip():
            raise SystemExit(f"manual.py: `{' '.join(words)} --help` has a line of a form that is not known: {line!r}")
    if not f"{page.usage} ".startswith(f"{' '.join(words)} "):
        raise SystemExit(f"manual.py: `{' '.join(words)} --help` is about another command; its usage is {page.usage!r}")
    return page


def read_help(program):
    """The pages of the command and of all its sub-commands, each before its own."""

    def ask(*words):
        return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout

    def read(words):
        return parse_help(["stiefel", *words], ask(*words, "--help"))

    with ThreadPoolExecutor() as pool:

        def below(page):
            children = list(pool.map(read, [[*page.words[1:], name] for name in page.subcommands]))
            return [page, *(one for child in children for one in below(child))]

        return below(read([])), " ".join(ask("--version").split()[:2])


def roff(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def roff_line(text):
    """A line of running text: a dot or an apostrophe at its beginning is no request."""
    return "\\&" * text.startswith((".", "'")) + roff(text)


def roff_option(typed):
    flags, value = split_option(typed)
    value, _, default = value.partition("=")
    line = ", ".join(f"\\fB{roff(flag)}\\fR" for flag in flags)
    line += f" \\fI{roff(value)}\\fR" if value else ""
    return line + (f" (default: {roff(default)})" if default else "")


def roff_entries(page, leave_out=()):
    for section in ("Positionals", "Options"):
        for typed, about in page.sections.get(section, []):
            if split_option(typed)[0][-1] not in leave_out:
                written = roff_option(typed) if section == "Options" else f"\\fI{roff(typed)}\\fR"
                yield from (".TP", written, roff_line(about))


def manual_page(pages, version):
    first, *others = pages
    lines = [
        '.\\" Written by app/manual.py from the command\'s --help.',
        f'.TH STIEFEL 1 "" "{roff(version)}" "User Commands"',
        ".SH NAME",
        "stiefel \\- train networks with orthonormal weights",
        ".SH SYNOPSIS",
        ".B stiefel",
        ".I SUBCOMMAND",
        "[\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        roff_line(first.about),
        ".SH OPTIONS",
        *roff_entries(first),
        ".SH SUBCOMMANDS",
        "Each has \\fB\\-\\-help\\fR too.",
    ]
    for page in others:
        lines += [f".SS {roff(page.usage)}", roff_line(page.about), *roff_entries(page, leave_out=["--help"])]
    lines += [
        ".SH EXIT STATUS",
        "0 where all went well, 2 where an option or a value is wrong, another number after other errors.",
    ]
    return "\n".join(lines) + "\n"


def completion(pages):
    paths = [" ".join(page.words) for page in pages]
    cases = "\n".join(
        f"    '{path}') subcommands='{' '.join(page.subcommands)}' options='{' '.join(page.flags)}' ;;"
        for path, page in zip(paths, pages)
    )
    known = " | ".join(f"'{path}'" for path in paths[1:])
    return f"""# Completion of stiefel in bash, written by app/manual.py from the command's --help.
_stiefel() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} command=stiefel word subcommands options
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $word" in
      {known}) command+=" $word" ;;
    esac
  done
  case $command in
{cases}
  esac
  case $current in
    -*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current") ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$current") ;;
  esac
}}
# Names of files where there is neither.
complete -o default -F _stiefel stiefel
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--man", required=True)
    parser.add_argument("--completion", required=True)
    given = parser.parse_args()
    pages, version = read_help(given.program)
    for path, text in ((given.man, manual_page(pages, version)), (given.completion, completion(pages))):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
