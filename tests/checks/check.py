#!/usr/bin/env python3
"""Checks on the source tree itself; each prints what it found and where.

    check.py includes|headers|format|orphans|citations|paths|names|tidy
        [--build DIR]

Status: 0 nothing found, 1 something found, 77 cannot be checked here.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import typing
from pathlib import Path

ROOMS = ("kernels", "strategies", "monitoring", "actors", "apps")
CODE = {".hpp", ".cpp", ".inc", ".cu", ".cuh"}


class Skip(Exception):
    """A check that this machine cannot run, and why."""


def source_files(root):
    """Every file git tracks or would track, relative to the root."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
         "--exclude-standard"], capture_output=True)
    if listed.returncode == 0:
        names = [Path(os.fsdecode(n)) for n in listed.stdout.split(b"\0") if n]
    else:
        names = [p.relative_to(root) for p in Path(root).rglob("*")
                 if p.relative_to(root).parts[0] != "build"]
    return sorted({n for n in names if (root / n).is_file()})


def code_files(root):
    """C++ and CUDA sources of the rooms and the tests."""
    return [f for f in source_files(root)
            if f.suffix in CODE and f.parts[0] in ROOMS + ("tests",)]


# --- includes: folder = library = layer ---------------------------------------

STANDARD = set("""
algorithm any array atomic barrier bit bitset cassert ccomplex cctype cerrno
cfenv cfloat charconv chrono cinttypes climits clocale cmath codecvt compare
complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef
cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception
execution filesystem format forward_list fstream functional future
initializer_list iomanip ios iosfwd iostream istream iterator latch limits list
locale map memory memory_resource mutex new numbers numeric optional ostream
queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
source_location span sstream stack stdexcept stop_token streambuf string
string_view strstream syncstream system_error thread tuple type_traits typeindex
typeinfo unordered_map unordered_set utility valarray variant vector version
""".split())
# Threads, clocks and files have no place where protocols are pure.
IMPURE = set("""
atomic barrier chrono condition_variable filesystem fstream future iostream
latch mutex random semaphore shared_mutex stop_token thread
""".split())
POSIX = (r"(unistd|fcntl|signal|poll|pthread|sched|dlfcn|glob|netdb|ifaddrs|"
         r"termios|dirent|errno|time|pwd|spawn|cpuid|cxxabi|execinfo|malloc)\.h|"
         r"(sys|arpa|netinet|net|linux)/.*|(x86|[a-z]mm|imm)intrin\.h|"
         r"arm_(acle|neon)\.h")
CUDA = (r"(cuda|cublas|cudnn|curand|nccl|nvtx|mma)\w*\.h|cuda_.*|"
        r"(cub|thrust|cuda|nvtx3|cooperative_groups)(/.*|\.h)")

