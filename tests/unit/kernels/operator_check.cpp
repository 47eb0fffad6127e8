#include "tests/unit/kernels/operator_check.hpp"

#include "kernels/base/error.hpp"
#include "kernels/cpu/isa.hpp"
#include "tests/unit/kernels/recorded_bits.hpp"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <limits>
#include <memory>
#include <random>

namespace troupe::test {

namespace {

using namespace troupe::kernels;

constexpr auto not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float prior = 0.5f; ///< what an added gradient begins at

bool is_loss(OpKind kind) {
  return kind == OpKind::softmax_cross_entropy
         || kind == OpKind::sigmoid_cross_entropy
         || kind == OpKind::mean_squared_error;
}

using Values = std::vector<float>;

/// The operands as drawn, in float32.
struct Drawn {
  std::vector<Values> inputs;
  std::vector<Values> parameters;
  Values output_gradient;
};

Drawn draw(const OperatorCase& given) {
  std::mt19937 random(given.seed);
  auto uniform = [&](size_t count, double low, double high) {
    std::uniform_real_distribution<double> values(low, high);
    Values result(count);
    for (auto& value : result)
      value = static_cast<float>(values(random));
    return result;
  };
  Drawn drawn;
  for (size_t i = 0; i < given.inputs.size(); ++i) {
    const auto count = given.rows * elements(given.inputs[i]);
    drawn.inputs.push_back(uniform(count, given.low, given.high));
    if (i < given.ids.size() && !given.ids[i].empty()) {
      BOOST_REQUIRE_EQUAL(given.ids[i].size(), count);
      std::memcpy(drawn.inputs[i].data(), given.ids[i].data(),
                  count * sizeof(float));
    }
  }
  for (const auto& shape : given.parameters)
    drawn.parameters.push_back(
      uniform(elements(shape), given.parameter_low, given.parameter_high));
  drawn.output_gradient = uniform(given.rows * elements(given.output), -1, 1);
  return drawn;
}

/// What came of one pair of passes.
struct Outcome {
  Values output;
  LossTotals totals;
  std::vector<Values> input_gradients; ///< empty where none is asked for
  std::vector<Values> parameter_gradients;
};

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size()
         && (a.empty() || std::memcmp(&a[0], &b[0], a.size() * 4) == 0);
}

bool same_bits(const Outcome& a, const Outcome& b) {
  auto all = [](const std::vector<Values>& x, const std::vector<Values>& y) {
    for (size_t i = 0; i < x.size(); ++i)
      if (!same_bits(x[i], y[i]))
        return false;
    return x.size() == y.size();
  };
  return same_bits(a.output, b.output) && a.totals.loss == b.totals.loss
         && a.totals.correct == b.totals.correct
         && all(a.input_gradients, b.input_gradients)
         && all(a.parameter_gradients, b.parameter_gradients);
}

/// How the passes are run.
struct How {
  uint32_t spare_rows = 0;
  size_t shift = 0; ///< elements, times 16, that memory is moved by
  bool accumulate = false;
  bool in_place = false;
  bool in_halves = false;
};

/// A one-operator graph and its memory on a device.
class Bench {
public:
  Bench(const OperatorCase& given, DeviceId id)
    : given_(given), device_(make_device(id, given.precision)) {
    auto& graph = graph_;
    Op op;
    op.kind = given.kind;
    op.name = given.name;
    op.attributes = given.attributes;
    for (size_t i = 0; i < given.inputs.size(); ++i) {
      const bool ids = i < given.ids.size() && !given.ids[i].empty();
      graph.values.push_back({"x" + std::to_string(i), given.inputs[i],
                              ids ? ValueType::int32 : ValueType::float32});
      op.inputs.push_back(static_cast<uint32_t>(i));
    }
    op.output = static_cast<uint32_t>(graph.values.size());
    graph.values.push_back({"y", given.output, ValueType::float32});
    for (size_t i = 0; i < given.parameters.size(); ++i) {
      Parameter parameter;
      parameter.name = "p" + std::to_string(i);
      parameter.shape = given.parameters[i];
      graph.parameters.push_back(parameter);
      op.parameters.push_back(static_cast<uint32_t>(i));
    }
    graph.ops.push_back(op);
    graph.sample.vocabulary =
      static_cast<uint32_t>(given.attributes.vocabulary);
  }

  Needs needs() {
    return device_->make_operator(graph_, 0, given_.rows)->needs();
  }

