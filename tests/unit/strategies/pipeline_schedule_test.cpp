#include "strategies/pipeline_schedule.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <map>
#include <set>
#include <tuple>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(pipeline_schedule)

namespace {

constexpr uint32_t most = 16;

/// Every schedule of every shape up to 16 stages, micro-batches and chunks.
void for_every_shape(const std::function<void(const PipelineShape&)>& check) {
  for (auto schedule :
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
        PipelineSchedule::interleaved, PipelineSchedule::zero_bubble})
    for (uint32_t p = 1; p <= most; ++p)
      for (uint32_t m = 1; m <= most; ++m)
        for (uint32_t v = 1; v <= most; ++v) {
          const PipelineShape shape{schedule, p, m, v};
          if (!mistake_of(shape))
            check(shape);
        }
}

std::vector<PartCost> equal_costs(const PipelineShape& shape, PartCost cost) {
  return std::vector<PartCost>(shape.stages * shape.chunks, cost);
}

std::string text_of(const PipelineShape& x) {
  return to_string(x.schedule) + ", p " + std::to_string(x.stages) + ", m "
         + std::to_string(x.micro_batches) + ", v " + std::to_string(x.chunks);
}

std::string line_of(const PipelineShape& shape, uint32_t stage) {
  std::string line;
  for (const auto& action : stage_actions(shape, stage)) {
    const auto name = action.pass == StagePass::forward           ? "F"
                      : action.pass == StagePass::backward        ? "B"
                      : action.pass == StagePass::backward_inputs ? "I"
                                                                  : "W";
    line += (line.empty() ? "" : " ") + std::string{name}
            + std::to_string(action.micro_batch)
            + (shape.chunks > 1 ? "." + std::to_string(action.chunk) : "");
  }
  return line;
}

} // namespace

BOOST_AUTO_TEST_CASE(each_micro_batch_goes_forward_once_and_backward_once) {
  for_every_shape([](const PipelineShape& shape) {
    const bool halves = shape.schedule == PipelineSchedule::zero_bubble;
    for (uint32_t stage = 0; stage < shape.stages; ++stage) {
      std::set<std::tuple<StagePass, uint32_t, uint32_t>> seen;
      const auto actions = stage_actions(shape, stage);
      for (const auto& action : actions) {
        BOOST_REQUIRE(action.micro_batch < shape.micro_batches);
        BOOST_REQUIRE(action.chunk < shape.chunks);
        BOOST_REQUIRE((action.pass == StagePass::forward
                       || (action.pass == StagePass::backward) != halves));
        seen.emplace(action.pass, action.micro_batch, action.chunk);
      }
      const auto wanted = (halves ? 3 : 2) * shape.micro_batches * shape.chunks;
      BOOST_REQUIRE(actions.size() == wanted);
      BOOST_REQUIRE(seen.size() == wanted);
    }
  });
}

BOOST_AUTO_TEST_CASE(no_stage_waits_for_ever_whatever_passes_cost) {
  for_every_shape([](const PipelineShape& shape) {
    std::vector<PartCost> costs;
    for (uint64_t i = 0; i < shape.stages * shape.chunks; ++i)
      costs.push_back({1 + i * 7 % 5, 1 + i * 3 % 4, 1 + i * 5 % 3});
    std::vector<std::vector<StageAction>> actions;
    for (uint32_t stage = 0; stage < shape.stages; ++stage)
      actions.push_back(stage_actions(shape, stage));
    BOOST_REQUIRE_MESSAGE(play_pipeline(actions, costs), text_of(shape));
  });
}

BOOST_AUTO_TEST_CASE(stages_in_lock_step_do_not_wait_for_ever) {
  // Each has sums of its own, or none.
  const auto runs = [](uint32_t stage, StagePass pass) {
    return pass == StagePass::forward ? 1 + stage % 3 : 1 + stage * 2 % 5;
  };
  for (uint32_t p = 1; p <= most; ++p)
    for (uint32_t m = 1; m <= most; ++m) {
      std::vector<std::vector<StageAction>> stages;
      for (uint32_t k = 0; k < p; ++k)
        stages.push_back(lock_step_actions(m, runs(k, StagePass::forward),
                                           runs(k, StagePass::backward)));
      // Passes that are done, and runs of those that are not, by stage.
      std::set<std::tuple<uint32_t, StagePass, uint32_t>> done;
      std::vector<std::map<std::pair<StagePass, uint32_t>, uint32_t>> at(p);
      const auto may = [&](uint32_t k, const StageAction& action) {
        if (action.run != at[k][{action.pass, action.micro_batch}])
          return false; // not in order
        if (action.run > 0) {
          for (uint32_t n = 0; n < m; ++n)
            if (at[k][{action.pass, n}] < action.run)
              return false;
          return true;
        }
        if (action.pass == StagePass::forward)
          return k == 0
                 || done.contains({k - 1, action.pass, action.micro_batch});
        return done.contains({k, StagePass::forward, action.micro_batch})
               && (k + 1 == p
                   || done.contains({k + 1, action.pass, action.micro_batch}));
      };
      std::vector<size_t> next(p);
      for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t k = 0; k < p; ++k)
          for (; next[k] < stages[k].size() && may(k, stages[k][next[k]]);
               ++next[k]) {
            const auto& action = stages[k][next[k]];
            moved = true;
            if (++at[k][{action.pass, action.micro_batch}]
                == runs(k, action.pass))
              done.emplace(k, action.pass, action.micro_batch);
          }
      }
      BOOST_REQUIRE(done.size() == 2 * p * m);
      for (uint32_t k = 0; k < p; ++k)
        BOOST_REQUIRE(next[k] == stages[k].size());
    }
  // Without sums it is gpipe.
  BOOST_TEST((lock_step_actions(5, 1, 1)
              == stage_actions({PipelineSchedule::gpipe, 3, 5}, 1)));
}