# Per room: the rooms it may enter, then the libraries it may use.
RULES = {
    "strategies": (("strategies",), r"$^"),
    "kernels": (("kernels",), "|".join([
        POSIX, CUDA, r"(unsupported/)?Eigen/.*", r"(oneapi/dnnl/)?dnnl.*",
        r"hwy/.*", r"(arrow|parquet)/.*", r"(zlib|zstd(_errors)?|jpeglib|jerror|png|pcre2|utf8proc)\.h", r"nlohmann/.*",
        r"toml\+\+/.*", r"openssl/.*", r"omp\.h"])),
    "monitoring": (("monitoring",), POSIX + r"|prometheus/.*"),
    "actors": (("actors", "kernels", "strategies", "monitoring"), "|".join([
        POSIX, r"caf/.*", r"sqlite3\.h", r"openssl/.*", r"prometheus/.*",
        r"nlohmann/.*", r"curl/.*", r"fnmatch\.h"])),
    "apps": (ROOMS, ".*"),
}
# Per room: its folders from the ground up, each may enter those before it; "": the
# room's own files.
FLOORS = {
    "kernels": "base numbers files graph engine cpu collective optimizer "
               "compression records columns parquet tokens data cuda stablehlo pjrt checkpoint table devices".split() + [""],
    "actors": "process stores journal wire page sockets certificates links collectives "
              "control job compute role reader replica worker shard stage "
              "voting coordinator launch".split() + [""],
    "apps": "terminal settings process launch top doctor tensorboard chaos bench commands".split() + [""],
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


# The one that knows the clock which simulators pass in.
CLOCK = Path("kernels/base/steady_clock.hpp")


def wrong_floor(room, file, target):
    """Why a file may not include another of its room."""
    floors = FLOORS.get(room)
    own, other = (path.parts[1] if len(path.parts) > 2 else ""
                  for path in (file, target))
    if floors is None or own == other:
        return []
    strange = [x for x in (own, other) if x not in floors]
    if strange:
        return [f"{room}/{strange[0]} has no floor yet: check.py, FLOORS"]
    if floors.index(own) < floors.index(other):
        return [f'{room}/{own} is below {room}/{other} ("{target}")']
    return []


def check_includes(root, _build=None):
    """No include breaks the rooms' rule."""
    found = []
    for file in code_files(root):
        room = file.parts[0]
        if room not in RULES:
            continue
        rooms, libraries = RULES[room]
        text = (root / file).read_text(errors="replace")
        if room in ("kernels", "actors") and file != CLOCK:
            for match in re.finditer(r"\bsteady_clock\b(?!\.hpp)", text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{file}:{line}: a simulator's clock is not asked: "
                             "use SteadyClock")
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start(2)) + 1
            where = f"{file}:{line}: "
            bracket, name = match.groups()
            if bracket == '"':
                beside = os.path.normpath(file.parent / name)
                target = name if (root / name).exists() else beside
                entered = Path(target).parts[0]
                if not (root / target).exists():
                    found.append(where + f'"{name}" is no file of the tree; '
                                 "libraries are included with <>")
                elif entered not in rooms:
                    found.append(where + f"{room}/ must not include {entered}/ "
                                 f'("{name}")')
                elif entered == room:
                    found += [where + why for why in
                              wrong_floor(room, file, Path(target))]
            elif name in STANDARD:
                if room == "strategies" and name in IMPURE:
                    found.append(where + f"strategies/ is pure: no <{name}>")
            elif not re.fullmatch(libraries, name):
                found.append(where + f"{room}/ must not include <{name}>")
    return found


# --- headers: each compiles alone ---------------------------------------------

def compile_commands(build):
    path = build / "compile_commands.json"
    if not path.exists():
        raise Skip(f"{path} is missing: configure first")
    return [of_source for entry in json.loads(path.read_text())
            for of_source in each_source(build, entry)]


def each_source(build, entry):
    """The entry of a source; for one of troupe_unity, those of what it includes."""
    unit = Path(entry["file"])
    if "units" not in unit.parts or not unit.is_relative_to(build.resolve()):
        return [entry]
    root = Path(cache_value(build, "CMAKE_HOME_DIRECTORY"))
    return [{**entry, "file": str(root / name),
             "command": entry["command"].replace(str(unit), str(root / name))}
            for name in re.findall(r'^#include "(.*)"$', unit.read_text(), re.M)]


def cache_value(build, name):
    """What CMake remembers under this name for a build."""
    cache = (build / "CMakeCache.txt").read_text()
    return re.search(rf"^{name}:\w+=(.*)$", cache, re.M).group(1)


def plain_flags(command):
    """The flags of a compile command without launcher, files and
    precompiled header."""
    words = shlex.split(command)
    start = next(i for i, word in enumerate(words)
                 if re.search(r"(\+\+|cc|clang)(-[\d.]+)?$", Path(word).name)
                 and "ccache" not in Path(word).name)
    flags, skip = [words[start]], 0
    for i, word in enumerate(words[start + 1:], start + 1):
        if skip:
            skip -= 1
        elif word in ("-o", "-c", "-MT", "-MF"):
            skip = 1
        elif word == "-include" and "cmake_pch" in words[i + 1]:
            skip = 1
        elif word not in ("-MD", "-fpch-preprocess", "-Winvalid-pch"):
            flags.append(word)
    return flags


def direct_includes(root, file):
    """What a header includes whatever is defined: (project files, others)."""
    own, others, depth = [], [], 0
    for line in (root / file).read_text(errors="replace").splitlines():
        if re.match(r"\s*#\s*if", line):
            depth += 1
        elif re.match(r"\s*#\s*endif", line):
            depth -= 1
        match = INCLUDE.match(line)
        if match is None or depth:
            continue
        bracket, name = match.groups()
        if bracket == "<":
            others.append(name)
        else:
            beside = Path(os.path.normpath(file.parent / name))
            target = Path(name) if (root / name).exists() else beside
            if (root / target).exists():
                own.append(target)
    return own, others


