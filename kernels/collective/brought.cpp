#include "kernels/collective/brought.hpp"

namespace troupe {

std::string member_name(uint32_t rank) {
  return "member " + std::to_string(rank);
}

std::string difference(const Brought& a, const Brought& b) {
  const auto says = [](const char* what, uint64_t one, uint64_t other) {
    return std::string(what) + " " + std::to_string(other) + " instead of "
           + std::to_string(one);
  };
  if (a.plain != b.plain)
    return b.plain != 0 ? "an all-reduce instead of a step"
                        : "a step instead of an all-reduce";
  if (a.step != b.step)
    return says("step", a.step, b.step);
  if (a.buckets != b.buckets)
    return says("a number of buckets of", a.buckets, b.buckets);
  if (a.elements != b.elements)
    return says("a number of elements of", a.elements, b.elements);
  if (a.layout != b.layout)
    return "another bucket layout";
  if (a.results != b.results)
    return says("a number of results of", a.results, b.results);
  if (a.updates != b.updates)
    return b.updates != 0 ? "an update" : "no update";
  if (a.program != b.program)
    return "another sum";
  return {};
}

} // namespace troupe