  Outcome run(const Drawn& drawn, const How& how) {
    how_ = how;
    auto op = device_->make_operator(graph_, 0, given_.rows + how.spare_rows);
    const auto needs = op->needs();
    const auto max_rows = given_.rows + how.spare_rows;
    OpArgs args;
    args.rows = given_.rows;
    args.training = given_.training;
    for (const auto& values : drawn.inputs)
      args.inputs.push_back(placed(values));
    for (const auto& values : drawn.parameters)
      args.parameters.push_back(placed(values));
    const auto outputs = given_.rows * elements(given_.output);
    args.output = how.in_place ? const_cast<float*>(args.inputs[0])
                               : poisoned(outputs);
    args.saved = poisoned(needs.saved.of(max_rows));
    args.scratch = poisoned(needs.scratch.of(max_rows));
    args.key = reinterpret_cast<const uint64_t*>(words(&given_.key, 1));
    if (!given_.labels.empty())
      args.labels = reinterpret_cast<const int32_t*>(
        words(given_.labels.data(), given_.labels.size()));
    if (!given_.targets.empty())
      args.targets = placed(given_.targets);
    const LossTotals nothing;
    auto* totals = words(&nothing, 1);
    args.totals = reinterpret_cast<LossTotals*>(totals);
    op->forward(args);
    Outcome outcome;
    if (is_loss(given_.kind))
      device_->download(totals, &outcome.totals, sizeof(LossTotals));
    else
      outcome.output = taken(args.output, outputs);
    if (given_.training && needs.backward_gives_loss) {
      device_->upload(&nothing, totals, sizeof nothing);
      poison(args.saved, needs.saved.of(max_rows));
    }
    if (given_.training)
      backward(*op, needs, args, drawn, outcome);
    if (given_.training && needs.backward_gives_loss) {
      LossTotals again;
      device_->download(totals, &again, sizeof again);
      BOOST_CHECK_EQUAL(again.loss, outcome.totals.loss);
      BOOST_CHECK_EQUAL(again.correct, outcome.totals.correct);
    }
    return outcome;
  }

private:
  void backward(Operator& op, const Needs& needs, OpArgs& args,
                const Drawn& drawn, Outcome& outcome) {
    // Whatever was not declared is gone by now.
    for (size_t i = 0; i < drawn.inputs.size(); ++i)
      if (!(needs.backward_reads_inputs >> i & 1)
          && !(i == 0 && how_.in_place && needs.backward_reads_output))
        poison(const_cast<float*>(args.inputs[i]), drawn.inputs[i].size());
    if (!needs.backward_reads_output && !how_.in_place && !is_loss(given_.kind))
      poison(args.output, drawn.output_gradient.size());
    poison(args.scratch, needs.scratch.of(given_.rows + how_.spare_rows));
    if (!is_loss(given_.kind))
      args.output_gradient = placed(drawn.output_gradient);
    for (size_t i = 0; i < drawn.inputs.size(); ++i) {
      const bool ids = graph_.values[i].type == ValueType::int32;
      const bool takes_place = i == 0 && how_.in_place && !how_.accumulate;
      args.input_gradients.push_back(ids ? nullptr
                                     : takes_place
                                       ? args.output_gradient
                                       : begun(drawn.inputs[i].size()));
      args.accumulate_inputs.push_back(how_.accumulate);
    }
    for (const auto& values : drawn.parameters) {
      args.parameter_gradients.push_back(begun(values.size()));
      args.accumulate_parameters.push_back(how_.accumulate);
    }
    if (how_.in_halves)
      backward_in_halves(op, needs, args, drawn);
    else
      op.backward(args);
    for (size_t i = 0; i < drawn.inputs.size(); ++i)
      outcome.input_gradients.push_back(
        args.input_gradients[i] == nullptr
          ? Values{}
          : taken(args.input_gradients[i], drawn.inputs[i].size()));
    for (size_t i = 0; i < drawn.parameters.size(); ++i)
      outcome.parameter_gradients.push_back(
        taken(args.parameter_gradients[i], drawn.parameters[i].size()));
  }

  /// Neither half looks at the other's gradients, and between the two all is
  /// gone that the second may not read.
  void backward_in_halves(Operator& op, const Needs& needs, OpArgs& args,
                          const Drawn& drawn) {
    const auto max_rows = given_.rows + how_.spare_rows;
    auto half = args;
    half.half = BackwardHalf::inputs;
    half.parameter_gradients.assign(drawn.parameters.size(), nullptr);
    op.backward(half);
    poison(args.output, drawn.output_gradient.size());
    poison(args.saved, needs.saved.of(max_rows));
    poison(args.scratch, needs.scratch.of(max_rows));
    half = args;
    half.half = BackwardHalf::weights;
    half.input_gradients.assign(drawn.inputs.size(), nullptr);
    op.backward(half);
  }

