#include "apps/bench/recovery_trials.hpp"

#include "actors/launch/job_runner.hpp"
#include "apps/settings/settings.hpp"
#include "kernels/base/error.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

using Words = std::vector<std::string>;

constexpr std::chrono::seconds deadline{60};
constexpr std::chrono::seconds end_deadline{600};
constexpr std::chrono::seconds stopped_for{10};
constexpr std::chrono::seconds settle{6};
constexpr milliseconds look_period{50};
constexpr uint64_t min_wait_ms = 200;
constexpr uint64_t max_wait_ms = 700;
constexpr int leave_ms = 5'000;
constexpr int interrupted = 130;

/// Small, so that a recovery is not hidden behind a step.
std::string small_model(const RecoveryKind& kind) {
  const bool in_layers = kind.role == RoleKind::stage
                         || kind.role == RoleKind::tensor;
  return in_layers ? "mlp:784-64-64-10" : "mlp:784-64-10";
}

Words training(const std::string& model) {
  return {"--data",    "synthetic:digits?samples=2000",
          "--model",   model,
          "--seed",    "1",
          "--epochs",  "0",
          "--devices", "cpu:1"};
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words arguments_of(const RecoveryKind& kind, const std::string& model,
                   const RunFolder& folder) {
  Words words = with({"train"}, training(model));
  words = with(words, {"--processes", "--steps", "1000000000", "--journal",
                       folder.file("journal.db"), "--summary",
                       folder.file("summary.json")});
  if (kind.standby)
    words.push_back("--standby");
  words.push_back("--strategy");
  std::istringstream layout{kind.layout};
  return with(words, {std::istream_iterator<std::string>{layout}, {}});
}

JobOptions options_of(const Words& arguments) {
  return parse_settings(arguments, surroundings_of_process()).job;
}

Plan plan_of(const Words& arguments) {
  const auto options = options_of(arguments);
  return Job{options, options.global_batch}.plan;
}

double unix_ms() {
  return std::chrono::duration<double, std::milli>(
           std::chrono::system_clock::now().time_since_epoch())
    .count();
}

/// Polls until it is so. Errors: InputError naming what was waited for.
template <class Condition>
void await(Condition condition, Clock::duration limit,
           const std::string& what) {
  const auto end = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() > end)
      throw InputError("bench recovery: not in time: " + what);
    std::this_thread::sleep_for(look_period);
  }
}

/// The weights of that many steps on one device, nobody disturbing them.
std::string undisturbed_sha256(const RecoveryKind& kind, uint64_t steps,
                               uint32_t slices) {
  RunOptions run;
  run.job = options_of(
    with(with({"train"}, training(small_model(kind))),
         {"--strategy", "one_device", "--steps", std::to_string(steps),
          "--virtual-slices", std::to_string(slices)}));
  const auto result = run_in_process(run, load_job_data(run.job));
  if (result.status != 0)
    throw InputError(result.line);
  return nlohmann::json::parse(result.summary).at("weights_sha256");
}

} // namespace

RecoveryTrials::RecoveryTrials(const RecoveryKind& kind, uint64_t seed,
                               Interrupt& interrupt, const std::string& model)
  : kind_(kind),
    computes_(model.empty()),
    arguments_(
      arguments_of(kind, model.empty() ? small_model(kind) : model, folder_)),
    plan_(plan_of(arguments_)),
    journal_(folder_.file("journal.db"), plan_),
    job_(arguments_),
    processes_(job_.launcher()),
    random_(seed) {
  interrupt.removes(folder_.path());
  look_until_whole();
  std::this_thread::sleep_for(settle); // until silence is judged as ever
}

void RecoveryTrials::look_until_whole() {
  await(
    [this] {
      journal_.read();
      return journal_.whole() && journal_.steps() > 0;
    },
    deadline, "all roles of the job take part");
  processes_.look();
}

