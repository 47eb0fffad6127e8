#include "kernels/base/error.hpp"
#include "kernels/cpu/incremental_pass.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/next_token.hpp"
#include "kernels/cpu/token_stream.hpp"
#include "kernels/data/dataset.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/model_file.hpp"
#include "kernels/graph/models.hpp"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <random>

using namespace troupe;
using kernels::IncrementalPass;
using kernels::next_token;
using kernels::SamplingRule;
using kernels::TokenStream;

BOOST_AUTO_TEST_SUITE(incremental_pass_test)

namespace {

using Tokens = std::vector<int32_t>;

SampleShape spoken(uint32_t vocabulary) {
  SampleShape sample;
  sample.vocabulary = vocabulary;
  sample.label = LabelKind::tokens;
  return sample;
}

/// A model with weights that were drawn, and tokens for its window.
struct Spoken {
  explicit Spoken(const Graph& given)
    : graph(given), layout(graph), parameters(layout.total) {
    std::mt19937 random(4);
    std::uniform_real_distribution<float> unit(-0.3f, 0.3f);
    parameters.fill(0);
    for (uint32_t i = 0; i < graph.parameters.size(); ++i) {
      auto* at = parameters.data() + layout.offsets[i];
      initialize(graph, 1, i, 0, at, graph.parameters[i].size());
      for (size_t k = 0; k < graph.parameters[i].size(); ++k)
        at[k] += unit(random);
    }
    for (size_t i = 0; i < graph.ids(); ++i)
      tokens.push_back(
        static_cast<int32_t>(random() % graph.sample.vocabulary));
  }
  explicit Spoken(const std::string& model, uint32_t vocabulary = 23)
    : Spoken(make_graph(model, spoken(vocabulary))) {}

  /// Logits of every place of a window, [window, classes].
  std::vector<float> whole() const {
    BatchMemory memory{graph, 1};
    std::copy(tokens.begin(), tokens.end(), memory.ids());
    std::fill_n(memory.labels(), tokens.size(), 0);
    std::vector<float> outputs(graph.outputs());
    Predictions predictions;
    predictions.outputs = outputs.data();
    make_replica(graph, {}, 1)
      ->evaluate(parameters.data(), memory.batch(1), predictions);
    return outputs;
  }

  Graph graph;
  Layout layout;
  Buffer parameters;
  Tokens tokens;
};

/// Reads the window in runs of these lengths, in turn, and compares the logits
/// of each run's last place.
double largest_difference(const Spoken& model, std::vector<size_t> runs) {
  const auto whole = model.whole();
  const auto classes = model.graph.classes();
  IncrementalPass pass{model.graph};
  double largest = 0;
  std::span<const int32_t> left{model.tokens};
  for (size_t i = 0; !left.empty(); ++i) {
    const auto count = std::min(runs[i % runs.size()], left.size());
    const auto logits = pass.read(model.parameters.data(), left.first(count));
    left = left.subspan(count);
    BOOST_REQUIRE(logits.size() == classes);
    const auto* wanted = whole.data() + (pass.places() - 1) * classes;
    for (size_t c = 0; c < classes; ++c)
      largest = std::max<double>(largest, std::abs(logits[c] - wanted[c]));
  }
  BOOST_TEST(pass.places() == pass.window());
  return largest;
}

bool mentions(const std::string& what, const std::exception& error) {
  const std::string message = error.what();
  BOOST_TEST_MESSAGE(message);
  return message.find(what) != std::string::npos
         && message.find('\n') == std::string::npos;
}

std::string text_model(const std::string& operators) {
  return R"({"name": "own", "sample": {"ids": 6, "vocabulary": 9,
             "label": "tokens"}, "operators": [
             {"kind": "embedding", "width": 12},)"
         + operators + R"({"kind": "dense", "units": "vocabulary"},
              {"kind": "softmax_cross_entropy"}]})";
}

Graph own_model(const std::string& operators) {
  return build_graph(parse_model_json(text_model(operators), "own.json"));
}

} // namespace

BOOST_AUTO_TEST_CASE(each_place_has_the_bits_of_the_whole_pass) {
  for (const auto* model :
       {"transformer:L2-H2-D16-T9", "transformer:L1-H4-D48-T150-P0.2",
        "gpt2:L2-H3-D24-T70", "llama:L2-H4-K2-D32-T131",
        "llama:L1-H2-K1-D16-T1", "llama:L2-H6-K3-D36-T80-F52"})
    BOOST_TEST_CONTEXT(model) {
      const Spoken given{model};
      BOOST_TEST(largest_difference(given, {1}) == 0);
      BOOST_TEST(largest_difference(given, {7, 1, 64}) == 0);
      BOOST_TEST(largest_difference(given, {100}) == 0);
      BOOST_TEST(largest_difference(given, {given.tokens.size()}) == 0);
    }
}