def include_closures(root, headers):
    """{header: (project files, other headers) that it includes, directly or
    through others}."""
    direct, closures = {}, {}

    def walk(file, own, others):
        if file not in direct:
            direct[file] = direct_includes(root, file)
        others.update(direct[file][1])
        for target in direct[file][0]:
            if target not in own:
                own.add(target)
                walk(target, own, others)

    for header in headers:
        closures[header] = (set(), set())
        walk(header, *closures[header])
    return closures


def header_chains(headers, closures):
    """The headers as few lists, in each of which everything before a header is
    in the closure of that header: one unit that includes a list in this order
    shows each of them what it would see alone, and nothing else. (The fewest
    chains of an order: a largest matching of each header with a next one.)"""
    above = {header: [] for header in headers}
    for header in headers:
        for lower in closures[header][0]:
            # A cycle is no order.
            if lower in above and header not in closures[lower][0]:
                above[lower].append(header)
    for lower in above:
        above[lower].sort()
    previous, following = {}, {}

    def give_next(header, tried):
        for other in above[header]:
            if other in tried:
                continue
            tried.add(other)
            if other not in previous or give_next(previous[other], tried):
                previous[other] = header
                following[header] = other
                return True
        return False

    for header in headers:
        give_next(header, set())
    chains = []
    for header in headers:
        if header not in previous:
            chains.append([header])
            while chains[-1][-1] in following:
                chains[-1].append(following[chains[-1][-1]])
    return chains


class Preamble(typing.NamedTuple):
    """The flags of a unit that begins with precompiled headers, and what these
    were made of."""
    flags: tuple = ()
    files: frozenset = frozenset()


class Passed:
    """What has passed a check of this user, and the files that made it: what has
    not changed since is not looked at again, in this build or in another one. Of
    each key the newest states are kept, for trees of several states are checked
    in turn."""

    MAX_STATES = 4

    def __init__(self, root, name):
        self.root = root
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self.memory = Path(cache) / "troupe" / name
        self.states = self.read()  # {key: [{file: sum}, …]}, the newest last
        self.new = {}
        self.sums = {}

    def read(self):
        try:
            kept = json.loads(self.memory.read_text())
            files = kept["files"]
            return {key: [dict(files[number] for number in state)
                          for state in states]
                    for key, states in kept["states"].items()}
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            return {}

    def file_sum(self, name):
        """Of a file's content; paths of the tree are relative to its root."""
        if name not in self.sums:
            try:
                data = (self.root / name).read_bytes()
            except OSError:
                data = b"absent"
            self.sums[name] = hashlib.sha256(data).hexdigest()[:32]
        return self.sums[name]

    def key(self, words, text):
        """Of what is checked by a command, besides the files that it reads. Its
        program counts by its content."""
        program = shutil.which(words[0]) or words[0]
        words = [word.replace(str(self.root), ".") for word in words]
        return hashlib.sha256("\0".join(
            [*words, self.file_sum(program), text]).encode()).hexdigest()[:32]

    def has(self, key):
        return any(all(self.file_sum(name) == known
                       for name, known in state.items())
                   for state in self.states.get(key, []))

    def add(self, key, files):
        self.new[key] = {name: self.file_sum(name) for name in files}

    def remember(self):
        """Keeps what has passed for the next time, where it can be written."""
        states = self.read()  # others may have written meanwhile
        for key, state in self.new.items():
            others = [x for x in states.get(key, []) if x != state]
            states[key] = [*others, state][-self.MAX_STATES:]
        numbers = {}
        kept = {key: [[numbers.setdefault(item, len(numbers))
                       for item in state.items()] for state in some]
                for key, some in states.items()}
        try:
            self.memory.parent.mkdir(parents=True, exist_ok=True)
            new = self.memory.with_suffix(f".{os.getpid()}")
            new.write_text(json.dumps({"files": list(numbers), "states": kept}))
            new.replace(self.memory)
        except OSError as failure:
            print(f"not remembered: {failure}")


def files_read(root, folder, dependencies):
    """The files that a compiler says it has read (-M), relative to the root where
    they are in it; `folder` is where it ran."""
    files = dependencies.split(":", 1)[1].replace("\\\n", " ")
    paths = {Path(os.path.normpath(folder / name)) for name in files.split()}
    return {str(path.relative_to(root) if path.is_relative_to(root) else path)
            for path in paths}


