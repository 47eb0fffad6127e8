#include "kernels/collective/shared_sum.hpp"

#include "kernels/collective/sum_loops.hpp"
#include "kernels/collective/sum_program.hpp"

#include <algorithm>
#include <cstring>

namespace troupe {

namespace {

/// Elements that `update` gets at a time: sum and results stay in the nearest
/// cache. 1 MiB with three results takes 158, 148, 153 and 155 µs with 1,024,
/// 2,048, 4,096 and 8,192; 4 MiB with one 244, 203, 239 and 373.
constexpr uint64_t update_elements = 2'048;
/// Arrays of this size on are written past the caches for the other members,
/// unless they have just been read as terms. Lines that another core holds may
/// come slowly when they are to be written: two members, results beside the
/// vectors, 1 MiB, took 307 µs through the caches and 54 past them; with cores
/// nearer to each other, on the same machine an hour later, 27 and 39. At
/// 256 KiB and from 16 MiB on past them is faster on both. Trying both ways now
/// and then misleads: each leaves the lines where the other finds them cheap.
constexpr uint64_t past_cache_bytes = 16 << 10;

} // namespace

SharedSum::SharedSum() : scratch_(update_elements) {}

void SharedSum::set_program(const SumProgram& wanted) {
  if (!merges_.empty() && wanted == program)
    return;
  program = wanted;
  program_hash = hash_of(program);
  merges_.clear();
  for (const auto& term : program)
    merges_.push_back(term.merges);
}

std::string
SharedSum::locate(const std::vector<const Brought*>& brought, uint32_t rank,
                  const std::vector<std::span<std::byte>>& segments) {
  const auto bytes = brought[rank]->elements * sizeof(float);
  std::string wrong;
  const auto at = [&](uint32_t member, uint64_t offset) {
    const auto segment = segments[member];
    if (segment.data() != nullptr
        && (offset % 64 != 0 || offset > segment.size()
            || bytes > segment.size() - offset))
      wrong = member_name(member) + " brought an array outside its segment";
    return reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(segment.data())
                                    + offset);
  };
  terms.clear();
  for (const auto& term : program) {
    const auto& other = *brought[term.member];
    if (term.vector >= std::min(other.vectors, Brought::max_vectors))
      return member_name(term.member) + " brought "
             + std::to_string(other.vectors)
             + " vectors, fewer than are summed";
    terms.push_back(at(term.member, other.vector_at[term.vector]));
  }
  outs.clear();
  copies.clear();
  const auto& own = *brought[rank];
  // Members of one process may share their results.
  for (uint32_t k = 0; k < own.results; ++k) {
    auto* from = at(rank, own.result_at[k]);
    if (k == 0)
      outs.push_back(from);
    for (uint32_t i = 0; i < brought.size(); ++i)
      if (auto* to = at(i, brought[i]->result_at[k]); to != from) {
        if (k == 0)
          outs.push_back(to);
        copies.push_back({from, to});
      }
  }
  past_cache =
    bytes >= past_cache_bytes
    && (update
        || std::find(terms.begin(), terms.end(), outs[0]) == terms.end());
  return wrong;
}

void SharedSum::sum(uint64_t begin, uint64_t end) {
  if (update)
    return sum_and_update(begin, end);
  if (terms.size() == 1 && outs.size() == 1 && outs[0] == terms[0])
    return;
  const auto& loops = kernels::sum_loops();
  const auto run = past_cache ? loops.sum_past_cache : loops.sum;
  run({terms.data(), merges_.data(), static_cast<uint32_t>(terms.size())},
      begin, end, outs.data(), static_cast<uint32_t>(outs.size()));
}

void SharedSum::sum_and_update(uint64_t begin, uint64_t end) {
  const auto& loops = kernels::sum_loops();
  const auto count = static_cast<uint32_t>(terms.size());
  for (uint64_t at = begin; at < end;) {
    const auto stop = std::min(end, at + update_elements);
    // A sum of one term is there already.
    const float* sum = terms[0] + at;
    if (count > 1) {
      float* out = scratch_.data() - at;
      loops.sum({terms.data(), merges_.data(), count}, at, stop, &out, 1);
      sum = scratch_.data();
    }
    update(at, stop, sum);
    for (auto [from, to] : copies)
      if (past_cache)
        loops.copy_past_cache(from + at, to + at, stop - at);
      else
        std::memcpy(to + at, from + at, (stop - at) * sizeof(float));
    at = stop;
  }
}

} // namespace troupe