BOOST_AUTO_TEST_CASE(models_of_ones_own_are_read_by_places_too) {
  const auto graph = own_model(
    R"({"kind": "bias", "name": "at"},
       {"kind": "dense", "name": "packed", "units": 24, "activation": "relu"},
       {"kind": "rotary", "heads": 2, "key_value_heads": 2,
        "interleaved": true},
       {"kind": "attention", "name": "seen", "heads": 2, "causal": true},
       {"kind": "slice", "name": "low", "axis": 1, "begin": 0, "end": 4},
       {"kind": "slice", "name": "high", "inputs": "seen", "axis": 1,
        "begin": 4},
       {"kind": "multiply", "name": "product", "inputs": ["low", "high"]},
       {"kind": "concat", "name": "all", "inputs": ["seen", "product"],
        "axis": 1},
       {"kind": "reshape", "shape": [6, 3, 4]},
       {"kind": "transpose", "permutation": [0, 2, 1]},
       {"kind": "softmax"},
       {"kind": "reshape", "shape": [6, 12]},
       {"kind": "rms_norm"},)");
  const Spoken given{graph};
  BOOST_TEST(largest_difference(given, {1}) == 0);
  BOOST_TEST(largest_difference(given, {4}) == 0);
}

BOOST_AUTO_TEST_CASE(a_pass_that_begins_anew_has_forgotten_all) {
  const Spoken given{"llama:L2-H2-D16-T20"};
  IncrementalPass pass{given.graph};
  const std::span<const int32_t> tokens{given.tokens};
  const auto first = pass.read(given.parameters.data(), tokens.first(5));
  const std::vector<float> kept{first.begin(), first.end()};
  pass.restart();
  pass.read(given.parameters.data(), tokens);
  pass.restart();
  const auto again = pass.read(given.parameters.data(), tokens.first(5));
  BOOST_TEST(kept == std::vector<float>(again.begin(), again.end()),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(models_that_look_ahead_are_refused_by_name) {
  struct Case {
    const char* operators;
    const char* message;
  };
  const Case cases[] = {
    {R"({"kind": "dense", "units": 36},
        {"kind": "attention", "name": "both"},)",
     "operator both (attention) looks at later places"},
    {R"({"kind": "transpose", "name": "turned", "permutation": [1, 0]},
        {"kind": "transpose", "permutation": [1, 0]},)",
     "operator turned (transpose) moves the places"},
    {R"({"kind": "slice", "name": "a", "begin": 0, "end": 3},
        {"kind": "concat", "inputs": ["a", "a"]},)",
     "operator a (slice) works along the places"},
    {R"({"kind": "reshape", "name": "flat"}, {"kind": "reshape",
         "shape": [6, 12]},)",
     "operator flat (reshape) has no place for each token"},
    {R"({"kind": "reshape", "shape": [6, 4, 3]},
        {"kind": "conv2d", "name": "wide", "units": 3, "kernel": 3,
         "padding": "same"},
        {"kind": "reshape", "shape": [6, 12]},)",
     "operator wide (conv2d) looks at several places"},
  };
  for (const auto& one : cases)
    BOOST_CHECK_EXCEPTION(IncrementalPass{own_model(one.operators)}, UsageError,
                          [&](const UsageError& error) {
                            return mentions(one.message, error);
                          });
  BOOST_CHECK_EXCEPTION(IncrementalPass{make_graph("mlp:4-3-2")}, UsageError,
                        [&](const UsageError& error) {
                          return mentions("not for text", error);
                        });
}

BOOST_AUTO_TEST_CASE(without_a_temperature_the_likeliest_token_is_chosen) {
  const std::vector<float> logits{1, 4, -2, 4, 3};
  for (uint64_t draw = 0; draw < 20; ++draw)
    BOOST_TEST(next_token(logits, {}, draw) == 1);
  SamplingRule cold;
  cold.temperature = 1e-300;
  cold.top_k = 1;
  BOOST_TEST(next_token(logits, cold, 3) == 1);
}

BOOST_AUTO_TEST_CASE(tokens_that_cannot_be_written_are_not_chosen) {
  const std::vector<float> logits{1, 3, 2, 9, 9};
  for (const double temperature : {0.0, 5.0})
    for (uint64_t draw = 0; draw < 200; ++draw)
      BOOST_TEST(next_token(logits, {temperature, 0, 1, 7, 3}, draw) < 3);
  BOOST_TEST(next_token(logits, {0, 0, 1, 7, 9}, 0) == 3);
}