class HeaderUnits:
    """Compiles units that include headers and nothing else, but for those that
    have passed as they are."""

    def __init__(self, root, build):
        self.root, self.build = root, build
        self.folder = build / "tests" / "headers"
        self.flags = {}
        for entry in compile_commands(build):
            file = Path(entry["file"])
            if file.suffix == ".cpp" and file.is_relative_to(root):
                room = file.relative_to(root).parts[0]
                self.flags.setdefault(room, plain_flags(entry["command"]))
        self.passed = Passed(root, "header_units.json")

    def key(self, headers):
        return self.passed.key(self.flags[headers[0].parts[0]],
                               self.text(headers))

    def compile(self, room, unit, text, out, *more):
        """The compiler's complaint; empty: none."""
        unit.parent.mkdir(parents=True, exist_ok=True)
        if not unit.exists() or unit.read_text() != text:
            unit.write_text(text)
        done = subprocess.run(
            self.flags[room] + [f"-I{self.root}", "-O0", *more, str(unit), "-o",
                                str(out)],
            capture_output=True, text=True, cwd=self.build)
        return done.stderr.strip() or "failed" if done.returncode else ""

    def precompile(self, room, preamble):
        """How a unit begins with the preamble, which is read once for all; with
        nothing where that cannot be compiled."""
        name = re.sub(r"\W+", "-", " ".join([room, *preamble])) + ".hpp"
        header = self.folder / "precompiled" / name
        text = "".join(f'#include "{name}"\n' if (self.root / name).exists()
                       else f"#include <{name}>\n" for name in preamble)
        read = header.with_suffix(".d")
        failed = self.compile(room, header, text,
                              header.with_name(name + ".gch"), "-x",
                              "c++-header", "-c", "-MD", "-MF", str(read))
        if failed:
            return Preamble()
        return Preamble(("-include", str(header)), self.files_of(read))

    def files_of(self, read):
        """The files that a compiler says it has read, but for units."""
        return {name for name in files_read(self.root, self.build,
                                            read.read_text())
                if not (self.root / name).is_relative_to(self.folder)}

    @staticmethod
    def text(headers):
        # Twice: each also needs its guard.
        return "".join(f'#include "{header}"\n#include "{header}"\n'
                       for header in headers)

    def has_passed(self, headers):
        return self.passed.has(self.key(headers))

    def complaint(self, headers, preamble=Preamble()):
        room = headers[0].parts[0]
        unit = self.folder / headers[-1].with_suffix(".cpp")
        read = unit.with_suffix(".d")
        failed = self.compile(room, unit, self.text(headers), "/dev/null",
                              *preamble.flags, "-S", "-MD", "-MF", str(read))
        if not failed:
            # The compiler does not say again what was precompiled.
            self.passed.add(self.key(headers),
                            self.files_of(read) | preamble.files)
        return failed


# What is worth reading once. A header is compiled after the first of these that
# its own closure has all of: so it sees nothing that it would not see alone.
PREAMBLES = (
    ("actors/wire/messages.hpp",),
    ("actors/wire/caf.hpp",),
    ("cstdint", "functional", "memory"),
    ("compare", "cstdint", "functional", "map", "set", "string", "variant",
     "vector"),
    ("cstddef", "memory", "span"),
    ("string", "vector"),
)
LEAST_UNITS = 5  # of a room, for a preamble to be precompiled


def check_headers(root, build):
    """Every header of the rooms compiles alone."""
    units = HeaderUnits(root, build)
    headers = [f for f in code_files(root)
               if f.suffix == ".hpp" and f.parts[0] in ROOMS
               and f.parts[0] in units.flags]
    closures = include_closures(root, headers)

    def preamble(header):
        own, others = closures[header]
        known = others | set(map(str, own))
        return next((x for x in PREAMBLES if known.issuperset(x)), ())

    groups = {}
    for header in headers:
        key = (header.parts[0], preamble(header))
        groups.setdefault(key, []).append(header)
    work = [(key, chain) for key, users in groups.items()
            for chain in header_chains(users, closures)]
    new = [item for item in work if not units.has_passed(item[1])]
    wanted = [key for key in groups if key[1] and LEAST_UNITS <= sum(
        item[0] == key for item in new)]
    print(f"{len(headers)} headers in {len(work)} units, {len(work) - len(new)} "
          f"of which have passed as they are; {len(wanted)} preambles")

    def check(item):
        key, chain = item
        if not units.complaint(chain, precompiled.get(key, Preamble())):
            return []
        # Alone, so that the complaint is about what is to be mended.
        found = [(header, units.complaint([header])) for header in chain]
        return [f"{header} does not compile alone:\n{why}"
                for header, why in found if why] or [
                    "these do not compile one after the other: "
                    + " ".join(map(str, chain))]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        precompiled = dict(zip(wanted, pool.map(
            lambda key: units.precompile(*key), wanted)))
        found = [line for lines in pool.map(check, new) for line in lines]
    if new:
        units.passed.remember()
    return found