  float* memory(size_t count) {
    return device_->allocate(count + 16 * how_.shift + 16) + 16 * how_.shift;
  }
  void poison(float* at, size_t count) {
    if (count == 0)
      return;
    const Values values(count, not_a_number);
    device_->upload(values.data(), at, count * sizeof(float));
  }
  float* poisoned(size_t count) {
    auto* at = memory(count);
    poison(at, count);
    return at;
  }
  float* placed(const Values& values) {
    auto* at = memory(values.size());
    device_->upload(values.data(), at, values.size() * sizeof(float));
    return at;
  }
  float* begun(size_t count) {
    return placed(Values(count, how_.accumulate ? prior : not_a_number));
  }
  template <class T>
  float* words(const T* values, size_t count) {
    auto* at = memory(count * sizeof(T) / sizeof(float) + 1);
    device_->upload(values, at, count * sizeof(T));
    return at;
  }
  Values taken(const float* at, size_t count) {
    Values values(count);
    device_->download(at, values.data(), count * sizeof(float));
    return values;
  }

  const OperatorCase& given_;
  std::unique_ptr<Device> device_;
  Graph graph_;
  How how_;
};

Operands operands_of(const OperatorCase& given, const Drawn& drawn) {
  Operands result;
  result.rows = given.rows;
  for (size_t i = 0; i < drawn.inputs.size(); ++i) {
    if (i < given.ids.size() && !given.ids[i].empty())
      result.inputs.emplace_back(given.ids[i].begin(), given.ids[i].end());
    else
      result.inputs.emplace_back(drawn.inputs[i].begin(),
                                 drawn.inputs[i].end());
  }
  for (const auto& values : drawn.parameters)
    result.parameters.emplace_back(values.begin(), values.end());
  return result;
}

/// The sum whose gradient the backward pass is to give.
double scalar(const OperatorCase& given, const Drawn& drawn,
              const Operands& at) {
  const auto y = given.reference(at);
  if (is_loss(given.kind))
    return y.at(0);
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i)
    sum += y[i] * double{drawn.output_gradient[i]};
  return sum;
}

/// Compares a gradient with central differences at up to given.differences of
/// its elements.
void check_gradient(const OperatorCase& given, const Drawn& drawn, Operands& at,
                    std::vector<double>& values, const Values& gradient,
                    const std::string& what) {
  BOOST_REQUIRE_EQUAL(gradient.size(), values.size());
  std::mt19937 random(given.seed + 1);
  const auto count = std::min(values.size(), given.differences);
  for (size_t n = 0; n < count; ++n) {
    const auto i = count == values.size() ? n : random() % values.size();
    const auto kept = values[i];
    constexpr double h = 1e-5;
    values[i] = kept + h;
    const auto above = scalar(given, drawn, at);
    values[i] = kept - h;
    const auto below = scalar(given, drawn, at);
    values[i] = kept;
    const auto want = (above - below) / (2 * h);
    BOOST_CHECK_MESSAGE(within(given.backward, gradient[i], want),
                        what << "[" << i << "] is " << gradient[i]
                             << " rather than " << want);
  }
  for (auto value : gradient)
    if (!std::isfinite(value)) {
      BOOST_ERROR(what << " is not written everywhere");
      break;
    }
}

void check_results(const OperatorCase& given, const Drawn& drawn,
                   const Outcome& outcome) {
  auto at = operands_of(given, drawn);
  const auto want = given.reference(at);
  if (is_loss(given.kind))
    BOOST_CHECK_MESSAGE(within(given.forward, outcome.totals.loss, want.at(0)),
                        "the loss is " << outcome.totals.loss << " rather than "
                                       << want[0]);
  else {
    BOOST_REQUIRE_EQUAL(want.size(), outcome.output.size());
    check_within(given.forward, outcome.output, want, want.size());
  }
  if (!given.training)
    return;
  for (size_t i = 0; i < at.inputs.size(); ++i)
    if (!outcome.input_gradients[i].empty())
      check_gradient(given, drawn, at, at.inputs[i], outcome.input_gradients[i],
                     "gradient of input " + std::to_string(i));
  std::vector<std::vector<double>> statistics;
  if (given.statistics)
    statistics = given.statistics(at);
  for (size_t i = 0; i < at.parameters.size(); ++i) {
    size_t s = 0;
    while (s < given.statistics_at.size() && given.statistics_at[s] != i)
      ++s;
    if (s < given.statistics_at.size())
      check_within(given.forward, outcome.parameter_gradients[i],
                   statistics.at(s), statistics[s].size());
    else
      check_gradient(given, drawn, at, at.parameters[i],
                     outcome.parameter_gradients[i],
                     "gradient of parameter " + std::to_string(i));
  }
}