const HeldProcess& RecoveryTrials::draw_victim(std::string& role) {
  role = "coordinator";
  if (kind_.role != RoleKind::coordinator) {
    const auto roles = plan_.of_kind(kind_.role);
    role = to_string(roles[random_() % roles.size()].role);
  }
  const auto* process = kind_.standby
                          ? processes_.listening_at(journal_.coordinator())
                          : processes_.playing(role);
  if (!process)
    throw InputError("bench recovery: " + role + " has no process");
  return *process;
}

RecoveryTrials::Pace RecoveryTrials::pace_until(Clock::time_point end) {
  const auto steps = journal_.steps();
  const auto from_ms = journal_.steps_ms();
  std::this_thread::sleep_until(end);
  journal_.read();
  return {static_cast<double>(journal_.steps() - steps),
          static_cast<double>(journal_.steps_ms() - from_ms) / 1e3};
}

double RecoveryTrials::undisturbed(milliseconds period) {
  look_until_whole();
  return pace_until(Clock::now() + period).steps_a_second();
}

/// The kill comes early enough that the period has all of what follows.
RecoveryTrials::StruckPeriod RecoveryTrials::struck(milliseconds period) {
  look_until_whole();
  const auto begin = Clock::now();
  const auto most = static_cast<uint64_t>(period.count()) / 2;
  const auto before = pace_until(begin + milliseconds{random_() % (most + 1)});
  std::string role;
  draw_victim(role).signal(kind_.stops ? SIGSTOP : SIGKILL);
  const auto around = pace_until(Clock::now() + period / 4);
  const auto after = pace_until(begin + period);
  const Pace usual{before.steps + after.steps, before.seconds + after.seconds};
  const Pace all{usual.steps + around.steps, usual.seconds + around.seconds};
  const auto rate = usual.steps_a_second();
  return {all.steps_a_second(),
          rate > 0 ? around.seconds - around.steps / rate : around.seconds};
}

double RecoveryTrials::strike() {
  const auto wait_ms = min_wait_ms
                       + random_() % (max_wait_ms - min_wait_ms + 1);
  std::this_thread::sleep_for(milliseconds{wait_ms});
  std::string role;
  const auto* process = &draw_victim(role);
  const auto from = unix_ms();
  const auto begin = Clock::now();
  if (!process->signal(kind_.stops ? SIGSTOP : SIGKILL))
    throw InputError("bench recovery: " + role + " has ended by itself");
  std::optional<FollowedJournal::Recovery> recovery;
  await(
    [&] {
      journal_.read();
      recovery = journal_.recovery_of(role, static_cast<uint64_t>(from));
      return recovery.has_value();
    },
    deadline, "a step without " + role);
  if (kind_.stops) { // its supervisor may have killed it by then
    while (!process->ended(static_cast<int>(look_period.count()))
           && Clock::now() - begin < stopped_for) {
    }
    process->signal(SIGCONT);
    if (!process->ended(leave_ms))
      throw InputError("bench recovery: " + role
                       + " woke, was replaced, and did not end");
  }
  look_until_whole();
  return static_cast<double>(recovery->resumed_ms) - from;
}

uint64_t RecoveryTrials::finish() {
  processes_.look();
  job_.interrupt();
  job_.finish(end_deadline, interrupted);
  if (const auto left = processes_.left(leave_ms); !left.empty())
    throw InputError("bench recovery: the run is over, " + left.front()
                     + " is not");
  std::ifstream file{folder_.file("summary.json")};
  const auto summary = nlohmann::json::parse(file);
  if (summary.at("steps_rolled_back") != 0)
    throw InputError("bench recovery: steps were rolled back");
  const auto slices = options_of(arguments_).cut.virtual_slices;
  if (computes_
      && summary.at("weights_sha256")
           != undisturbed_sha256(kind_, summary.at("steps"), slices))
    throw InputError("bench recovery: the weights are not those of one device: "
                     "nothing is measured");
  return summary.at("leaves_recomputed");
}

} // namespace troupe