# --- format -------------------------------------------------------------------

def check_format(root, _build=None):
    """Every source is formatted by .clang-format."""
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        raise Skip("clang-format is missing: cmake/setup --tests installs it")
    version = subprocess.run([tool, "--version"], capture_output=True,
                             text=True).stdout
    if " 14." not in version:
        raise Skip(f"clang-format 14 is meant; here is {version.strip()}")
    files = [str(f) for f in code_files(root)]
    if not files:
        return []
    done = subprocess.run([tool, "--dry-run", "--Werror", *files],
                          capture_output=True, text=True, cwd=root)
    if done.returncode == 0:
        return []
    wrong = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", done.stderr,
                                  re.MULTILINE)))
    return [f"{name} is not formatted: clang-format -i {name}"
            for name in wrong] or [done.stderr.strip()]


# --- orphans: every source and every test is part of the build ------------------

def built_with_a_peer(root, file):
    """tests/peers/build compiles it, where the peer is installed."""
    script = root / "tests/peers/build"
    return (file.parts[:2] == ("tests", "peers") and script.exists()
            and f"/{file.name}" in script.read_text())


def not_fuzzed(root):
    """Sources whose headers the fuzz targets, or what they are linked with,
    include, and that they are not linked with: clang alone links them, and
    tests/run does not."""
    lists = root / "tests/fuzz/CMakeLists.txt"
    if not lists.exists():
        return []
    text = lists.read_text()
    globs = re.findall(r'"\$\{PROJECT_SOURCE_DIR\}/([\w/]+/\*\.cpp)"', text)
    fuzzed = {str(file.relative_to(root).with_suffix(""))
              for pattern in globs for file in root.glob(pattern)}
    fuzzed |= set(re.search(r"foreach\(name\s([^)]*)\)", text)[1].split())
    uncalled = set(re.search(r"\n# Uncalled:([^)]*?)\n(?!#)", text)[1].split())
    uncalled.discard("#")
    without = re.search(r"fuzz_sources EXCLUDE REGEX \"/targets/(\w+)", text)
    targets = [str(file.relative_to(root).with_suffix(""))
               for file in (root / "tests/fuzz/targets").glob("*.cpp")
               if not without or file.stem != without[1]]
    seen = set()
    found = {}

    def follow(name, by):
        """A header without a source brings what it includes."""
        if name in seen:
            return
        seen.add(name)
        for file in (root / f"{name}.cpp", root / f"{name}.hpp"):
            included = direct_includes(root, file)[0] if file.exists() else ()
            for header in included:
                called = str(Path(header).with_suffix(""))
                if called in fuzzed:
                    continue
                if (root / f"{called}.cpp").exists():
                    found.setdefault(called, by)
                else:
                    follow(called, by)

    for name in sorted([*fuzzed, *targets]):
        follow(name, name)
    return [f"tests/fuzz/CMakeLists.txt does not list {called}, which {by} includes"
            for called, by in sorted(found.items()) if called not in uncalled
            ] + [f"tests/fuzz/CMakeLists.txt: nothing includes {name}: Uncalled"
                 for name in sorted(uncalled - set(found))]


