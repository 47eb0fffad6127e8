#include "actors/collectives/stream_reducer.hpp"
#include "kernels/collective/sum_program.hpp"
#include "strategies/collective_schedule.hpp"
#include "tests/unit/actors/collectives/loopback.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <numeric>

using namespace troupe;
using namespace troupe::test;

BOOST_AUTO_TEST_SUITE(stream_reducer_suite)

namespace {

using Buckets = std::vector<std::pair<uint64_t, uint64_t>>;

/// Element i of a vector of a member: of all sizes, so that sums in another
/// order have other bits.
float element(uint32_t member, uint32_t vector, uint64_t i) {
  const auto mixed = (i + 1) * 2654435761u + member * 40503u + vector * 977u;
  const auto size = static_cast<float>(mixed % 1999) - 999;
  return std::ldexp(size, static_cast<int>(mixed / 7 % 16) - 8);
}

std::vector<float> vector_of(uint32_t member, uint32_t vector, uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i)
    values[i] = element(member, vector, i);
  return values;
}

/// The plain reference: term by term, element by element.
std::vector<float> sum_of(const SumProgram& program, uint64_t count) {
  std::vector<float> sums(count);
  for (uint64_t i = 0; i < count; ++i) {
    std::vector<float> stack;
    for (const auto& term : program) {
      stack.push_back(element(term.member, term.vector, i));
      for (uint32_t k = 0; k < term.merges; ++k) {
        const auto right = stack.back();
        stack.pop_back();
        stack.back() += right;
      }
    }
    sums[i] = stack.at(0);
  }
  return sums;
}

Buckets cut(uint64_t count, uint32_t buckets) {
  Buckets cuts;
  for (uint32_t b = 0; b < buckets; ++b)
    cuts.push_back(run_of(count, b, buckets));
  return cuts;
}

struct Case {
  uint32_t members = 2;
  uint64_t count = 1000;
  uint32_t buckets = 1;
  uint32_t steps = 1;
  StreamOptions options;
  SumProgram program;   ///< empty: vector 0 of all
  uint32_t vectors = 1; ///< of each member
  bool keeps_vectors = false;
  enum { sum, update_all, share } mode = sum;
};

/// StreamOptions::hosts with a host for each member.
std::vector<std::vector<uint32_t>> each_alone(uint32_t members) {
  std::vector<std::vector<uint32_t>> hosts;
  for (uint32_t rank = 0; rank < members; ++rank)
    hosts.push_back({rank});
  return hosts;
}

/// Runs the case's steps; what each member's results hold after the last.
std::vector<std::vector<float>> run(Case at) {
  if (at.program.empty())
    at.program = fixed_tree(at.members);
  at.options.share_update = at.mode == Case::share;
  auto mesh = full_mesh(at.members);
  std::vector<std::vector<float>> results(at.members);
  std::vector<CollectiveResult> ends(at.members);
  at_once(at.members, [&](uint32_t rank) {
    StreamReducer reducer{{rank, at.members, cut(at.count, at.buckets), 7},
                          std::move(mesh[rank]),
                          at.options};
    for (uint32_t step = 0; step < at.steps; ++step) {
      std::vector<std::vector<float>> vectors;
      for (uint32_t v = 0; v < at.vectors; ++v)
        vectors.push_back(vector_of(rank, v, at.count));
      auto& out = results[rank];
      out.assign(at.count, -1);
      std::vector<float> second(at.count, -1);
      ReduceStep work;
      work.step = step;
      work.program = at.program;
      work.keeps_vectors = at.keeps_vectors;
      for (auto& vector : vectors)
        work.vectors.push_back(vector.data());
      work.results = {out.data()};
      if (at.mode != Case::sum) {
        work.results.push_back(second.data());
        work.update = [&](uint64_t begin, uint64_t end, const float* sums) {
          for (auto i = begin; i < end; ++i) {
            out[i] = sums[i - begin];
            second[i] = 2 * sums[i - begin];
          }
        };
      }
      reducer.start(work);
      for (uint32_t b = 0; b < at.buckets; ++b) {
        reducer.ready(b);
        reducer.progress();
      }
      ends[rank] = reducer.finish(in_a_while());
      if (at.mode != Case::sum)
        for (uint64_t i = 0; i < at.count; ++i)
          if (second[i] != 2 * out[i])
            ends[rank].reason = "the second result is wrong";
      for (uint32_t v = 0; at.keeps_vectors && v < at.vectors; ++v)
        if (vectors[v] != vector_of(rank, v, at.count))
          ends[rank].reason = "an addend was overwritten";
    }
  });
  for (const auto& end : ends) {
    BOOST_CHECK(end.end == CollectiveEnd::done);
    BOOST_CHECK_EQUAL(end.reason, "");
  }
  return results;
}

