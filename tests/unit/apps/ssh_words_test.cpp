#include "apps/launch/ssh_words.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(words_for_ssh)

namespace {

const ProgramFile program{"1.2.3", std::string(64, 'a'), 7,
                          ".cache/troupe/troupe-aaaaaaaaaaaaaaaa", false};

std::string why(const std::vector<std::string>& said) {
  return why_no_agent("b", program, said, "exit status 255");
}

/// What a shell prints that gets the command, with some standard input.
std::string run(const ProgramFile& file, const std::string& home,
                const std::string& input) {
  const auto script = home + "/input";
  std::ofstream{script, std::ios::binary} << input;
  const auto line = "HOME='" + home + "' sh -c "
                    + std::string{"\"$TROUPE_TEST_COMMAND\" < "} + script
                    + " 2>/dev/null";
  ::setenv("TROUPE_TEST_COMMAND", agent_command(file).c_str(), 1);
  std::string out;
  auto* pipe = ::popen(line.c_str(), "r");
  std::array<char, 256> bytes{};
  while (const auto count = std::fread(bytes.data(), 1, bytes.size(), pipe))
    out.append(bytes.data(), count);
  ::pclose(pipe);
  return out;
}

struct Home {
  std::string path;
  Home() {
    std::string name =
      (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Home() { std::filesystem::remove_all(path); }
};

} // namespace

BOOST_AUTO_TEST_CASE(ssh_never_asks_and_an_option_is_no_host) {
  const auto words = ssh_words({"ssh", "-p", "2222"}, 7, "b", "true");
  BOOST_TEST(words.front() == "ssh");
  BOOST_TEST(words[2] == "2222");
  for (const auto* option : {"BatchMode=yes", "ConnectTimeout=7"})
    BOOST_TEST((std::ranges::find(words, option) != words.end()));
  BOOST_TEST(words[words.size() - 2] == "b");
  BOOST_TEST(words.back() == "true");
}

BOOST_AUTO_TEST_CASE(what_ssh_says_becomes_one_line_that_helps) {
  const std::vector<std::pair<const char*, const char*>> cases{
    {"b@b: Permission denied (publickey).", "ssh-copy-id"},
    {"Host key verification failed.", "compare the fingerprint"},
    {"ssh: Could not resolve hostname b: Name or service not known",
     "no host of that name"},
    {"ssh: connect to host b port 22: Connection refused", "start sshd"},
    {"ssh: connect to host b port 22: Connection timed out", "firewall"},
    {"ssh: connect to host b port 22: No route to host", "does not answer"},
    {"troupe: error while loading shared libraries: libx.so: cannot open",
     "libx.so"},
    {"troupe-node: copy /x: mkdir: cannot create directory", "mkdir: cannot"},
    {"troupe-node: differs 1234567890abcdef 1.2.2", "1.2.2, SHA-256 1234567"},
    {"something else", "something else"}};
  for (const auto& [said, expected] : cases) {
    const auto line = why({"Welcome", said});
    BOOST_TEST(line.starts_with("b: "), line);
    BOOST_TEST(line.find(expected) != std::string::npos, line);
    BOOST_TEST(line.find('\n') == std::string::npos);
  }
  BOOST_TEST(why({}).find("exit status 255") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_changed_host_key_comes_before_what_ssh_says_last) {
  const auto line = why({"@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @",
                         "Host key verification failed."});
  BOOST_TEST(line.find("ssh-keygen -R b") != std::string::npos, line);
}

// The program of these is a script of a few bytes.
BOOST_AUTO_TEST_CASE(a_program_is_copied_once_and_then_started) {
  const Home home;
  const std::string bytes = "#!/bin/sh\necho \"ran $1 $(cat)\"\n";
  auto file = program;
  file.bytes = bytes.size();
  const auto reference = home.path + "/reference";
  std::ofstream{reference, std::ios::binary} << bytes;
  auto* pipe = ::popen(("sha256sum < " + reference).c_str(), "r");
  std::array<char, 65> digest{};
  BOOST_REQUIRE(std::fread(digest.data(), 1, 64, pipe) == 64u);
  ::pclose(pipe);
  file.sha256 = digest.data();
  file.path = usual_remote_path(file.sha256);
  // What follows the bytes is the agent's, to the byte.
  BOOST_TEST(run(file, home.path, "send\n" + bytes + "rest")
             == "troupe-node: lacks x86_64\nran node rest\n");
  BOOST_TEST(run(file, home.path, "all") == "ran node all\n");

  // Cut short, as by a launcher that was killed: nothing is left.
  file.path = "other/troupe";
  file.own_path = true;
  const auto said = run(file, home.path, "send\n" + bytes.substr(0, 9));
  BOOST_TEST(said.find("troupe-node: copy ") != std::string::npos, said);
  BOOST_TEST(std::filesystem::is_empty(home.path + "/other"));

  // Another program is not touched.
  std::ofstream{home.path + "/other/troupe"} << "#!/bin/sh\necho 9.9\n";
  std::filesystem::permissions(home.path + "/other/troupe",
                               std::filesystem::perms::owner_all);
  const auto differs = run(file, home.path, "");
  BOOST_TEST(differs.starts_with("troupe-node: differs "), differs);
  BOOST_TEST(differs.ends_with(" 9.9\n"), differs);
}

BOOST_AUTO_TEST_SUITE_END()