def check_orphans(root, build):
    """Every source is compiled, every test is registered, and targets of
    tests/fuzz have what they call."""
    compiled = {os.path.realpath(os.path.join(e["directory"], e["file"]))
                for e in compile_commands(build)}
    listed = subprocess.run(
        ["ctest", "--test-dir", str(build), "-C", "nightly",
         "--show-only=json-v1"],
        capture_output=True, text=True)
    tests = json.loads(listed.stdout) if listed.returncode == 0 else {}
    arguments = {os.path.realpath(word) for test in tests.get("tests", [])
                 for word in test.get("command", [])}
    with_cuda = any(name.endswith(".cu") for name in compiled)
    onednn_absent = "kernels/cpu/onednn_absent.cpp"
    with_onednn = not any(name.endswith(onednn_absent) for name in compiled)
    found = []
    for file in source_files(root):
        path = os.path.realpath(root / file)
        room = file.parts[0]
        if room not in ROOMS + ("tests",):
            continue
        if file.name in ("arrow_module.cpp", "module_image.cpp") and not any(
                name.endswith("/arrow_module.cpp") for name in compiled):
            continue  # without Apache Arrow
        absent = file.name == "cuda_absent.cpp"
        if absent or "kernels/cuda" in str(file):
            has_sources = any((root / "kernels/cuda").rglob("*.cu"))
            if absent == with_cuda or not has_sources:
                continue
        if (str(file) == onednn_absent if with_onednn else
                re.search(r"kernels/cpu/(onednn_pin|\w+_bfloat16)\.cpp$",
                          str(file))):
            continue
        outside = (file.parts[:2] == ("tests", "install")
                   or built_with_a_peer(root, file))
        # tests/cuda_stand_in/translate.py makes C++ of it.
        translated = any(name.endswith(f"/translated/{file}.cpp")
                         for name in compiled) if file.suffix == ".cu" else False
        if file.suffix in (".cpp", ".cu") and not outside and not translated:
            if path not in compiled:
                found.append(f"{file} is compiled by no target")
        elif file.name.endswith("_test.py") and path not in arguments:
            found.append(f"{file} is run by no test: tests/CMakeLists.txt says "
                         "which folders are looked at")
    return found + not_fuzzed(root)


# --- citations: what is cited is in the tree -------------------------------------

RULE = re.compile(r"\bPROTOCOL (\d+)")
DOCUMENT = re.compile(r"(?<![\w./-])((?:docs/)?[\w-]+\.md)\b")
UNTRACKED = re.compile(r"\b(?:DESIGN|STYLE|HOUSE) ?\d|\bthe design's\b")


