#!/usr/bin/env python3
"""Rewrites what no C++ compiler reads of a CUDA source, line for line.

    translate.py ROOT SOURCE TARGET     SOURCE is named from ROOT on

A launch becomes a call of launch(), a __shared__ variable a reference to the
block's memory, a PTX statement a call of the function of its name.
Status: 0, or 1 with the line that cannot be rewritten.
"""

import re
import sys
from pathlib import Path

NAMESPACE = "::cuda_stand_in::"
# Statements that the stand-in has, with the order of operands that its functions
# take, or the orders.
PTX = {
    "ex2.approx.ftz.f32": "%0, %1;",
    "rcp.approx.ftz.f32": "%0, %1;",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16": "{%0, %1, %2, %3}, [%4];",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16": "{%0, %1, %2, %3}, [%4];",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32":
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};",
    "cp.async.cg.shared.global": "[%0], [%1], 16, %2;",
    "cp.async.ca.shared.global": "[%0], [%1], %2, %3;",
    "cp.async.wait_all;": "",
}


class Unknown(Exception):
    """Where a source has what this script does not know, and what."""


def without_comments(text):
    """The text with comments and what strings hold blanked, as long as it was."""
    def blank(match):
        found = match.group(0)
        if found.startswith('"'):
            return '"' + re.sub(r"[^\n]", " ", found[1:-1]) + '"'
        return re.sub(r"[^\n]", " ", found)
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text,
                  flags=re.DOTALL)


def closing(text, at, opening, end):
    """Where what opens at `at` is closed."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == opening) - (text[i] == end)
        if depth == 0:
            return i
    raise Unknown(at, f"nothing closes {opening}")


def pieces(text):
    """The text between commas outside of brackets."""
    found, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            found.append(text[begin:i].strip())
            begin = i + 1
    return found + [text[begin:].strip()] if text.strip() else found


def kernel_before(plain, at):
    """Begin of the kernel's name, with template arguments, that ends at `at`."""
    i = len(plain[:at].rstrip())
    if plain[i - 1] == ">":
        depth = 0
        while True:
            i -= 1
            depth += (plain[i] == ">") - (plain[i] == "<")
            if depth == 0:
                break
    while re.match(r"[\w:]", plain[i - 1]):
        i -= 1
    return i


def launch(text, plain, at):
    """The first launch from `at` on: begin, end, and what takes its place."""
    begin = kernel_before(plain, at)
    kernel = " ".join(text[begin:at].split())
    middle = plain.index(">>>", at)
    how = pieces(text[at + 3:middle])
    if len(how) != 4:
        raise Unknown(at, "a launch without its four arguments")
    opening = plain.index("(", middle)
    end = closing(plain, opening, "(", ")")
    given = text[opening + 1:end].strip()
    name = re.sub(r"<.*", "", kernel)
    deduced = "<" not in kernel and re.search(
        rf"template <[^;{{]*>\s*__global__[^;{{]*\b{name}\(", plain)
    address = ("nullptr" if deduced else
               f"reinterpret_cast<const void*>(&{kernel})")
    call = (f'{NAMESPACE}launch("{name}", {address}, '
            f"{{{', '.join(how)}}}, "
            f"[](const auto&... troupe_arguments) {{ "
            f"{kernel}(troupe_arguments...); }}"
            f"{', ' if given else ''}{given})")
    return begin, end + 1, call


SHARED = re.compile(r"(extern\s+)?__shared__\s+(?:__align__\((\d+)\)\s+)?"
                    r"([\w:]+)\s+(\w+)((?:\[[^\]]*\])*);")


def shared(text, match):
    """What takes the place of a __shared__ declaration."""
    _, alignment, kind, name, extents = match.groups()
    if match.group(1):
        return (f"auto* {name} = static_cast<{kind}*>("
                f"{NAMESPACE}dynamic_shared_memory());")
    return (f"static const char troupe_{name} = 0; auto& {name} = "
            f"{NAMESPACE}shared<{kind}{extents}, {alignment or 1}>"
            f"(&troupe_{name});")


def statement(text, at, end):
    """What takes the place of an asm statement of [at, end)."""
    inner = text[text.index("(", at) + 1:end - 2]
    code = "".join(re.findall(r'"((?:\\.|[^"\\])*)"', inner.split(":")[0]))
    name, _, operands = code.partition(" ")
    known = PTX.get(name)
    if operands != known:
        raise Unknown(at, f"{name} with operands {operands}")
    lists = re.split(r'(?<!:):(?!:)', inner)[1:3]
    values = []
    for operand in lists:
        for piece in pieces(operand):
            values.append(re.fullmatch(r'"[^"]*"\s*\((.*)\)', piece,
                                       re.DOTALL).group(1))
    return re.sub(r"\W", "_", name.rstrip(";")) + "(" + ", ".join(values) + ");"


def rewritten(text):
    """The text as C++."""
    edits = []
    plain = without_comments(text)
    for match in re.finditer(r"<<<", plain):
        edits.append(launch(text, plain, match.start()))
    for match in SHARED.finditer(plain):
        edits.append((match.start(), match.end(), shared(text, match)))
    for match in re.finditer(r"\basm(?: volatile)?\s*\(", plain):
        end = closing(plain, match.end() - 1, "(", ")") + 2
        edits.append((match.start(), end, statement(text, match.start(), end)))
    for match in re.finditer(r"#pragma unroll(?: \d+)?", plain):
        edits.append((match.start(), match.end(), ""))
    result, done = [], 0
    for begin, end, new in sorted(edits):
        lines = text.count("\n", begin, end) - new.count("\n")
        result += [text[done:begin], new, "\n" * lines]
        done = end
    return "".join(result) + text[done:]


def main():
    root, source, target = map(Path, sys.argv[1:])
    text = (root / source).read_text()
    try:
        new = rewritten(text)
    except Unknown as error:
        at, what = error.args
        line = text.count("\n", 0, at) + 1
        sys.exit(f"{source}:{line}: translate.py does not know {what}")
    left = re.search(r"__shared__|<<<|\basm\b", without_comments(new))
    if left:
        line = new.count("\n", 0, left.start()) + 1
        sys.exit(f"{source}:{line}: translate.py does not know "
                 f"{left.group(0)} here")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f'#line 1 "{source}"\n{new}')


if __name__ == "__main__":
    main()
