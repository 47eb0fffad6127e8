"""The commands that documents show: those of code blocks that hold any, and of
inline code that begins with `troupe`; for docs_commands_test.py beside."""

import re
import shlex
from dataclasses import dataclass

# With what a line of a command begins; blocks without any are diagrams, files
# and output.
PROGRAMS = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:(?:troupe|python3|kill|grep|prometheus|export|scp|cp"
    r"|apt-get|mkdir|ncu|mv|cat|compute-sanitizer|cmake|test_sim\w*)(?: |$)"
    r"|apps/quickstart|tests/\w+|cmake/\w|build/release/|\./|/usr/)")
SHELL = ("sh", "bash")
PLACEHOLDER = re.compile(
    r"…|\b(?:DIR|FILE|M|N|SIZE|FLAGS|HOST:PORT|ROLE|NAME|MEMBER|COMMAND"
    r"|TOKEN)\b|\[flags\]")


@dataclass(frozen=True)
class Command:
    document: str
    line: int
    text: str  # continued lines are one

    @property
    def where(self):
        return f"{self.document}:{self.line}"

    def words(self):
        return shlex.split(self.text.replace("\\\n", " "), comments=True)


@dataclass(frozen=True)
class Script:
    """A block of Python."""
    document: str
    line: int
    text: str

    @property
    def where(self):
        return f"{self.document}:{self.line}"


def blocks(text):
    """(kind, first line's number, lines); kind: a fence's word, or indented."""
    fence, begin, lines, indented = None, 0, [], []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if fence is None and line.startswith("    "):
            if not indented:
                begin = number
            indented.append(line[4:])
            continue
        if indented:
            yield "indented", begin, indented
            indented = []
        if line.startswith("```"):
            if fence is None:
                fence, begin, lines = line[3:] or "plain", number + 1, []
            else:
                yield fence, begin, lines
                fence = None
        elif fence is not None:
            lines.append(line)


def statements(begin, lines):
    """(line's number, text): a line, those that continue it, which stand
    further right, and what it reads from here (<<'END')."""
    number = 0
    while number < len(lines):
        first, text = number, lines[number]
        end = re.search(r"<<'(\w+)'", text)
        quoted = text.count("'") % 2 == 1
        while number + 1 < len(lines) and (
                text.endswith("\\") or quoted
                or lines[number + 1].startswith(" ") and not end
                or end and lines[number] != end.group(1)):
            number += 1
            text += "\n" + lines[number]
            quoted = not end and text.count("'") % 2 == 1
        number += 1
        if text.strip() and not text.lstrip().startswith("#"):
            yield begin + first, text


def commands_of(document, text):
    """In the order in which they stand; and scripts of Python."""
    found = []
    inside = set()
    for kind, begin, lines in blocks(text):
        inside.update(range(begin, begin + len(lines)))
        if kind == "python":
            found.append(Script(document, begin, "\n".join(lines) + "\n"))
        shell = kind in SHELL or kind in ("indented", "plain") and any(
            PROGRAMS.match(line) for line in lines)
        if shell:
            found += [Command(document, number, text)
                      for number, text in statements(begin, lines)]
    for match in re.finditer(r"(`+)(troupe [^`]*?)\1", text):
        number = text.count("\n", 0, match.start()) + 1
        if number not in inside:
            found.append(Command(document, number,
                                 " ".join(match.group(2).split())))
    return sorted(found, key=lambda x: x.line)


def is_name(command, names):
    """A mention of a command, without what it would be given."""
    words = command.text.split()[1:]
    return command.text.startswith("troupe ") and " ".join(words) in names


def has_placeholder(command):
    return bool(PLACEHOLDER.search(command.text))