BOOST_AUTO_TEST_CASE(a_pass_begins_when_what_it_reads_is_there) {
  // Two stages whose orders fit, and two that wait for each other.
  const std::vector<PartCost> costs(2, {2, 3, 4});
  const StageAction f{StagePass::forward, 0, 0};
  const StageAction b{StagePass::backward, 0, 0};
  const StageAction i{StagePass::backward_inputs, 0, 0};
  const StageAction w{StagePass::backward_weights, 0, 0};
  BOOST_TEST(play_pipeline({{f, b}, {f, b}}, costs)->end == 18u);
  BOOST_TEST(play_pipeline({{f, i, w}, {f, i, w}}, costs)->end == 14u);
  BOOST_TEST(!play_pipeline({{b, f}, {f, b}}, costs));
  BOOST_TEST(!play_pipeline({{f, b}, {f}}, costs));
  BOOST_TEST(!play_pipeline({{f, w, i}, {f, i, w}}, costs));
}

BOOST_AUTO_TEST_CASE(the_bubble_is_the_formulas_with_equal_stages) {
  const auto close = boost::test_tools::tolerance(1e-12);
  for_every_shape([&](const PipelineShape& shape) {
    const double p = shape.stages;
    const double m = shape.micro_batches;
    const double v = shape.chunks;
    const auto idle = [&](PartCost cost) {
      return play_pipeline(shape, equal_costs(shape, cost)).idle_share;
    };
    BOOST_TEST_CONTEXT(text_of(shape)) {
      if (shape.schedule == PipelineSchedule::zero_bubble) {
        // A pipe with fewer micro-batches than stages is never full.
        const auto gaps = (p - 1) + std::max(0.0, p - m);
        BOOST_TEST(idle({1, 1, 1}) == gaps / (3 * m + gaps), close);
        return;
      }
      BOOST_TEST(idle({2, 1, 1}) == (p - 1) / (v * m + p - 1), close);
      if (shape.schedule != PipelineSchedule::interleaved) {
        BOOST_TEST(idle({1, 1, 1}) == (p - 1) / (m + p - 1), close);
        BOOST_TEST(idle({7, 1, 2}) == (p - 1) / (m + p - 1), close);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(as_many_activations_are_held_as_the_formula_says) {
  for_every_shape([](const PipelineShape& shape) {
    const auto times = play_pipeline(shape, equal_costs(shape, {1, 1, 1}));
    for (uint32_t k = 0; k < shape.stages; ++k)
      BOOST_REQUIRE_MESSAGE(times.stash_peak[k] == stash_peak(shape, k),
                            text_of(shape) + ", stage " + std::to_string(k)
                              + " holds "
                              + std::to_string(times.stash_peak[k]));
  });
  const auto peak = [](PipelineSchedule schedule, uint32_t v, uint32_t stage) {
    return stash_peak({schedule, 4, 8, v}, stage);
  };
  BOOST_TEST(peak(PipelineSchedule::gpipe, 1, 3) == 8u);
  BOOST_TEST(peak(PipelineSchedule::one_f_one_b, 1, 0) == 4u);
  BOOST_TEST(peak(PipelineSchedule::one_f_one_b, 1, 3) == 1u);
  // No stage holds more than the first one of 1F1B does.
  BOOST_TEST(peak(PipelineSchedule::zero_bubble, 1, 0) == 4u);
  BOOST_TEST(peak(PipelineSchedule::zero_bubble, 1, 3) == 4u);
  BOOST_TEST(peak(PipelineSchedule::interleaved, 2, 0) == 11u);
}

BOOST_AUTO_TEST_CASE(a_step_with_fewer_micro_batches_has_its_passes) {
  for_every_shape([](const PipelineShape& shape) {
    if (shape.stages > 5 || shape.chunks > 3)
      return;
    for (uint32_t m = 1; m <= shape.micro_batches; ++m) {
      std::vector<std::vector<StageAction>> actions;
      for (uint32_t k = 0; k < shape.stages; ++k) {
        actions.push_back(step_actions(shape, k, m));
        const auto halves = shape.schedule == PipelineSchedule::zero_bubble;
        BOOST_REQUIRE(actions.back().size()
                      == (halves ? 3u : 2u) * m * shape.chunks);
        // A chunk has slots for so many, one after the other.
        for (uint32_t c = 0; c < shape.chunks; ++c) {
          const auto slots = chunk_peak(shape, k, c);
          BOOST_REQUIRE(slots <= stash_peak(shape, k));
          std::set<uint32_t> taken;
          for (const auto& action : actions.back()) {
            if (action.chunk != c)
              continue;
            const auto slot = action.micro_batch % slots;
            if (action.pass == StagePass::forward)
              BOOST_REQUIRE_MESSAGE(taken.insert(slot).second,
                                    text_of(shape) + ", stage "
                                      + std::to_string(k));
            else if (action.pass != StagePass::backward_inputs)
              BOOST_REQUIRE(taken.erase(slot) == 1);
          }
        }
      }
      BOOST_REQUIRE_MESSAGE(play_pipeline(actions, equal_costs(shape, {})),
                            text_of(shape));
    }
  });
}

BOOST_AUTO_TEST_CASE(few_activations_are_held_where_they_are_computed_again) {
  for_every_shape([](PipelineShape shape) {
    for (bool recompute : {false, true}) {
      shape.recompute = recompute;
      const auto times = play_pipeline(shape, equal_costs(shape, {1, 1, 1}));
      for (uint32_t k = 0; k < shape.stages; ++k) {
        BOOST_REQUIRE(times.stash_peak[k] == stash_peak(shape, k));
        BOOST_REQUIRE_MESSAGE(times.activation_peak[k]
                                == activation_peak(shape, k),
                              text_of(shape) + ", stage " + std::to_string(k));
        if (recompute)
          BOOST_REQUIRE(activation_peak(shape, k) <= k + 1);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_forward_pass_more_is_part_of_the_way_back) {
  // Backward takes three passes, and the bubble is as of any such costs.
  const auto close = boost::test_tools::tolerance(1e-12);
  PipelineShape shape{PipelineSchedule::one_f_one_b, 4, 8, 1};
  const auto plain = play_pipeline(shape, equal_costs(shape, {1, 2, 1}));
  shape.recompute = true;
  const auto again = play_pipeline(shape, equal_costs(shape, {1, 1, 1}));
  BOOST_TEST(again.end == plain.end);
  BOOST_TEST(again.idle_share == 3.0 / 11, close);
  shape.schedule = PipelineSchedule::zero_bubble;
  BOOST_TEST(play_pipeline(shape, equal_costs(shape, {1, 1, 1})).end
             == play_pipeline({PipelineSchedule::zero_bubble, 4, 8, 1},
                              equal_costs(shape, {1, 2, 1}))
                  .end);
}

BOOST_AUTO_TEST_CASE(orders_are_those_of_the_papers) {
  const PipelineShape plain{PipelineSchedule::one_f_one_b, 2, 3, 1};
  BOOST_TEST(line_of(plain, 0) == "F0 F1 B0 F2 B1 B2");
  BOOST_TEST(line_of(plain, 1) == "F0 B0 F1 B1 F2 B2");
  BOOST_TEST(line_of({PipelineSchedule::gpipe, 2, 2, 1}, 1) == "F0 F1 B0 B1");
  const PipelineShape zero{PipelineSchedule::zero_bubble, 2, 3, 1};
  BOOST_TEST(line_of(zero, 0) == "F0 F1 I0 W0 F2 I1 W1 I2 W2");
  BOOST_TEST(line_of(zero, 1) == "F0 I0 F1 I1 W0 F2 I2 W1 W2");
  const PipelineShape chunks{PipelineSchedule::interleaved, 2, 2, 2};
  BOOST_TEST(line_of(chunks, 0) == "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  BOOST_TEST(line_of(chunks, 1) == "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_said_in_one_line) {
  const auto line = [](PipelineSchedule schedule, uint32_t p, uint32_t m,
                       uint32_t v) {
    return mistake_of({schedule, p, m, v}).value_or("");
  };
  BOOST_TEST(line(PipelineSchedule::interleaved, 4, 6, 2)
             == "--schedule interleaved takes micro-batches in groups of 4, "
                "one for each stage, and 6 virtual ranks are no multiple of "
                "that: use --virtual-ranks 8");
  BOOST_TEST(line(PipelineSchedule::gpipe, 2, 4, 2)
             == "--schedule gpipe has one chunk for each stage, not 2: use "
                "--schedule interleaved");
  BOOST_TEST(line(PipelineSchedule::interleaved, 1, 4, 2)
             == "--schedule interleaved goes round several stages: use "
                "--stages 2 or more, or --schedule 1f1b");
  BOOST_TEST(!line(PipelineSchedule::gpipe, 0, 4, 1).empty());
  BOOST_TEST(line(PipelineSchedule::zero_bubble, 16, 1, 1).empty());
}

BOOST_AUTO_TEST_CASE(names_are_read_as_they_are_written) {
  for (std::string name : {"gpipe", "1f1b", "interleaved", "zero_bubble"}) {
    PipelineSchedule schedule{};
    BOOST_TEST(parse(name, schedule));
    BOOST_TEST(to_string(schedule) == name);
  }
  PipelineSchedule schedule{};
  BOOST_TEST(!parse("pipedream", schedule));
}

BOOST_AUTO_TEST_SUITE_END()