def check_citations(root, _build=None):
    """Each rule and document that is cited is in the tree."""
    rules = set()
    protocol = root / "docs" / "protocol.md"
    if protocol.exists():
        rules = set(re.findall(r"^(\d+)\. ", protocol.read_text(), re.M))
    files = source_files(root)
    documents = {file.name for file in files if file.suffix == ".md"}
    found = []
    for file in files:
        if (file.parts[:2] == ("tests", "checks")
                or file.suffix not in (".cpp", ".hpp", ".cu", ".py", ".md")):
            continue
        text = (root / file).read_text(errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            missing = [f"PROTOCOL {rule}" for rule in RULE.findall(line)
                       if rule not in rules]
            missing += [name for name in DOCUMENT.findall(line)
                        if Path(name).name not in documents]
            missing += UNTRACKED.findall(line)
            found += [f"{file}:{number}: {name} is not in the tree"
                      for name in missing]
    return found


# --- paths: no file knows one machine -------------------------------------------

MACHINE = re.compile(
    r"(?<![\w./$}-])/(work|root|home/[a-z]\w*|Users/\w+)(?=[/\s\"'`:;,)]|$)")
REGISTRY = re.compile(
    r"\b(deb|security|ftp\.?\w*|snapshot)\.debian\.org|archive\.ubuntu\.com|"
    r"files\.pythonhosted\.org|\bpypi\.org|registry\.npmjs\.org|"
    r"\bcrates\.io|conda\.anaconda\.org|\bnvcr\.io|\bghcr\.io|\bdocker\.io|"
    r"\bquay\.io|proxy\.golang\.org|developer\.download\.nvidia\.com")


def check_paths(root, _build=None):
    """No file holds a machine's own path or a registry's host name."""
    found = []
    for file in source_files(root):
        data = (root / file).read_bytes()
        if b"\0" in data[:4096] or file.name == "LICENSE":
            continue
        lines = data.decode(errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            for pattern, what in ((MACHINE, "a path of one machine"),
                                  (REGISTRY, "a registry's host name")):
                match = pattern.search(line)
                if match:
                    found.append(f"{file}:{number}: {what}: {match.group(0)}")
    return found


# --- names: what the documents name is there ----------------------------------

FLAG = re.compile(r"(?<![\w-])--([a-z][a-z0-9_]*(?:-[a-z0-9_]+)*)")
NAME = re.compile(r"`[^`\n]*`")
WORD = re.compile(r"(?<![\w./-])[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?![\w./(-])")
METRIC = re.compile(r"\b(?:troupe|caf_system)_[a-z][a-z0-9_]*[a-z0-9]")
# Of programs that are not the project's.
FOREIGN_FLAGS = {
    "help", "build", "install", "prefix", "target", "preset",  # cmake
    "run_test", "log_level",  # Boost's test programs
    "tool", "set", "clock-control", "launch-count",  # CUDA's tools
    "max-restarts",  # torchrun's
    "ntasks-per-node", "signal",  # Slurm's
    "rm", "now"}  # docker's, systemctl's

FOREIGN_NAMES = {
    "authorized_keys",  # OpenSSH's
    "make_session",  # CAF's
    "eta_min", "count_include_pad", "padding_idx", "batch_size", "enable_gqa",
    "lr_scheduler", "bucket_cap_mb", "state_dict", "load_state_dict",  # PyTorch's
    "use_deterministic_algorithms",
    "predict_proba",  # scikit-learn's
    "l2_regularization_strength", "global_clipnorm", "mask_zero",  # Keras's
    "experimental_distribute_dataset", "apply_gradients", "mixed_bfloat16",
    "load_weights", "validation_data", "validation_split", "set_random_seed",
    "enable_op_determinism", "jit_compile"}


def documents(root):
    return [file for file in source_files(root) if file.suffix == ".md"
            and (file.parts[0] == "docs" or file == Path("README.md"))]


def flags_of_program(program):
    """Those of `--help` of every command, and what is refused by name."""
    def output(*words):
        return subprocess.run([program, *words], capture_output=True,
                              text=True).stdout

    commands = re.findall(r"(?m)^  (?! )(\S+(?: [a-z-]+)*)(?:  |$)",
                          output("--help").split("\nCommands\n")[1])
    text = "".join(output(*command.split(), "--help") for command in commands)
    return set(FLAG.findall(text))


def flags_of_scripts(root):
    """What the scripts of the tree take."""
    out = set()
    for file in source_files(root):
        if file.suffix == ".py" or not file.suffix:
            text = (root / file).read_text(errors="replace")
            out.update(re.findall(r'add_argument\(\s*"--([a-z-]+)"', text))
            out.update(re.findall(r"(?m)^\s*--([a-z-]+)\)", text))
        elif file.suffix in (".cpp", ".hpp") and file.parts[0] == "tests":
            out.update(FLAG.findall((root / file).read_text(errors="replace")))
    return out


def words_of_tree(root):
    """Every word of the sources, and names of files without their ending."""
    out = set()
    for file in source_files(root):
        out.update(part.split(".")[0] for part in file.parts)
        if file.suffix not in (".md", ".bin") and file.name != "LICENSE":
            out.update(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", (
                root / file).read_text(errors="replace")))
    return out


def listed_metrics(root):
    text = "".join((root / file).read_text() for file in source_files(root)
                   if file.parts[0] == "monitoring" and file.suffix == ".hpp")
    return set(re.findall(r'Kind::\w+,\s*"(\w+)"', text))


def is_metric(name, metrics):
    return any(name == metric or name.removeprefix(metric) in (
        "_bucket", "_sum", "_count") for metric in metrics)


def check_names(root, build):
    """Flags, metrics, fields and other names in README and docs exist."""
    program = build / "apps" / "troupe"
    if not program.exists():
        raise Skip(f"{program} is not built")
    flags = flags_of_program(program) | flags_of_scripts(root) | FOREIGN_FLAGS
    metrics = listed_metrics(root)
    words = words_of_tree(root) | FOREIGN_NAMES
    found = []
    for file in documents(root):
        lines = (root / file).read_text().splitlines()
        fields = False  # of a table whose first column names them
        for number, line in enumerate(lines, 1):
            where = f"{file}:{number}: "
            fields = line.startswith("|") and (
                fields or line.startswith("| field |"))
            if fields:
                found += [where + f"no field is called {word}" for word in
                          re.findall(r"[a-z]\w*", line.split("|")[1])
                          if word not in words and word != "field"]
            found += [where + f"no program here has a flag --{flag}"
                      for flag in FLAG.findall(line) if flag not in flags]
            found += [where + f"there is no metric {name}"
                      for name in METRIC.findall(line)
                      if not is_metric(name, metrics) and name not in words]
            for name in NAME.findall(line):
                found += [where + f"nothing in the sources is called {word}"
                          for word in WORD.findall(name)
                          if word not in words and not METRIC.match(word)]
    return found