/// Gradients that were added to are the prior and the gradient; parameters are
/// only ever shared by operators that can add.
void check_added(const Outcome& added, const Outcome& first) {
  auto compare = [](const std::vector<Values>& sums,
                    const std::vector<Values>& gradients, const char* what) {
    for (size_t i = 0; i < sums.size(); ++i)
      for (size_t k = 0; k < sums[i].size(); ++k)
        if (!within({1e-5, 1e-5}, sums[i][k],
                    double{prior} + double{gradients[i][k]})) {
          BOOST_ERROR(what << " " << i << "[" << k << "] was not added to: "
                           << sums[i][k] << " of " << gradients[i][k]);
          break;
        }
  };
  compare(added.input_gradients, first.input_gradients, "input gradient");
  if (!added.parameter_gradients.empty())
    compare(added.parameter_gradients, first.parameter_gradients,
            "parameter gradient");
}

void record(const OperatorCase& given, const Outcome& outcome) {
  std::vector<std::span<const std::byte>> values;
  const auto add = [&values](const auto& more) {
    values.push_back(std::as_bytes(std::span{more}));
  };
  add(outcome.output);
  add(std::span{&outcome.totals.loss, 1});
  add(std::span{&outcome.totals.correct, 1});
  for (const auto& gradient : outcome.input_gradients)
    add(gradient);
  for (const auto& gradient : outcome.parameter_gradients)
    add(gradient);
  record_bits(given.name + " rows " + std::to_string(given.rows), values);
}

void check_every_isa(const OperatorCase& given, const Drawn& drawn,
                     const Outcome& first) {
  struct Restore {
    Isa kept = selected_isa();
    ~Restore() { select_loops(kept); }
  } restore;
  for (auto isa : every_isa) {
    if (!has_isa(isa)) {
      BOOST_TEST_MESSAGE(name_of(isa) << " is not supported here");
      continue;
    }
    if (given.same_bits == SameBits::with_fma
        && fuses(isa) != fuses(restore.kept))
      continue;
    select_loops(isa);
    Bench bench(given, {});
    BOOST_CHECK_MESSAGE(same_bits(bench.run(drawn, {}), first),
                        "other bits under " << name_of(isa));
  }
}

/// Both halves together give the bits of the whole backward pass.
void check_halves(const OperatorCase& given, Bench& bench, const Needs& needs,
                  const Drawn& drawn, const Outcome& first) {
  if (!given.training || !needs.splits)
    return;
  BOOST_CHECK_MESSAGE(same_bits(bench.run(drawn, {.in_halves = true}), first),
                      "other bits in halves");
  BOOST_CHECK_MESSAGE(
    same_bits(bench.run(drawn, {.accumulate = true, .in_halves = true}),
              bench.run(drawn, {.accumulate = true})),
    "other bits in halves that are added to what is there");
}

void check_on(const OperatorCase& given, DeviceId device) {
  const auto drawn = draw(given);
  Bench bench(given, device);
  const auto needs = bench.needs();
  const auto first = bench.run(drawn, {});
  if (!records_bits())
    check_results(given, drawn, first);
  BOOST_CHECK_MESSAGE(same_bits(bench.run(drawn, {}), first),
                      "other bits again");
  BOOST_CHECK_MESSAGE(same_bits(bench.run(drawn, {3, 1, false, false}), first),
                      "other bits with other memory, or room for more rows");
  check_halves(given, bench, needs, drawn, first);
  if (given.training && needs.accumulates) {
    // Statistics are never shared.
    auto added = bench.run(drawn, {0, 0, true, false});
    if (!given.statistics_at.empty())
      added.parameter_gradients.clear();
    check_added(added, first);
  }
  if (needs.in_place)
    BOOST_CHECK_MESSAGE(same_bits(bench.run(drawn, {0, 0, false, true}), first),
                        "other bits in place");
  if (device.kind == DeviceId::Kind::cpu
      && given.same_bits != SameBits::nowhere) {
    record(given, first);
    check_every_isa(given, drawn, first);
  }
}

} // namespace

std::vector<DeviceId> devices_present() {
  std::vector<DeviceId> result{DeviceId{}};
  if (cuda_device_count() > 0)
    result.push_back({DeviceId::Kind::cuda, 0});
  else
    BOOST_TEST_MESSAGE("no CUDA device: on the CPU alone");
  return result;
}

void check_operator(const OperatorCase& given) {
  for (auto device : devices_present())
    BOOST_TEST_CONTEXT(to_string(device)
                       << ", " << given.name << ", rows " << given.rows)
  check_on(given, device);
}

} // namespace troupe::test
