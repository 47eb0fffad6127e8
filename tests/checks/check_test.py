"""Every check finds a violation planted for it, and passes a clean tree."""

import json
import os
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import check  # noqa: E402


class Planted(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name).resolve()
        self.build = self.root / "build"
        self.build.mkdir()

    def tearDown(self):
        self.folder.cleanup()

    def plant(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def compiled(self, *names):
        commands = [{"directory": str(self.build), "file": str(self.root / n),
                     "command": f"ccache g++ -std=c++20 -Wall -o x.o -c {n}"}
                    for n in names]
        (self.build / "compile_commands.json").write_text(json.dumps(commands))

    def remember_here(self, **environment):
        """What passes is remembered beside the tree, not for this user."""
        cache = unittest.mock.patch.dict(
            os.environ, XDG_CACHE_HOME=str(self.root / "cache"), **environment)
        cache.start()
        self.addCleanup(cache.stop)

    def assert_found(self, found, *words):
        self.assertTrue(any(all(w in line for w in words) for line in found),
                        f"{words} not in {found}")


class Includes(Planted):
    def test_allowed_includes_pass(self):
        self.plant("kernels/a.hpp", "#include <vector>\n")
        self.plant("kernels/a.cpp",
                   '#include "kernels/a.hpp"\n#include <Eigen/Core>\n'
                   "#include <zlib.h>\n#include <cublas_v2.h>\n")
        self.plant("strategies/s.hpp", "#include <span>\n")
        self.plant("actors/b.cpp",
                   '#include "kernels/a.hpp"\n#include "strategies/s.hpp"\n'
                   "#include <caf/all.hpp>\n")
        self.assertEqual(check.check_includes(self.root), [])

    def test_a_room_that_enters_another_is_found(self):
        self.plant("actors/b.hpp", "")
        self.plant("kernels/a.hpp", '#include "actors/b.hpp"\n')
        self.plant("kernels/c.hpp", "")
        self.plant("strategies/s.hpp", '\n#include "../kernels/c.hpp"\n')
        found = check.check_includes(self.root)
        self.assert_found(found, "kernels/a.hpp:1", "actors/")
        self.assert_found(found, "strategies/s.hpp:2", "kernels/c.hpp")

    def test_a_folder_that_enters_one_above_it_is_found(self):
        self.plant("actors/links/l.hpp", '#include "actors/job/j.hpp"\n')
        self.plant("actors/job/j.hpp", '#include "actors/wire/w.hpp"\n')
        self.plant("actors/wire/w.hpp", "")
        self.plant("actors/attic/a.hpp", '#include "actors/wire/w.hpp"\n')
        found = check.check_includes(self.root)
        self.assertEqual(len(found), 2, found)
        self.assert_found(found, "actors/links/l.hpp:1", "below actors/job")
        self.assert_found(found, "actors/attic", "no floor")

    def test_a_library_of_another_room_is_found(self):
        self.plant("kernels/cuda/k.cu", "#include <caf/all.hpp>\n")
        self.plant("strategies/s.cpp", "#include <Eigen/Core>\n")
        self.plant("monitoring/m.cpp", "#include <caf/telemetry/counter.hpp>\n")
        self.plant("actors/a.cpp", "#  include <CLI/CLI.hpp>\n")
        found = check.check_includes(self.root)
        self.assertEqual(len(found), 4, found)

    def test_threads_and_clocks_in_strategies_are_found(self):
        self.plant("strategies/s.cpp", "#include <thread>\n")
        self.plant("strategies/t.cpp", "#include <unistd.h>\n")
        found = check.check_includes(self.root)
        self.assert_found(found, "<thread>")
        self.assert_found(found, "<unistd.h>")

    def test_a_clock_that_no_simulator_can_pass_in_is_found(self):
        self.plant("kernels/base/steady_clock.hpp",
                   "using C = std::chrono::steady_clock;\n")
        self.plant("actors/a.cpp",
                   '#include "kernels/base/steady_clock.hpp"\n'
                   "using namespace std::chrono;\n"
                   "auto t = steady_clock::now();\n")
        self.plant("monitoring/m.cpp", "std::chrono::steady_clock::now();\n")
        found = check.check_includes(self.root)
        self.assertEqual(len(found), 1, found)
        self.assert_found(found, "actors/a.cpp:3", "SteadyClock")

    def test_production_code_that_includes_test_code_is_found(self):
        self.plant("tests/fake.hpp", "")
        self.plant("apps/main.cpp", '#include "tests/fake.hpp"\n')
        self.assert_found(check.check_includes(self.root), "tests/")


class Headers(Planted):
    def setUp(self):
        super().setUp()
        self.remember_here()

    def test_a_header_that_needs_another_first_is_found(self):
        self.plant("kernels/a.cpp", "")
        self.plant("kernels/good.hpp",
                   "#pragma once\n#include <vector>\nstruct g {};\n")
        self.plant("kernels/bad.hpp", "#pragma once\nstd::vector<int> f();\n")
        self.compiled("kernels/a.cpp")
        found = check.check_headers(self.root, self.build)
        self.assertEqual(len(found), 1, found)
        self.assert_found(found, "kernels/bad.hpp")

    def test_a_header_without_guard_is_found(self):
        self.plant("kernels/a.cpp", "")
        self.plant("kernels/twice.hpp", "struct twice {};\n")
        self.compiled("kernels/a.cpp")
        self.assert_found(check.check_headers(self.root, self.build),
                          "kernels/twice.hpp")


    def test_what_another_header_of_its_unit_includes_is_missed(self):
        self.plant("kernels/a.cpp", "")
        self.plant("kernels/low.hpp", "#pragma once\n#include <vector>\n")
        self.plant("kernels/mid.hpp",
                   '#pragma once\n#include "kernels/low.hpp"\nstruct mid {};\n')
        self.plant("kernels/top.hpp",
                   '#pragma once\n#include "kernels/low.hpp"\nmid f();\n')
        self.compiled("kernels/a.cpp")
        found = check.check_headers(self.root, self.build)
        self.assertEqual(len(found), 1, found)
        self.assert_found(found, "kernels/top.hpp")

    def plant_messages(self, user):
        self.plant("actors/a.cpp", "")
        self.compiled("actors/a.cpp")
        self.plant("actors/wire/messages.hpp",
                   "#pragma once\n#include <vector>\nstruct message {};\n")
        for number in range(check.LEAST_UNITS):
            self.plant(f"actors/user{number}.hpp",
                       f'#pragma once\n#include "actors/wire/messages.hpp"\n'
                       f"message f{number}();\n")
        self.plant("actors/other.hpp", user)

    def test_a_preamble_lends_nothing_to_who_does_not_include_it(self):
        self.plant_messages("#pragma once\nstd::vector<message> f();\n")
        found = check.check_headers(self.root, self.build)
        self.assertEqual(len(found), 1, found)
        self.assert_found(found, "actors/other.hpp")

    def test_what_has_passed_is_looked_at_again_when_its_files_change(self):
        self.plant_messages("#pragma once\n")
        self.assertEqual(check.check_headers(self.root, self.build), [])
        self.assertEqual(check.check_headers(self.root, self.build), [])
        self.plant("actors/wire/messages.hpp", "#pragma once\n")
        found = check.check_headers(self.root, self.build)
        self.assertEqual(len(found), check.LEAST_UNITS, found)

    def test_a_tree_that_is_as_it_was_before_is_known_again(self):
        # Trees of several states in turn had each looked at from nothing.
        texts = ("#pragma once\n", "#pragma once\nint f();\n")
        self.plant("kernels/a.cpp", "")
        self.compiled("kernels/a.cpp")
        for text in texts:
            self.plant("kernels/a.hpp", text)
            self.assertEqual(check.check_headers(self.root, self.build), [])
        with unittest.mock.patch.object(check.HeaderUnits, "compile") as again:
            for text in texts:
                self.plant("kernels/a.hpp", text)
                self.assertEqual(check.check_headers(self.root, self.build), [])
        again.assert_not_called()


class Tidy(Planted):
    """With a tool that finds the word bad, and notes what it looked at."""

    TOOL = """#!/bin/sh
for file; do :; done
echo "$file" >>"$LOOKED_AT"
! grep bad "$file" "$(dirname "$file")"/*.hpp
"""

    def setUp(self):
        super().setUp()
        self.plant("bin/clang-tidy-14", self.TOOL)
        (self.root / "bin/clang-tidy-14").chmod(0o755)
        self.looked_at = self.root / "looked-at"
        self.remember_here(
            LOOKED_AT=str(self.looked_at),
            PATH=f"{self.root / 'bin'}:{os.environ['PATH']}")
        self.plant("kernels/a.hpp", "#pragma once\n")
        self.plant("kernels/a.cpp", '#include "a.hpp"\n')
        self.plant("kernels/b.cpp", "int b;\n")
        (self.build / "compile_commands.json").write_text(json.dumps([
            {"directory": str(self.build), "file": str(self.root / name),
             "command": f"g++ -std=c++20 -o x.o -c {self.root / name}"}
            for name in ("kernels/a.cpp", "kernels/b.cpp")]))

    def check(self):
        """What is found, and how many files were looked at."""
        self.looked_at.write_text("")
        with unittest.mock.patch.object(
                check, "changed_files",
                return_value=["kernels/a.cpp", "kernels/b.cpp"]):
            found = check.check_tidy(self.root, self.build)
        return found, len(self.looked_at.read_text().splitlines())

    def test_what_has_passed_is_looked_at_again_when_its_files_change(self):
        self.assertEqual(self.check(), ([], 2))
        self.assertEqual(self.check(), ([], 0))
        self.plant("kernels/a.hpp", "#pragma once // bad\n")
        for _ in range(2):  # what is found is found again
            found, looked_at = self.check()
            self.assert_found(found, "bad")
            self.assertEqual((len(found), looked_at), (1, 1))
        self.plant(".clang-tidy", "Checks: '-*'\n")
        self.assertEqual(self.check()[1], 2)


class Format(Planted):
    def test_only_what_is_not_formatted_is_found(self):
        real = Path(check.__file__).parents[2] / ".clang-format"
        self.plant(".clang-format", real.read_text())
        self.plant("kernels/good.cpp", "int f(int a) {\n  return a + 1;\n}\n")
        self.plant("kernels/bad.cpp", "int f( int a ){return a+1;}\n")
        try:
            found = check.check_format(self.root)
        except check.Skip as reason:
            self.skipTest(str(reason))
        self.assertEqual(len(found), 1, found)
        self.assert_found(found, "kernels/bad.cpp")


class Orphans(Planted):
    def test_sources_and_tests_outside_the_build_are_found(self):
        self.plant("kernels/a.cpp", "")
        self.plant("kernels/forgotten.cpp", "")
        self.plant("tests/unit/kernels/a_test.cpp", "")
        self.plant("tests/unit/elsewhere/b_test.cpp", "")
        self.plant("tests/process/c_test.py", "")
        self.compiled("kernels/a.cpp", "tests/unit/kernels/a_test.cpp")
        found = check.check_orphans(self.root, self.build)
        self.assertEqual(len(found), 3, found)
        self.assert_found(found, "kernels/forgotten.cpp")
        self.assert_found(found, "b_test.cpp")
        self.assert_found(found, "c_test.py")


    def test_a_source_is_compiled_by_the_unit_that_includes_it(self):
        self.plant("kernels/a.cpp", "")
        self.plant("kernels/forgotten.cpp", "")
        self.plant("build/CMakeCache.txt",
                   f"CMAKE_HOME_DIRECTORY:INTERNAL={self.root}\n")
        self.plant("build/kernels/units/x/kernels_0.cpp",
                   '#include "kernels/a.cpp"\n')
        self.compiled("build/kernels/units/x/kernels_0.cpp")
        self.assertEqual(check.check_orphans(self.root, self.build),
                         ["kernels/forgotten.cpp is compiled by no target"])
        entry, = check.compile_commands(self.build)
        self.assertEqual(entry["file"], str(self.root / "kernels/a.cpp"))

    def test_what_fuzz_targets_include_is_fuzzed(self):
        self.plant("tests/fuzz/CMakeLists.txt",
                   'file(GLOB product\n  "${PROJECT_SOURCE_DIR}/kernels/*.cpp")\n'
                   "# Uncalled: actors/types\n#   actors/more\n"
                   "foreach(name actors/a\n        actors/b)\n"
                   'list(FILTER fuzz_sources EXCLUDE REGEX "/targets/apart\\\\.cpp$")\n')
        self.plant("kernels/k.cpp", "")
        self.plant("kernels/k.hpp", "")
        for name in ("types", "more", "b", "forgotten", "passed_on", "asked"):
            self.plant(f"actors/{name}.cpp", "")
            self.plant(f"actors/{name}.hpp", "")
        self.plant("actors/header_only.hpp", "")
        self.plant("actors/a.cpp", "".join(
            f'#include "{name}.hpp"\n' for name in (
                "kernels/k", "actors/types", "actors/more", "actors/b",
                "actors/header_only")))
        self.plant("tests/fuzz/targets/apart.cpp",
                   '#include "actors/forgotten.hpp"\n')
        self.assertEqual(check.not_fuzzed(self.root), [])
        self.plant("actors/b.hpp", '#include "actors/forgotten.hpp"\n')
        self.plant("actors/header_only.hpp", '#include "actors/passed_on.hpp"\n')
        self.plant("tests/fuzz/targets/target.cpp", '#include "actors/asked.hpp"\n')
        self.plant("actors/a.cpp", '#include "actors/types.hpp"\n'
                                   '#include "actors/header_only.hpp"\n')
        said = "tests/fuzz/CMakeLists.txt does not list actors/"
        self.assertEqual(check.not_fuzzed(self.root), [
            f"{said}asked, which tests/fuzz/targets/target includes",
            f"{said}forgotten, which actors/b includes",
            f"{said}passed_on, which actors/a includes",
            "tests/fuzz/CMakeLists.txt: nothing includes actors/more: Uncalled"])


class Citations(Planted):
    def test_what_is_in_the_tree_may_be_cited(self):
        self.plant("docs/protocol.md", "# Rules\n\n1. Once.\n12. Twice.\n")
        self.plant("kernels/a.cpp", "// PROTOCOL 12, docs/protocol.md\n")
        self.assertEqual(check.check_citations(self.root), [])

    def test_a_rule_or_a_document_that_is_not_there_is_found(self):
        self.plant("docs/protocol.md", "12. Twice.\n")
        self.plant("kernels/a.cpp",
                   "// PROTOCOL 3\n// see docs/other.md\n// STYLE 9\n")
        found = check.check_citations(self.root)
        self.assertEqual(len(found), 3, found)
        self.assert_found(found, "kernels/a.cpp:1", "PROTOCOL 3")
        self.assert_found(found, "docs/other.md")
        self.assert_found(found, "STYLE 9")


class Paths(Planted):
    def test_ordinary_paths_pass(self):
        self.plant("a.md", "see /usr/local/cuda, $HOME/{0}/x, ../{0}/y, "
                   "docs/{1}/z and https://example.org/{0}/a\n"
                   .format("work", "root"))
        self.assertEqual(check.check_paths(self.root), [])

    def test_a_machines_own_path_is_found(self):
        # Put together here, so that this file passes the check itself.
        for path in ("work/main/x", "root/.cache", "home/joe/x"):
            self.plant("a.md", f"run /{path} now\n")
            self.assert_found(check.check_paths(self.root), "a.md:1")

    def test_a_registrys_host_name_is_found(self):
        for host in (("deb", "debian", "org"), ("pypi", "org")):
            self.plant("a.sh", "\nfetch https://" + ".".join(host) + "/x\n")
            self.assert_found(check.check_paths(self.root), "a.sh:2")



class Names(Planted):
    def setUp(self):
        super().setUp()
        self.plant("build/apps/troupe", "#!/bin/sh\n"
                   "case $1 in --help) printf '\\nCommands\\n  train   x\\n';;\n"
                   "*) echo '  --steps N  steps';; esac\n")
        os.chmod(self.root / "build/apps/troupe", 0o755)
        self.plant("monitoring/names.hpp",
                   'x{Kind::counter,\n "troupe_steps_total", "S"};\n')
        self.plant("actors/record.cpp", 'json["final_loss"] = 1;\n')

    def names(self, text):
        self.plant("docs/page.md", text)
        return check.check_names(self.root, self.build)

    def test_what_is_there_passes(self):
        self.assertEqual(self.names(
            "`--steps 3` and `--help`, `troupe_steps_total`, `final_loss`\n"
            "\n| field | meaning |\n|---|---|\n| final_loss | x |\n"), [])

    def test_what_is_not_there_is_found(self):
        found = self.names(
            "`--stpes 3` `troupe_step_total`\n`last_loss`\n"
            "\n| field | meaning |\n|---|---|\n| finalloss | x |\n")
        self.assert_found(found, "docs/page.md:1", "--stpes")
        self.assert_found(found, "docs/page.md:1", "troupe_step_total")
        self.assert_found(found, "docs/page.md:2", "last_loss")
        self.assert_found(found, "docs/page.md:6", "finalloss")

    def test_without_a_program_it_is_left_out(self):
        os.remove(self.root / "build/apps/troupe")
        with self.assertRaises(check.Skip):
            self.names("")


if __name__ == "__main__":
    unittest.main()
