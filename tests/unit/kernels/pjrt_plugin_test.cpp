#include "kernels/base/error.hpp"
#include "kernels/graph/models.hpp"
#include "kernels/pjrt/client.hpp"
#include "kernels/pjrt/plugin_file.hpp"
#include "kernels/pjrt/replica.hpp"
#include "tests/unit/kernels/drawn_problem.hpp"

#include <boost/test/unit_test.hpp>
#include <linux/elf.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

using namespace troupe;
using namespace troupe::test;
using kernels::pjrt::Client;
using kernels::pjrt::compiler_name;
using kernels::pjrt::Plugin;
using kernels::pjrt::version_mistake;

BOOST_AUTO_TEST_SUITE(pjrt_plugin_test)

namespace {

/// A variable of the environment, for the stand-in, as long as this lives.
class Setting {
public:
  Setting(const char* name, const char* value) : name_(name) {
    setenv(name, value, 1);
  }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

private:
  const char* name_;
};

template <class Load>
void check_refused(const std::string& file, const std::string& why, Load load) {
  BOOST_CHECK_EXCEPTION(load(file), InputError, [&](const InputError& mistake) {
    const std::string text = mistake.what();
    BOOST_TEST_CONTEXT(text)
    BOOST_CHECK(text.find('\n') == std::string::npos);
    return text.starts_with("pjrt:" + file + ": ")
           && text.find(why) != std::string::npos;
  });
}

void check_refused(const std::string& file, const std::string& why) {
  check_refused(file, why, Client::of);
}

} // namespace

BOOST_AUTO_TEST_CASE(files_that_are_no_plugins_are_refused_by_name) {
  check_refused("/nowhere/libtpu.so", "there is no such file");
  check_refused("/tmp", "is no file");
  const auto file = (std::filesystem::temp_directory_path()
                     / ("no_library_" + std::to_string(getpid())))
                      .string();
  std::ofstream{file} << "text\n";
  check_refused(file, "is no shared library");
  // A header alone, of a machine's that is none.
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phentsize = sizeof(Elf64_Phdr);
  std::ofstream{file, std::ios::binary}.write(
    reinterpret_cast<const char*>(&header), sizeof header);
  check_refused(file, "has no function GetPjrtApi");
  std::filesystem::remove(file);
  check_refused(TROUPE_NO_PLUGIN, "has no function GetPjrtApi");
}

