#include "apps/tensorboard/event_log.hpp"

#include "actors/process/unix_time.hpp"
#include "apps/tensorboard/events.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/file_error.hpp"
#include "kernels/files/output_trial.hpp"
#include "kernels/records/tfrecord.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <filesystem>
#include <utility>

namespace troupe {
namespace {

/// TensorBoard takes files whose name has "tfevents", and reads those of one
/// folder in the order of their names.
std::string file_name(double time) {
  char host[HOST_NAME_MAX + 1] = {};
  ::gethostname(host, sizeof host - 1);
  return "events.out.tfevents." + std::to_string(static_cast<int64_t>(time))
         + '.' + host + '.' + std::to_string(::getpid());
}

/// Whether no folder has the file any more: what is written goes nowhere.
bool is_removed(int handle) {
  struct stat about {};
  return ::fstat(handle, &about) == 0 && about.st_nlink == 0;
}

} // namespace

EventLog::EventLog(const std::string& folder, const Subject& subject)
  : lr_(subject.lr), spreads_(subject.graph) {
  const auto time = unix_seconds();
  path_ = folder + '/' + file_name(time);
  try {
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    try_output_folder(folder, 0);
    handle_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                     0666);
    if (handle_ < 0)
      throw InputError(path_ + ": " + reason_of(errno));
  } catch (const InputError& failure) {
    throw InputError(std::string{"--tensorboard "} + failure.what());
  }
  write(tensorboard::version_event(time));
  write(tensorboard::graph_event(time, subject.graph));
  write(tensorboard::begin_event(time, subject.parameters));
}

EventLog::~EventLog() {
  ::close(handle_);
}

void EventLog::attach(RunEvents& events) {
  note_ = events.note;
  events.progress = [this, next = std::move(events.progress)](const auto& x) {
    show(x);
    if (next)
      next(x);
  };
  events.spreads = [this](const auto& x) { show(x); };
  events.epoch = [this, next = std::move(events.epoch)](const auto& x) {
    show(x);
    if (next)
      next(x);
  };
}

void EventLog::show(const Spreads& spreads) {
  const auto whole = spreads_.add(spreads);
  if (!whole)
    return;
  std::vector<tensorboard::NamedSpread> named{
    {"weights/" + whole->name, whole->values}};
  if (whole->trained)
    named.push_back({"gradients/" + whole->name, whole->gradient});
  write_at(whole->step,
           tensorboard::histogram_event(unix_seconds(), whole->step, named));
}

void EventLog::end(bool success) {
  using tensorboard::End;
  write(tensorboard::end_event(unix_seconds(),
                               success ? End::success : End::failure));
}

void EventLog::show(const Progress& progress) {
  lr_.total_steps = progress.total;
  std::vector<tensorboard::Scalar> scalars{
    {"samples_per_second", progress.samples_per_second},
    {"steps_per_second", progress.steps_per_second}};
  if (std::isfinite(progress.loss)) // it is known
    scalars.push_back({"loss", progress.loss});
  if (progress.step > 0)
    scalars.push_back({"learning_rate", learning_rate(lr_, progress.step - 1)});
  write_at(progress.step,
           tensorboard::scalar_event(unix_seconds(), progress.step, scalars));
}

void EventLog::show(const DataEpochEnd& epoch) {
  std::vector<tensorboard::Scalar> scalars;
  if (std::isfinite(epoch.loss))
    scalars.push_back({"epoch_loss", epoch.loss});
  for (const auto& measure : epoch.evaluation)
    scalars.push_back({"evaluation/" + measure.name, measure.value});
  write_at(epoch.step,
           tensorboard::scalar_event(unix_seconds(), epoch.step, scalars));
}

/// The first step says from where on an earlier run's are gone.
void EventLog::write_at(uint64_t step, const std::string& event) {
  if (!std::exchange(started_, true))
    write(tensorboard::start_event(unix_seconds(), step));
  write(event);
}

/// A picture that cannot be drawn costs the picture, never the run.
void EventLog::write(const std::string& event) {
  std::string record;
  append_tfrecord(event, record);
  const auto done = ::write(handle_, record.data(), record.size());
  if (done != static_cast<ssize_t>(record.size()))
    fail("cannot be written (" + reason_of(done < 0 ? errno : ENOSPC) + ')');
  else if (is_removed(handle_))
    fail("was removed");
}

void EventLog::fail(const std::string& how) {
  if (std::exchange(failed_, true) || !note_)
    return;
  note_("tensorboard " + path_ + ": " + how + "; the run goes on without it");
}

} // namespace troupe
