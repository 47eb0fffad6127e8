#include "kernels/base/error.hpp"
#include "kernels/collective/sum_program.hpp"
#include "shared_group.hpp"

#include <boost/test/unit_test.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

using namespace troupe;
using namespace troupe::shared_group;

BOOST_AUTO_TEST_SUITE(shared_segment)

namespace {

constexpr size_t count = 100'003;
constexpr int right = 0, wrong = 1, aborted = 2, late = 3;

/// What the processes of a group map.
struct Segments {
  explicit Segments(uint32_t members)
    : control(SharedReducer::control_bytes(members)) {
    SharedReducer::prepare(
      control.allocate_bytes(SharedReducer::control_bytes(members)), members);
    for (uint32_t i = 0; i < members; ++i)
      of_member.emplace_back(4 * (count + 64) * sizeof(float));
  }

  SharedSegment control;
  std::vector<SharedSegment> of_member;
};

/// One process's view: everything mapped anew from its descriptors, elsewhere
/// than in the process that made it.
struct View {
  explicit View(const Segments& segments)
    : control(SharedSegment::adopt(dup(segments.control.descriptor()))) {
    for (const auto& segment : segments.of_member) {
      of_member.push_back(SharedSegment::adopt(dup(segment.descriptor())));
      spans.push_back(of_member.back().span());
    }
  }

  float* array(uint32_t member, size_t index) {
    return reinterpret_cast<float*>(spans[member].data())
           + index * ((count + 63) / 64 * 64);
  }

