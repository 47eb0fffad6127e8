#include "actors/job/update_watch.hpp"

#include <utility>

namespace troupe {

void UpdateWatch::tell(Tell tell) {
  const std::lock_guard guard{lock_};
  tell_ = std::move(tell);
}

void UpdateWatch::saw(const Slice& slice, uint64_t begin, uint64_t step,
                      const UpdateArgs& args) const {
  Tell tell;
  {
    const std::lock_guard guard{lock_};
    tell = tell_;
  }
  if (!tell)
    return;
  Spreads out;
  out.step = step + 1;
  out.variable = slice.variable;
  out.begin = slice.offset + begin;
  out.elements = args.count;
  out.values = spread_of(args.out, args.count);
  out.gradient = spread_of(args.gradient_sum, args.count, 1 / args.samples);
  tell(out);
}

} // namespace troupe
