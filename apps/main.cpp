#include "actors/launch/role_host.hpp"
#include "actors/process/child_processes.hpp"
#include "actors/process/stop_status.hpp"
#include "apps/process/process_limits.hpp"
#include "apps/settings/commands.hpp"
#include "apps/settings/help.hpp"
#include "apps/terminal/interrupt.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/shown_text.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <system_error>

namespace {

using namespace troupe;

int dispatch(const Settings& settings) {
  const auto& command = settings.command;
  if (settings.print_config) {
    std::fputs(to_toml(settings, TomlPart::given).c_str(), stdout);
    return 0;
  }
  if (command == "help") {
    std::fputs(help(settings.topic).c_str(), stdout);
    return 0;
  }
  if (command == "train")
    return run_train(settings);
  if (command == "plan")
    return run_plan(settings);
  if (command == "evaluate")
    return run_evaluate(settings);
  if (command == "predict")
    return run_predict(settings);
  if (command == "generate")
    return run_generate(settings);
  if (command == "role")
    return run_role(settings);
  if (command == "voter")
    return run_voter(settings);
  if (command == "bench step")
    return run_bench_step(settings);
  if (command == "bench data")
    return run_bench_data(settings);
  if (command == "bench kernels")
    return run_bench_kernels(settings);
  if (command == "bench all-reduce")
    return run_bench_all_reduce(settings);
  if (command == "bench null-step")
    return run_bench_null_step(settings);
  if (command == "bench parameter-server")
    return run_bench_parameter_server(settings);
  if (command == "bench pipeline")
    return run_bench_pipeline(settings);
  if (command == "bench recovery")
    return run_bench_recovery(settings);
  if (command == "bench goodput")
    return run_bench_goodput(settings);
  if (command.starts_with("checkpoint "))
    return run_checkpoint(settings);
  if (command == "chaos")
    return run_chaos(settings);
  if (command == "status")
    return run_status(settings);
  if (command == "launch")
    return run_launch(settings);
  if (command == "node")
    return run_node(settings);
  if (command == "top")
    return run_top(settings);
  if (command == "doctor")
    return run_doctor(settings);
  if (command == "timeline")
    return run_timeline(settings);
  if (command == "report")
    return run_report_of(settings);
  if (command == "events")
    return run_events(settings);
  if (command == "ctl consistency")
    return run_ctl_consistency(settings);
  if (command.starts_with("ctl "))
    return run_ctl_reshape(settings);
  if (command.starts_with("certificates "))
    return run_certificates(settings);
  if (command == "model show")
    return run_model_show(settings);
  if (command == "data info")
    return run_data_info(settings);
  return run_version(settings);
}

/// Connections and files of a large job: a thousand roles have as many. Roles
/// that are started from here inherit it.
void raise_descriptor_limit() {
  constexpr rlim_t enough = rlim_t{1} << 20;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  const auto wanted = std::min(limit.rlim_max, enough);
  if (limit.rlim_cur >= wanted)
    return;
  limit.rlim_cur = wanted;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/// Prints the one line that a failure gets, whatever its text holds.
int fail(const std::string& what, int status) {
  const auto line = shown_text(what);
  std::fflush(stdout);
  std::fprintf(stderr, "troupe: %s\n", line.c_str());
  return status;
}

/// A standard stream that is closed would be the next file that is opened.
/// Whose answer is what it prints fails, as it does on a full disk.
void fill_standard_streams(bool answers) {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0)
      continue;
    if (stream == STDOUT_FILENO && answers && open("/dev/full", O_WRONLY) >= 0)
      continue;
    if (open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0)
      return; // nor would anything else be opened
  }
}

/// Whether what is being ended for is a lack of memory, or of what takes some.
/// Without an exception at hand: one is on its way, and what it passes cannot
/// be left so.
bool lacks_memory() {
  const auto why = std::current_exception();
  if (!why)
    return std::uncaught_exceptions() > 0;
  try {
    std::rethrow_exception(why);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::system_error& failure) {
    return failure.code() == std::errc::resource_unavailable_try_again
           || failure.code() == std::errc::not_enough_memory;
  } catch (...) {
    return false;
  }
}

std::string line_without_memory; ///< made while there is some
std::terminate_handler usual_end = nullptr;

/// What has too little memory may end in the midst of something: with a line
/// all the same.
[[noreturn]] void end_without_memory() {
  if (!lacks_memory())
    usual_end();
  const auto& line = line_without_memory;
  [[maybe_unused]] const auto done = write(STDERR_FILENO, line.data(),
                                           line.size());
  _exit(1);
}

/// What a process of this program is like, whoever started it, and how.
void settle_in(bool answers) {
  fill_standard_streams(answers);
  // One that was started from an open file would be called by its descriptor.
  prctl(PR_SET_NAME, "troupe");
  // A file that grows beyond ulimit -f is an error of that file.
  std::signal(SIGXFSZ, SIG_IGN);
  // Where it is ignored, the system buries children before anybody has seen how
  // they ended; and a program inherits that.
  std::signal(SIGCHLD, SIG_DFL);
  if (spare_address_space()) {
    line_without_memory = "troupe: " + out_of_memory() + '\n';
    usual_end = std::set_terminate(end_without_memory);
  }
}

/// The first process of a container is given those whose parents have ended.
/// A launcher reaps them beside its roles; who starts children of other kinds
/// (chaos, bench) is not asked to.
bool adopts(const Settings& settings) {
  const auto& command = settings.command;
  return getpid() == 1
         && (command == "role" || command == "voter" || command == "evaluate"
             || command == "predict" || command == "generate"
             || (command == "train" && !settings.job.processes));
}

/// Whether it watches for signals, and ends in good order.
bool watches(const char* command) {
  for (const auto* one : {"train", "role", "voter", "launch", "node"})
    if (std::strcmp(command, one) == 0)
      return true;
  return false;
}

/// Runs before the libraries' own initialisers, which take most of the time
/// that there is before main.
void hold_first(int argc, char** argv, char**) {
  if (argc > 1 && watches(argv[1]))
    hold_signals();
}

} // namespace

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const at_first)(int, char**, char**) = hold_first;

int main(int argc, char** argv) {
  const bool answers = argc < 2 || !watches(argv[1]);
  if (answers)
    let_signals_go();
  settle_in(answers);
  raise_descriptor_limit();
  try {
    std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    auto settings = parse_settings(arguments, surroundings_of_process());
    // What it said is in the settings; a role started from here must not
    // read it again, over what the flags decided.
    unsetenv("TF_CONFIG");
    std::optional<ChildProcesses> adopted;
    if (adopts(settings))
      adopted.emplace(ChildProcesses::Options{-1, true});
    auto status = dispatch(settings);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      return fail("standard output: cannot be written to", 1);
    return status;
  } catch (const UsageError& mistake) {
    return fail(mistake.what(), 2);
  } catch (const BadInputError& failure) {
    return fail(failure.what(), bad_input_status);
  } catch (const std::bad_alloc&) {
    return fail(out_of_memory(), 1);
  } catch (const std::exception& failure) {
    return fail(with_memory_told(failure.what()), 1);
  }
}
