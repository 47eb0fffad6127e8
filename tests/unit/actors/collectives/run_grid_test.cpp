#include "actors/collectives/run_grid.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(run_grid_suite)

namespace {

constexpr uint64_t bounds[] = {0, 1, 15, 16, 700, 10'007};

std::vector<std::pair<uint64_t, uint64_t>> buckets() {
  std::vector<std::pair<uint64_t, uint64_t>> cuts;
  for (size_t i = 0; i + 1 < std::size(bounds); ++i)
    cuts.emplace_back(bounds[i], bounds[i + 1]);
  return cuts;
}

} // namespace

BOOST_AUTO_TEST_CASE(chunks_follow_one_another_and_cover_each_bucket_once) {
  for (uint32_t members = 1; members <= 17; ++members)
    for (uint64_t chunk : {16, 48, 4096}) {
      const RunGrid grid{buckets(), {members, 16, chunk}};
      for (uint32_t b = 0; b < grid.buckets(); ++b) {
        auto at = grid.bucket(b).first;
        for (uint32_t r = 0; r < members; ++r)
          for (uint32_t c = 0; c < grid.chunks(b, r); ++c) {
            const auto [begin, end] = grid.chunk(b, r, c);
            BOOST_REQUIRE_EQUAL(begin, at);
            BOOST_REQUIRE_LE(end - begin, grid.longest_chunk());
            BOOST_REQUIRE_LE(end - begin, chunk);
            at = end;
          }
        BOOST_REQUIRE_EQUAL(at, grid.bucket(b).second);
      }
    }
}

BOOST_AUTO_TEST_CASE(where_all_own_every_run_each_is_the_whole_bucket) {
  const RunGrid grid{buckets(), {4, 16, 64, true}};
  for (uint32_t b = 0; b < grid.buckets(); ++b)
    for (uint32_t r = 0; r < 4; ++r)
      BOOST_CHECK(grid.run(b, r) == grid.bucket(b));
}

BOOST_AUTO_TEST_CASE(a_cursor_visits_every_frame_of_a_run_once) {
  const RunGrid grid{buckets(), {3, 16, 64}};
  for (uint32_t run = 0; run < 3; ++run) {
    uint64_t frames = 0;
    uint64_t chunks = 0;
    for (uint32_t b = 0; b < grid.buckets(); ++b)
      chunks += grid.chunks(b, run);
    for (GridCursor at; at.bucket < grid.buckets(); at.advance(grid, run, 2)) {
      BOOST_REQUIRE_EQUAL(at.index, frames / 2);
      BOOST_REQUIRE_EQUAL(at.part, frames % 2);
      ++frames;
    }
    BOOST_CHECK_EQUAL(frames, 2 * chunks);
  }
}

BOOST_AUTO_TEST_SUITE_END()