  SharedSegment control;
  std::vector<SharedSegment> of_member;
  std::vector<std::span<std::byte>> spans;
};

int status_of(const CollectiveResult& result) {
  switch (result.end) {
    case CollectiveEnd::done:
      return right;
    case CollectiveEnd::aborted:
      return aborted;
    case CollectiveEnd::late:
      return late;
    case CollectiveEnd::mismatch:
      return wrong;
  }
  return wrong;
}

/// Starts a process for each rank; it ends with the status of `body`.
std::vector<pid_t>
in_processes(const Segments& segments, uint32_t members,
             const std::function<int(View&, uint32_t)>& body) {
  std::vector<pid_t> children;
  for (uint32_t rank = 0; rank < members; ++rank) {
    const auto child = fork();
    BOOST_REQUIRE(child >= 0);
    if (child == 0) {
      alarm(60);
      View view(segments);
      _exit(body(view, rank));
    }
    children.push_back(child);
  }
  return children;
}

int waited_for(pid_t child) {
  int status = 0;
  BOOST_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int sum_many_times(View& view, uint32_t rank, uint32_t members) {
  SharedReducer reducer(view.control.data(),
                        {rank, members, {{40'000, count}, {0, 40'000}}, 1},
                        view.spans);
  const auto program = fixed_tree(members);
  for (uint64_t round = 0; round < 30; ++round) {
    auto* data = view.array(rank, round % 3);
    const size_t length = round % 3 == 0 ? 1'000 : count;
    for (size_t i = 0; i < length; ++i)
      data[i] = value_of(rank, 0, i, round);
    CollectiveResult ended;
    if (round % 3 == 2) {
      reducer.start({round, program, {data}, {view.array(rank, 3)}, {}});
      reducer.ready(0);
      reducer.ready(1);
      ended = reducer.finish(soon());
      data = view.array(rank, 3);
    } else {
      ended = reducer.all_reduce(data, length, soon());
    }
    if (ended.end != CollectiveEnd::done)
      return status_of(ended);
    for (size_t i = 0; i < length; i += 1 + i / 50)
      if (data[i] != sum_of(program, [&](uint32_t m, uint32_t) {
            return value_of(m, 0, i, round);
          }))
        return wrong;
  }
  return right;
}

} // namespace

BOOST_AUTO_TEST_CASE(a_segment_is_sealed_zero_and_seen_by_who_adopts_it) {
  SharedSegment made(10'000);
  BOOST_TEST(made.bytes() >= 10'000u);
  BOOST_TEST(ftruncate(made.descriptor(), 5) != 0);
  BOOST_TEST(ftruncate(made.descriptor(), 1 << 20) != 0);
  BOOST_TEST(fcntl(made.descriptor(), F_GETFD) == FD_CLOEXEC);
  auto* values = made.allocate(7);
  auto* more = made.allocate(1);
  BOOST_TEST(reinterpret_cast<uintptr_t>(values) % 64 == 0u);
  BOOST_TEST(reinterpret_cast<uintptr_t>(more) % 64 == 0u);
  BOOST_TEST(more >= values + 7);
  BOOST_TEST(values[6] == 0);
  auto adopted = SharedSegment::adopt(dup(made.descriptor()));
  BOOST_REQUIRE_EQUAL(adopted.bytes(), made.bytes());
  values[6] = 5;
  const auto offset = reinterpret_cast<std::byte*>(values) - made.data();
  BOOST_TEST(reinterpret_cast<float*>(adopted.data() + offset)[6] == 5);
}

BOOST_AUTO_TEST_CASE(a_full_segment_and_impossible_sizes_are_refused) {
  SharedSegment made(4096);
  BOOST_CHECK_THROW(made.allocate(1025), InputError);
  BOOST_CHECK_THROW(made.allocate(SIZE_MAX / 2), InputError);
  made.allocate(1024);
  BOOST_CHECK_THROW(made.allocate(1), InputError);
  BOOST_CHECK_THROW(SharedSegment(0), InputError);
  BOOST_CHECK_THROW(SharedSegment(SharedSegment::max_bytes + 1), InputError);
}

BOOST_AUTO_TEST_CASE(descriptors_that_could_pull_pages_away_are_refused) {
  const auto before = held();
  BOOST_CHECK_THROW(SharedSegment::adopt(-1), InputError);
  BOOST_CHECK_THROW(SharedSegment::adopt(open("/dev/null", O_RDWR)),
                    InputError);
  for (int seals : {0, F_SEAL_GROW, F_SEAL_SHRINK,
                    F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE}) {
    const int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    BOOST_REQUIRE_EQUAL(ftruncate(file, 4096), 0);
    BOOST_REQUIRE_EQUAL(fcntl(file, F_ADD_SEALS, seals), 0);
    BOOST_CHECK_THROW(SharedSegment::adopt(file), InputError);
  }
  const int empty = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  BOOST_REQUIRE_EQUAL(fcntl(empty, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK),
                      0);
  BOOST_CHECK_THROW(SharedSegment::adopt(empty), InputError);
  BOOST_TEST(held().descriptors == before.descriptors); // taken over
}

BOOST_AUTO_TEST_CASE(processes_sum_over_one_anothers_segments) {
  for (uint32_t members : {1u, 2u, 3u, 5u}) {
    const Segments segments(members);
    for (auto child : in_processes(segments, members, [&](auto&view, auto r) {
           return sum_many_times(view, r, members);
         }))
      BOOST_TEST(waited_for(child) == right);
  }
}

BOOST_AUTO_TEST_CASE(a_process_killed_inside_a_sum_ends_the_others) {
  const Segments segments(3);
  const auto children = in_processes(segments, 3, [](auto& view, auto rank) {
    SharedReducer reducer(view.control.data(), {rank, 3, {{0, count}}, 1},
                          view.spans);
    for (uint64_t round = 0;; ++round) {
      reducer.start({round,
                     fixed_tree(3),
                     {view.array(rank, 0)},
                     {view.array(rank, 1)},
                     [&](auto, auto, auto) {
                       if (rank == 1 && round >= 5)
                         raise(SIGKILL);
                     }});
      reducer.ready(0);
      if (const auto ended = reducer.finish(soon());
          ended.end != CollectiveEnd::done)
        return ended.reason.starts_with("member 1 died") ? status_of(ended)
                                                         : wrong;
    }
  });
  BOOST_TEST(waited_for(children[1]) == -SIGKILL);
  // As its actor does when it hears of it.
  View view(segments);
  SharedReducer(view.control.data(), {1, 3, {}, 1}, view.spans)
    .abort("member 1 died");
  BOOST_TEST(waited_for(children[0]) == aborted);
  BOOST_TEST(waited_for(children[2]) == aborted);
}

BOOST_AUTO_TEST_CASE(a_death_that_nobody_tells_of_ends_all_at_the_deadline) {
  const Segments segments(3);
  const auto children = in_processes(segments, 3, [](auto& view, auto rank) {
    SharedReducer reducer(view.control.data(), {rank, 3, {}, 1}, view.spans);
    if (rank == 2)
      raise(SIGKILL);
    const auto deadline = Clock::now() + std::chrono::milliseconds{100};
    return status_of(reducer.all_reduce(view.array(rank, 0), count, deadline));
  });
  BOOST_TEST(waited_for(children[0]) == late);
  BOOST_TEST(waited_for(children[1]) == late);
  BOOST_TEST(waited_for(children[2]) == -SIGKILL);
}

BOOST_AUTO_TEST_CASE(an_array_outside_the_segment_is_a_mismatch) {
  const Segments segments(2);
  View view(segments);
  CollectiveResult ends[2];
  Buffer outside(count);
  in_threads(2, [&](uint32_t rank) {
    SharedReducer reducer(view.control.data(), {rank, 2, {}, 1}, view.spans);
    auto* data = rank == 0 ? view.array(0, 0) : outside.data();
    ends[rank] = reducer.all_reduce(data, count, soon());
  });
  for (const auto& end : ends) {
    BOOST_TEST((end.end == CollectiveEnd::mismatch));
    BOOST_TEST(end.reason == "member 1 brought an array outside its segment");
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_held_afterwards) {
  const auto before = held();
  for (int again = 0; again < 3; ++again) {
    Segments segments(2);
    View view(segments);
    SharedReducer first(view.control.data(), {0, 2, {}, 1}, view.spans);
    SharedReducer second(view.control.data(), {1, 2, {}, 1}, view.spans);
    first.abort("done with it");
    BOOST_TEST((second.all_reduce(view.array(1, 0), count, soon()).end
                == CollectiveEnd::aborted));
    SharedSegment moved(4096);
    moved = SharedSegment(8192);
    BOOST_TEST(held().descriptors > before.descriptors);
    BOOST_TEST(held().mappings > before.mappings);
  }
  BOOST_TEST(held().descriptors == before.descriptors);
  BOOST_TEST(held().mappings == before.mappings);
}

BOOST_AUTO_TEST_SUITE_END()