BOOST_AUTO_TEST_CASE(tokens_are_drawn_by_their_probabilities) {
  // Probabilities 0.5, 0.25, 0.125, 0.125 at temperature 2.
  std::vector<float> logits;
  for (double share : {0.125, 0.5, 0.125, 0.25})
    logits.push_back(static_cast<float>(2 * std::log(share)));
  constexpr uint64_t draws = 40000;
  const auto counts = [&](SamplingRule rule) {
    rule.temperature = 2;
    std::vector<double> shares(4);
    for (uint64_t draw = 0; draw < draws; ++draw)
      shares[static_cast<size_t>(next_token(logits, rule, draw))] += 1.0
                                                                     / draws;
    return shares;
  };
  const auto check = [](const std::vector<double>& found,
                        const std::vector<double>& wanted) {
    for (size_t i = 0; i < wanted.size(); ++i)
      BOOST_TEST(std::abs(found[i] - wanted[i]) < 0.01);
  };
  check(counts({}), {0.125, 0.5, 0.125, 0.25});
  check(counts({0, 2, 1, 0}), {0, 2.0 / 3, 0, 1.0 / 3});
  check(counts({0, 0, 0.7, 0}), {0, 2.0 / 3, 0, 1.0 / 3});
  check(counts({0, 0, 0.8, 0}), {1.0 / 7, 4.0 / 7, 0, 2.0 / 7});
  // k first, then p of what is left: 0.6 of 3/4 takes one alone.
  check(counts({0, 2, 0.6, 0}), {0, 1, 0, 0});
  BOOST_TEST((counts({0, 0, 1, 1}) != counts({0, 0, 1, 2})));
}

BOOST_AUTO_TEST_CASE(the_same_tokens_are_drawn_on_every_isa) {
  struct Restore {
    kernels::Isa kept = kernels::selected_isa();
    ~Restore() { kernels::select_loops(kept); }
  } restore;
  std::mt19937 random(6);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(701);
  for (auto& logit : logits)
    logit = normal(random);
  std::vector<Tokens> found;
  for (auto isa : kernels::every_isa) {
    if (!kernels::has_isa(isa))
      continue;
    kernels::select_loops(isa);
    auto& tokens = found.emplace_back();
    for (uint64_t draw = 0; draw < 500; ++draw)
      tokens.push_back(next_token(logits, {0.9, 300, 0.95, 8}, draw));
    BOOST_TEST(found.back() == found.front(), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(logits_that_are_not_finite_are_an_error) {
  const std::vector<float> logits{1, std::nanf("")};
  BOOST_CHECK_EXCEPTION(next_token(logits, {}, 0), InputError,
                        [](const InputError& error) {
                          return mentions("not a finite number", error);
                        });
}

BOOST_AUTO_TEST_CASE(a_text_that_was_cut_anywhere_goes_on_as_it_would_have) {
  const Spoken given{"llama:L1-H2-K1-D16-T10"};
  for (const SamplingRule& rule :
       {SamplingRule{}, SamplingRule{1.5, 0, 1, 3}}) {
    TokenStream whole{given.graph, given.parameters.data(), rule};
    whole.read(Tokens{3, 1});
    for (int i = 0; i < 60; ++i)
      whole.next();
    const auto& tokens = whole.tokens();
    for (size_t cut : {1u, 2u, 9u, 10u, 11u, 12u, 37u, 61u}) {
      TokenStream rest{given.graph, given.parameters.data(), rule};
      rest.read(std::span{tokens}.first(cut));
      // Before the second token nothing was chosen.
      if (cut < 2)
        rest.read(Tokens{1});
      while (rest.tokens().size() < tokens.size())
        rest.next();
      BOOST_TEST(rest.tokens() == tokens, boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(past_the_window_a_text_goes_on_with_its_newer_half) {
  const Spoken given{"gpt2:L1-H2-D16-T8"};
  TokenStream stream{given.graph, given.parameters.data(), {}};
  stream.read(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto token = stream.next();
  IncrementalPass pass{given.graph};
  const auto logits = pass.read(given.parameters.data(), Tokens{6, 7, 8, 9});
  BOOST_TEST(token == next_token(logits, {}, 9));
}

BOOST_AUTO_TEST_CASE(a_token_that_there_is_not_is_an_error) {
  const Spoken given{"llama:L1-H2-D16-T10"};
  TokenStream stream{given.graph, given.parameters.data(), {}};
  stream.read(Tokens{1, 23});
  BOOST_CHECK_THROW(stream.next(), InputError);
}

BOOST_AUTO_TEST_SUITE_END()