BOOST_AUTO_TEST_CASE(a_plugin_whose_end_is_missing_is_refused) {
  const auto file = (std::filesystem::temp_directory_path()
                     / ("half_a_plugin_" + std::to_string(getpid())))
                      .string();
  for (const auto cut : {4096u, 100u}) { // within its segments, its headers
    std::filesystem::copy_file(
      TROUPE_NO_PLUGIN, file,
      std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(file, cut);
    check_refused(file, "was cut short");
  }
  std::filesystem::remove(file);
}

BOOST_AUTO_TEST_CASE(who_compiles_otherwise_is_of_another_class) {
  const auto name = [](const char* platform) {
    return compiler_name(TROUPE_NO_PLUGIN, platform);
  };
  const auto plain = name("tpu");
  BOOST_TEST(plain.starts_with("plugin "));
  BOOST_TEST(name("cpu").starts_with(plain + ", processor "));
  BOOST_TEST(compiler_name(TROUPE_PJRT_STAND_IN, "tpu") != plain);
  {
    const Setting flags{"XLA_FLAGS", "--xla_cpu_max_isa=AVX2"};
    const auto other = name("tpu");
    BOOST_TEST(other.starts_with(plain + ", flags "));
    const Setting more{"LIBTPU_INIT_ARGS", "--some=1"};
    BOOST_TEST(name("tpu") != other);
  }
  const Setting flags{"XLA_FLAGS", "--xla_dump_to=/tmp/x "
                                   "--xla_force_host_platform_device_count=2"};
  BOOST_TEST(name("tpu") == plain);
}

BOOST_AUTO_TEST_CASE(versions_are_negotiated) {
  const size_t size = 40 + 71 * sizeof(void*);
  BOOST_CHECK(version_mistake({0, nullptr, 0, 33}, size).empty());
  BOOST_CHECK(version_mistake({0, nullptr, 0, 500}, 4 * size).empty());
  BOOST_CHECK(version_mistake({0, nullptr, 0, 32}, size).find("0.32")
              != std::string::npos);
  BOOST_CHECK(version_mistake({0, nullptr, 1, 40}, size).find("1.40")
              != std::string::npos);
  BOOST_CHECK(version_mistake({0, nullptr, 0, 33}, size - 1).find("too small")
              != std::string::npos);
  for (const auto* old : {"0.12", "1.0"}) {
    const Setting version{"STAND_IN_VERSION", old};
    check_refused(TROUPE_PJRT_STAND_IN, std::string{"speaks version "} + old,
                  Plugin::load);
  }
  {
    const Setting table{"STAND_IN_TABLE", "70"};
    check_refused(TROUPE_PJRT_STAND_IN, "too small", Plugin::load);
  }
  for (const auto* fine : {"0.33", "0.200"}) {
    const Setting version{"STAND_IN_VERSION", fine};
    const Setting table{"STAND_IN_TABLE", "120"};
    BOOST_CHECK_EQUAL(Plugin::load(TROUPE_PJRT_STAND_IN).version(), fine);
  }
}

BOOST_AUTO_TEST_CASE(a_client_is_one_as_long_as_somebody_has_it) {
  const auto client = Client::of(TROUPE_PJRT_STAND_IN);
  BOOST_CHECK(Client::of(TROUPE_PJRT_STAND_IN) == client);
  BOOST_CHECK_EQUAL(client->devices(), 2u);
  BOOST_CHECK_EQUAL(client->platform(), "interpreter");
  BOOST_CHECK_EQUAL(client->device_kind(1), "loops");
}

BOOST_AUTO_TEST_CASE(what_a_plugin_lacks_is_said_in_a_line) {
  {
    const Setting fails{"STAND_IN_FAILS", "client"};
    check_refused(TROUPE_PJRT_STAND_IN, "no chip is free");
  }
  const auto graph = make_graph("mlp:20-16-4");
  const auto says = [](const std::string& what) {
    return [what](const std::exception& failure) {
      const std::string text = failure.what();
      return text.find(what) != std::string::npos
             && text.find('\n') == std::string::npos;
    };
  };
  BOOST_CHECK_EXCEPTION(make_replica(graph,
                                     pjrt_device(TROUPE_PJRT_STAND_IN, 2), 3),
                        InputError, says("the plugin has 2 devices"));
  BOOST_CHECK_EXCEPTION(
    make_resident_replica(graph, pjrt_device(TROUPE_PJRT_STAND_IN, 0, 3), {},
                          3),
    InputError, says("the plugin has 2 devices"));
  DrawnProblem problem{graph, 3};
  Buffer gradient{problem.layout.total};
  const auto compute = [&] {
    make_replica(graph, pjrt_device(TROUPE_PJRT_STAND_IN, 0), 3)
      ->gradient(problem.parameters.data(), problem.batch, gradient.data());
  };
  {
    const Setting fails{"STAND_IN_FAILS", "compile"};
    BOOST_CHECK_EXCEPTION(compute(), std::runtime_error,
                          says("compiling: the program is too large"));
  }
  compute();
}

BOOST_AUTO_TEST_CASE(names_of_devices_are_those_of_the_command_line) {
  BOOST_CHECK_EQUAL(to_string(pjrt_device("a/b.so", 3)), "pjrt:a/b.so:3");
  BOOST_CHECK_EQUAL(to_string(pjrt_device("a/b.so", 0, 4)), "pjrt:a/b.so:0-3");
  BOOST_CHECK_EQUAL(pjrt_device("a", 0).file, pjrt_device("a", 1).file);
  const auto device = pjrt_device(TROUPE_PJRT_STAND_IN, 0);
  const auto compiler = compiler_name(TROUPE_PJRT_STAND_IN, "interpreter");
  BOOST_CHECK_EQUAL(numeric_class(device, Precision::float32),
                    "PJRT interpreter float32 (1, " + compiler + ")");
  BOOST_CHECK_EQUAL(numeric_class(device, Precision::bfloat16),
                    "PJRT interpreter bfloat16 (1, " + compiler + ")");
}

BOOST_AUTO_TEST_SUITE_END()