void check_bits(const Case& at) {
  const auto results = run(at);
  const auto expected =
    sum_of(at.program.empty() ? fixed_tree(at.members) : at.program, at.count);
  for (const auto& result : results)
    BOOST_CHECK(std::memcmp(result.data(), expected.data(),
                            expected.size() * sizeof(float))
                == 0);
}

void check_nearly(const Case& at) {
  const auto results = run(at);
  const auto expected =
    sum_of(at.program.empty() ? fixed_tree(at.members) : at.program, at.count);
  for (const auto& result : results) {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < at.count; ++i)
      wrong += !(std::fabs(result[i] - expected[i])
                 <= 1e-5f * std::fabs(expected[i]) + 0.1f);
    BOOST_CHECK_EQUAL(wrong, 0u);
    BOOST_CHECK(result == results[0]);
  }
}

} // namespace

BOOST_AUTO_TEST_CASE(reproducible_sums_have_the_fixed_trees_bits) {
  for (uint32_t members = 1; members <= 8; ++members)
    for (uint64_t count : {1, 17, 4099, 70'001}) {
      Case at;
      at.members = members;
      at.count = count;
      BOOST_TEST_CONTEXT(members << " members, " << count << " elements")
      check_bits(at);
    }
}

BOOST_AUTO_TEST_CASE(many_chunks_and_buckets_over_several_steps_keep_the_bits) {
  for (uint32_t members : {2, 3, 4})
    for (bool one_host : {true, false}) {
      Case at;
      at.members = members;
      at.count = 700'001;
      at.buckets = 5;
      at.steps = 3;
      at.options.chunk_bytes = 32 << 10;
      if (!one_host)
        at.options.hosts = each_alone(members);
      BOOST_TEST_CONTEXT(members << " members, one host: " << one_host)
      for (auto mode : {Case::sum, Case::update_all, Case::share}) {
        at.mode = mode;
        check_bits(at);
      }
    }
}

BOOST_AUTO_TEST_CASE(programs_with_several_vectors_and_missing_terms_hold) {
  Case at;
  at.members = 3;
  at.count = 50'003;
  at.buckets = 2;
  at.vectors = 3;
  // Member 1 has nothing in it, member 2 nothing of its first vector.
  at.program = {{0, 0, 0}, {0, 2, 1}, {2, 1, 0}, {0, 1, 0}, {2, 2, 2}};
  at.program.back().merges = 3;
  for (auto mode : {Case::sum, Case::update_all, Case::share}) {
    at.mode = mode;
    check_bits(at);
  }
  at.options.algorithm = StreamAlgorithm::ring;
  at.mode = Case::sum;
  check_nearly(at);
  at.options.algorithm = StreamAlgorithm::automatic;
  at.mode = Case::share;
  check_nearly(at);
}

BOOST_AUTO_TEST_CASE(addends_that_are_to_be_kept_stay_as_they_are) {
  Case at;
  at.members = 3;
  at.count = 50'003;
  at.buckets = 2;
  at.steps = 2;
  at.vectors = 2;
  at.program = {{0, 0, 0}, {0, 1, 1}, {1, 0, 0},
                {1, 1, 1}, {2, 0, 0}, {2, 1, 3}};
  at.keeps_vectors = true;
  for (auto mode : {Case::sum, Case::update_all, Case::share}) {
    at.mode = mode;
    check_bits(at);
  }
}

BOOST_AUTO_TEST_CASE(every_fast_algorithm_sums) {
  for (auto algorithm :
       {StreamAlgorithm::automatic, StreamAlgorithm::direct,
        StreamAlgorithm::ring, StreamAlgorithm::halving_doubling,
        StreamAlgorithm::hierarchical})
    for (uint32_t members = 1; members <= 8; ++members)
      for (auto mode : {Case::sum, Case::update_all}) {
        Case at;
        at.members = members;
        at.count = 40'009;
        at.buckets = 3;
        at.steps = 2;
        at.mode = mode;
        at.options.algorithm = algorithm;
        at.options.chunk_bytes = 8 << 10;
        at.options.hosts.resize((members + 1) / 2);
        for (uint32_t r = 0; r < members; ++r)
          at.options.hosts[r / 2].push_back(r);
        BOOST_TEST_CONTEXT(static_cast<int>(algorithm) << ", " << members)
        check_nearly(at);
      }
}

BOOST_AUTO_TEST_CASE(raw_collectives_of_changing_lengths_follow_one_another) {
  constexpr uint32_t members = 4;
  auto mesh = full_mesh(members);
  std::vector<std::string> wrong(members);
  at_once(members, [&](uint32_t rank) {
    StreamReducer reducer{{rank, members, {}, 0}, std::move(mesh[rank])};
    auto must = [&](bool holds, const std::string& what) {
      if (!holds && wrong[rank].empty())
        wrong[rank] = what;
    };
    for (uint64_t count : {0, 1, 5, 1000, 300'007, 64}) {
      auto data = vector_of(rank, 0, count);
      const auto sums = sum_of(fixed_tree(members), count);
      must(reducer.all_reduce(data.data(), count, in_a_while()).end
               == CollectiveEnd::done
             && data == sums,
           "all_reduce");
      data = vector_of(rank, 0, count);
      must(reducer.broadcast(data.data(), count, 2, in_a_while()).end
               == CollectiveEnd::done
             && data == vector_of(2, 0, count),
           "broadcast");
      data = vector_of(rank, 0, count);
      must(reducer.reduce_scatter(data.data(), count, in_a_while()).end
             == CollectiveEnd::done,
           "reduce_scatter");
      const auto [begin, end] = run_of(count, rank, members);
      for (auto i = begin; i < end; ++i)
        must(std::fabs(data[i] - sums[i]) <= 0.1f, "a scattered sum");
      data.assign(count, 0);
      for (auto i = begin; i < end; ++i)
        data[i] = sums[i];
      must(reducer.all_gather(data.data(), count, in_a_while()).end
               == CollectiveEnd::done
             && data == sums,
           "all_gather");
    }
  });
  for (const auto& what : wrong)
    BOOST_CHECK_EQUAL(what, "");
}

BOOST_AUTO_TEST_CASE(compressed_sums_are_equal_on_all_and_feed_errors_back) {
  constexpr uint32_t members = 3;
  constexpr uint64_t count = 5000;
  for (const char* kind : {"fp16", "bf16", "int8", "onebit", "topk:0.1"}) {
    BOOST_TEST_CONTEXT(kind) {
      auto mesh = full_mesh(members);
      StreamOptions options;
      options.algorithm = StreamAlgorithm::automatic;
      options.compression = parse_compression(kind);
      std::vector<std::vector<float>> total(members,
                                            std::vector<float>(count, 0));
      std::vector<std::vector<float>> last(members);
      std::vector<Reducer::Traffic> traffic(members);
      constexpr int steps = 100;
      at_once(members, [&](uint32_t rank) {
        StreamReducer reducer{
          {rank, members, {{0, count}}, 0}, std::move(mesh[rank]), options};
        for (int step = 0; step < steps; ++step) {
          auto data = vector_of(rank, 0, count);
          reducer.start({static_cast<uint64_t>(step),
                         fixed_tree(members),
                         {data.data()},
                         {data.data()},
                         {}});
          reducer.ready(0);
          if (reducer.finish(in_a_while()).end != CollectiveEnd::done)
            return;
          for (uint64_t i = 0; i < count; ++i)
            total[rank][i] += data[i] / steps;
          last[rank] = data;
        }
        traffic[rank] = reducer.traffic();
      });
      BOOST_REQUIRE_EQUAL(last[0].size(), count);
      BOOST_CHECK(last[1] == last[0] && last[2] == last[0]);
      BOOST_CHECK_LT(traffic[0].sent_bytes, traffic[0].plain_bytes * 6 / 10);
      BOOST_CHECK_GT(traffic[0].sent_bytes, 0u);
      // What one step leaves out, the next ones bring: the mean is right where
      // a single step is not.
      const auto sums = sum_of(fixed_tree(members), count);
      double off = 0;
      double size = 0;
      for (uint64_t i = 0; i < count; ++i) {
        off += std::fabs(total[0][i] - sums[i]);
        size += std::fabs(sums[i]);
      }
      BOOST_CHECK_LT(off, 0.35 * size);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