# --- tidy: clang-tidy over what changed -----------------------------------------

TIDY_AT_MOST = 30
# clang-tidy 14 cannot read libstdc++'s <source_location>.
SOURCE_LOCATION = """#if !__has_builtin(__builtin_source_location)
namespace std {
struct source_location {
  static constexpr source_location current() noexcept { return {}; }
  constexpr unsigned line() const noexcept { return 0; }
  constexpr unsigned column() const noexcept { return 0; }
  constexpr const char* file_name() const noexcept { return ""; }
  constexpr const char* function_name() const noexcept { return ""; }
};
} // namespace std
#endif
"""


def changed_files(root):
    def git(*words):
        done = subprocess.run(["git", "-C", str(root), *words],
                              capture_output=True, text=True)
        return done.stdout.split() if done.returncode == 0 else None

    base = (git("merge-base", "HEAD", "origin/main") or [None])[0]
    head = (git("rev-parse", "HEAD") or [None])[0]
    if base is None or base == head:
        base = (git("rev-parse", "--verify", "--quiet", "HEAD~1") or [None])[0]
    if base is None:
        raise Skip("no commit to compare with")
    return git("diff", "--name-only", "--diff-filter=d", base) or []


def check_tidy(root, build):
    """clang-tidy finds nothing in the sources changed since the main branch."""
    tool = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if tool is None:
        raise Skip("clang-tidy is missing")
    changed = {os.path.realpath(root / name) for name in changed_files(root)}
    folder = build / "tests" / "tidy"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source_location.hpp").write_text(SOURCE_LOCATION)
    entries = []
    for entry in compile_commands(build):
        file = os.path.realpath(entry["file"])
        if file in changed and file.endswith(".cpp"):
            command = shlex.join(
                plain_flags(entry["command"])
                + ["-Wno-unknown-warning-option", # GCC knows others
                   "-include", str(folder / "source_location.hpp"), "-c",
                   entry["file"]])
            entries.append({"directory": entry["directory"],
                            "command": command, "file": entry["file"]})
    if len(entries) > TIDY_AT_MOST:
        print(f"{len(entries)} files changed; looking at {TIDY_AT_MOST}")
        entries = entries[:TIDY_AT_MOST]
    (folder / "compile_commands.json").write_text(json.dumps(entries))
    passed = Passed(root, "tidied.json")

    def key(entry):
        return passed.key([tool, *shlex.split(entry["command"])],
                          SOURCE_LOCATION)

    def tidy(entry):
        done = subprocess.run(
            [tool, "--quiet", "-p", str(folder), entry["file"]],
            capture_output=True, text=True, cwd=root)
        if done.returncode:
            return done.stdout.strip()
        # What the build's compiler reads, clang-tidy reads, too.
        read = subprocess.run([*shlex.split(entry["command"]), "-M"],
                              capture_output=True, text=True,
                              cwd=entry["directory"])
        if read.returncode == 0:
            passed.add(key(entry), {".clang-tidy"} | files_read(
                root, Path(entry["directory"]), read.stdout))
        return None

    new = [entry for entry in entries if not passed.has(key(entry))]
    print(f"{len(entries)} files, {len(entries) - len(new)} of which have passed "
          "as they are")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [line for line in pool.map(tidy, new) if line]
    if new:
        passed.remember()
    return found


CHECKS = {"includes": check_includes, "headers": check_headers,
          "format": check_format, "orphans": check_orphans,
          "citations": check_citations, "paths": check_paths, "names": check_names,
          "tidy": check_tidy}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("check", choices=CHECKS)
    parser.add_argument("--build", type=Path)
    options = parser.parse_args()
    root = Path(__file__).resolve().parents[2]
    build = (options.build or root / "build" / "release").resolve()

    try:
        found = CHECKS[options.check](root, build)
    except Skip as reason:
        print(f"skipped: {reason}")
        return 77
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
