#include "apps/process/run_display.hpp"

#include "actors/process/measure_text.hpp"
#include "apps/process/process_limits.hpp"

#include <cstdio>

namespace troupe {

RunEvents shown_on(Console& console, const Interrupt& interrupt,
                   uint64_t log_every) {
  RunEvents events;
  events.progress = [&console, log_every,
                     shown = uint64_t{0}](const Progress& x) mutable {
    const auto eta = x.steps_per_second > 0
                       ? static_cast<double>(x.total - x.step)
                           / x.steps_per_second
                       : -1.0;
    console.progress(x.step, x.total, x.loss, x.samples_per_second, eta);
    if (log_every > 0 && x.step / log_every > shown / log_every) {
      char line[160];
      std::snprintf(line, sizeof line,
                    "step %llu of %llu, loss %s, %.0f samples/s",
                    static_cast<unsigned long long>(x.step),
                    static_cast<unsigned long long>(x.total),
                    measure_text(x.loss).c_str(), x.samples_per_second);
      console.line(line);
      shown = x.step;
    }
  };
  events.epoch = [&console](const DataEpochEnd& x) {
    console.epoch(x.data_epoch, x.step, x.loss, x.samples_per_second,
                  x.evaluation);
  };
  events.note = [&console](const std::string& line) { console.line(line); };
  events.stop = [&interrupt] { return interrupt.reason(); };
  return events;
}

int conclude(Console& console, const RunResult& result) {
  console.done();
  if (result.status == 0)
    console.line(result.line);
  else
    std::fprintf(stderr, "troupe: %s\n", with_memory_told(result.line).c_str());
  return result.status;
}

} // namespace troupe
