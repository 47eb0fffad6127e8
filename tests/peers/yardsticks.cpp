// Troupe's float32 products and convolutions beside those of other libraries,
// in one process on one thread, by turns; at every shape that the benchmark
// models have, forward and both gradients, beside squares and three layers of
// ResNet-50.
//
//   yardsticks [--isa avx2|avx512] [--rounds N] [--only TEXT] [--json FILE]
//              LIBRARY.so…
//
// A library is a shared object that tests/peers/build makes. Each result is
// held against Troupe's before it is timed. Of a library's ways (oneDNN's
// matmul and its sgemm, images as they lie or reordered) the faster one counts;
// medians of processor time. A ratio is Troupe's speed over theirs.

#include "kernels/base/buffer.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/intrinsics.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/matrix.hpp"
#include "kernels/cpu/operators.hpp"
#include "kernels/graph/models.hpp"
#include "tests/peers/yardstick.hpp"

#include <dlfcn.h>
#include <nlohmann/json.hpp>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::kernels;
using namespace troupe::yardstick;

namespace {

double seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec)
         + 1e-9 * static_cast<double>(now.tv_nsec);
}

Buffer drawn(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> draw(-1, 1);
  Buffer values(count);
  for (size_t i = 0; i < count; ++i)
    values.data()[i] = draw(random);
  return values;
}

// -- libraries ----------------------------------------------------------------

std::unique_ptr<Library> open(const std::string& path, const char* isa) {
  // Each with its own symbols: there may be two versions of one library, and
  // this program has one as well.
  auto* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (object == nullptr)
    throw InputError(std::string{dlerror()});
  const auto make = reinterpret_cast<Open>(dlsym(object, open_name));
  if (make == nullptr)
    throw InputError(path + " is no yardstick; use those of tests/peers/build");
  std::unique_ptr<Library> library{make(isa)};
  if (library == nullptr)
    throw InputError(path + " cannot be pinned to " + isa
                     + "; of OpenBLAS OPENBLAS_CORETYPE=Haswell does that");
  return library;
}

// -- shapes -------------------------------------------------------------------

/// One pass at one shape: who computes it, and on what.
struct Case {
  std::string name;
  double flops = 0;
  size_t sizes[3] = {}; ///< of the operands, of which one is written
  int written = 2;
  std::function<void(float* a, float* b, float* c)> ours;
  std::function<Prepared*(Library& library, int way)> theirs;
};

Case case_of(const Product& shape) {
  const auto& [m, n, k, a_turned, b_turned] = shape;
  Case made;
  made.name = "product " + std::to_string(m) + " x " + std::to_string(n) + " x "
              + std::to_string(k) + (a_turned ? " T" : " N")
              + (b_turned ? "T" : "N");
  made.flops = 2.0 * static_cast<double>(m * n * k);
  made.sizes[0] = m * k;
  made.sizes[1] = k * n;
  made.sizes[2] = m * n;
  made.ours = [shape](float* a, float* b, float* c) {
    multiply(shape.a_turned ? Side::transposed : Side::as_is,
             shape.b_turned ? Side::transposed : Side::as_is, shape.m, shape.n,
             shape.k, a, b, c);
  };
  made.theirs = [shape](Library& library, int way) {
    return library.product(shape, way);
  };
  return made;
}

/// Troupe's operator for a convolution.
class OwnWindows {
public:
  explicit OwnWindows(const Convolution& shape) : shape_(shape) {
    graph_.values.push_back(
      {"x", {shape.height, shape.width, shape.channels}, ValueType::float32});
    graph_.values.push_back({"y",
                             {shape.out_height, shape.out_width, shape.units},
                             ValueType::float32});
    Parameter weights;
    weights.shape = {shape.kernel, shape.kernel, shape.channels / shape.groups,
                     shape.units};
    graph_.parameters.push_back(weights);
    Op op;
    op.kind = OpKind::conv2d;
    op.inputs = {0};
    op.output = 1;
    op.parameters = {0};
    op.attributes.units = shape.units;
    op.attributes.kernel = static_cast<uint32_t>(shape.kernel);
    op.attributes.stride = static_cast<uint32_t>(shape.stride);
    op.attributes.padding = static_cast<uint32_t>(shape.padding);
    op.attributes.groups = static_cast<uint32_t>(shape.groups);
    op.attributes.bias = false;
    graph_.ops.push_back(op);
    const auto rows = static_cast<uint32_t>(shape.rows);
    operator_ =
      make_cpu_operator({graph_, graph_.ops[0], rows, Precision::float32});
    scratch_ = Buffer(operator_->needs().scratch.of(rows) + 1);
    args_.rows = rows;
    args_.training = true;
    args_.scratch = scratch_.data();
    args_.accumulate_inputs = {0};
    args_.accumulate_parameters = {0};
  }

  void run(float* x, float* weights, float* y) {
    args_.inputs = {x};
    args_.parameters = {weights};
    args_.output = args_.output_gradient = y;
    if (shape_.pass == Pass::forward) {
      operator_->forward(args_);
      return;
    }
    const bool of_input = shape_.pass == Pass::input_gradient;
    args_.half = of_input ? BackwardHalf::inputs : BackwardHalf::weights;
    args_.input_gradients = {of_input ? x : nullptr};
    args_.parameter_gradients = {of_input ? nullptr : weights};
    operator_->backward(args_);
  }

private:
  Convolution shape_;
  Graph graph_;
  OperatorPtr operator_;
  Buffer scratch_;
  OpArgs args_;
};

Case case_of(const Convolution& shape) {
  static const char* const passes[] = {"forward", "to input", "to weights"};
  const auto pass = static_cast<size_t>(shape.pass);
  Case made;
  made.name =
    "convolution " + std::to_string(shape.rows) + " x ["
    + std::to_string(shape.height) + ", " + std::to_string(shape.width) + ", "
    + std::to_string(shape.channels) + "] to " + std::to_string(shape.units)
    + ", " + std::to_string(shape.kernel) + " / " + std::to_string(shape.stride)
    + (shape.groups > 1 ? ", groups " + std::to_string(shape.groups) : "")
    + ", " + passes[pass];
  const auto taps = shape.kernel * shape.kernel * shape.channels / shape.groups;
  made.sizes[0] = shape.rows * shape.height * shape.width * shape.channels;
  made.sizes[1] = taps * shape.units;
  made.sizes[2] = shape.rows * shape.out_height * shape.out_width * shape.units;
  made.written = shape.pass == Pass::forward          ? 2
                 : shape.pass == Pass::input_gradient ? 0
                                                      : 1;
  made.flops = 2.0 * static_cast<double>(made.sizes[2] * taps);
  const auto own = std::make_shared<OwnWindows>(shape);
  made.ours = [own](float* a, float* b, float* c) { own->run(a, b, c); };
  made.theirs = [shape](Library& library, int way) {
    return library.convolution(shape, way);
  };
  return made;
}

/// Cases, each once.
class Cases {
public:
  void add(const Case& given) {
    if (names_.insert(given.name).second)
      all_.push_back(given);
  }

  /// Nobody asks for the gradient of a batch's features.
  void add_model(const std::string& model, const SampleShape& sample,
                 size_t rows) {
    const auto graph = make_graph(model, sample);
    for (const auto& op : graph.ops) {
      const auto& in = graph.values[op.inputs[0]].shape;
      const auto& out = graph.values[op.output].shape;
      const bool first = op.inputs[0] == graph.features_value;
      if (op.kind == OpKind::dense)
        add_dense(rows * elements(in) / in.back(), in.back(),
                  op.attributes.units, op.attributes.transposed, first);
      else if (op.kind == OpKind::conv2d)
        add_convolution({Pass::forward, rows, in[0], in[1], in[2], out[0],
                         out[1], out[2], op.attributes.kernel,
                         op.attributes.stride, op.attributes.padding,
                         op.attributes.groups},
                        first);
    }
  }

  void add_convolution(Convolution shape, bool first = false) {
    for (auto pass :
         {Pass::forward, Pass::input_gradient, Pass::weight_gradient}) {
      shape.pass = pass;
      if (!first || pass != Pass::input_gradient)
        add(case_of(shape));
    }
  }

  const std::vector<Case>& all() const { return all_; }

private:
  /// y = x w, dx = dy w^T, dw = x^T dy; a transposed weight lies [units, n].
  void add_dense(size_t rows, size_t n, size_t units, bool transposed,
                 bool first) {
    add(case_of(Product{rows, units, n, false, transposed}));
    if (!first)
      add(case_of(Product{rows, n, units, false, !transposed}));
    add(case_of(transposed ? Product{units, n, rows, true, false}
                           : Product{n, units, rows, true, false}));
  }

  std::vector<Case> all_;
  std::set<std::string> names_;
};

SampleShape images(uint64_t side, uint64_t channels) {
  SampleShape sample;
  sample.features = {side, side, channels};
  sample.classes = 10;
  return sample;
}

SampleShape text() {
  SampleShape sample;
  sample.vocabulary = 96;
  sample.label = LabelKind::tokens;
  return sample;
}

/// A virtual rank's micro-batch of each.
Cases all_cases() {
  Cases cases;
  for (size_t n : {256, 1024})
    cases.add(case_of(Product{n, n, n, false, false}));
  cases.add_model("mlp:784-512-256-10", images(28, 1), 64);
  cases.add_model("cnn", images(28, 1), 16);
  cases.add_model("resnet8", images(32, 3), 16);
  cases.add_model("resnet20", images(32, 3), 16);
  cases.add_model("transformer:L4-H4-D128-T64", text(), 16);
  cases.add_model("transformer:L6-H6-D384-T128", text(), 4);
  cases.add_model("dlrm", {}, 64);
  cases.add_model("wide_deep", {}, 64);
  cases.add_convolution({Pass::forward, 2, 56, 56, 64, 56, 56, 64, 3, 1, 1, 1});
  cases.add_convolution(
    {Pass::forward, 2, 28, 28, 128, 14, 14, 128, 3, 2, 1, 1});
  cases.add_convolution(
    {Pass::forward, 2, 14, 14, 256, 14, 14, 256, 3, 1, 1, 1});
  return cases;
}

// -- measuring ----------------------------------------------------------------

/// A contestant at a case, and its times.
struct Runner {
  size_t who; ///< 0: Troupe; then the libraries
  std::function<void()> run;
  size_t runs = 1;
  std::vector<double> times; ///< of one run

  double median() {
    auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return *middle;
  }
};

constexpr double batch_seconds = 2e-3;

void count_runs(Runner& runner) {
  runner.run();
  const auto begin = seconds();
  runner.run();
  runner.runs = static_cast<size_t>(
    std::clamp(batch_seconds / (seconds() - begin), 1.0, 1e6));
}

void time_once(Runner& runner) {
  const auto begin = seconds();
  for (size_t i = 0; i < runner.runs; ++i)
    runner.run();
  runner.times.push_back((seconds() - begin)
                         / static_cast<double>(runner.runs));
}

/// Refuses another result than Troupe's, beyond what rounding may do.
void compare(const std::string& what, const Buffer& own, const Buffer& other,
             size_t depth) {
  const auto most = 1e-5 * std::sqrt(static_cast<double>(depth)) + 1e-5;
  for (size_t i = 0; i < own.size(); ++i) {
    const auto difference = std::abs(double{own.data()[i]} - other.data()[i]);
    if (!(difference <= most * std::max(1.0, std::abs(double{own.data()[i]}))))
      throw InputError(what + ", element " + std::to_string(i) + ": "
                       + std::to_string(other.data()[i]) + " rather than "
                       + std::to_string(own.data()[i]));
  }
}

/// Median seconds of each contestant; negative: it has no such pass.
std::vector<double>
measure(const Case& given,
        const std::vector<std::unique_ptr<Library>>& libraries, size_t rounds) {
  Buffer operands[3];
  for (uint32_t i = 0; i < 3; ++i)
    operands[i] = drawn(given.sizes[i], i + 1);
  Buffer results[2] = {Buffer(given.sizes[given.written]),
                       Buffer(given.sizes[given.written])};
  const auto at = [&](int operand, size_t result) {
    return operand == given.written ? results[result].data()
                                    : operands[operand].data();
  };
  std::vector<Runner> runners;
  runners.push_back(
    {0, [&] { given.ours(at(0, 0), at(1, 0), at(2, 0)); }, 1, {}});
  runners[0].run();
  const auto depth = static_cast<size_t>(
    given.flops / 2 / static_cast<double>(given.sizes[given.written]));
  std::vector<std::unique_ptr<Prepared>> prepared;
  for (size_t i = 0; i < libraries.size(); ++i)
    for (int way = 0; way < ways; ++way) {
      std::unique_ptr<Prepared> one{given.theirs(*libraries[i], way)};
      if (one == nullptr)
        continue;
      auto* pass = one.get();
      prepared.push_back(std::move(one));
      runners.push_back(
        {i + 1,
         [pass, at] { pass->run(at(0, 1), at(1, 1), at(2, 1)); },
         1,
         {}});
      results[1].fill(0);
      runners.back().run();
      compare(given.name + ", " + libraries[i]->name(), results[0], results[1],
              depth);
    }
  for (auto& runner : runners)
    count_runs(runner);
  for (size_t round = 0; round < rounds; ++round)
    for (auto& runner : runners)
      time_once(runner);
  std::vector<double> best(libraries.size() + 1, -1);
  for (auto& runner : runners) {
    auto& least = best[runner.who];
    const auto time = runner.median();
    least = least < 0 ? time : std::min(least, time);
  }
  return best;
}

#if defined(__clang__)
#  define UNROLL _Pragma("unroll")
#else
#  define UNROLL _Pragma("GCC unroll 12")
#endif

/// Twelve chains of fused multiply-adds in registers; the lanes of a vector
/// come out of `sink`. The limit of products.
#define FUSED_LOOP(Vector, set1, fmadd, add) \
  volatile float seed = 0.999f; \
  const Vector x = set1(seed); \
  Vector sums[12]; \
  for (auto& sum : sums) \
    sum = set1(seed); \
  for (size_t i = 0; i < turns; ++i) { \
    UNROLL for (auto& sum : sums) sum = fmadd(sum, x, x); \
  } \
  for (auto& sum : sums) \
    sums[0] = add(sums[0], sum); \
  return static_cast<float>(sums[0][0]);

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) float fused_avx2(size_t turns) {
  FUSED_LOOP(__m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps)
}
__attribute__((target("avx512f"))) float fused_avx512(size_t turns) {
  FUSED_LOOP(__m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps)
}
#else
float fused_neon(size_t turns) {
  FUSED_LOOP(float32x4_t, vdupq_n_f32, vfmaq_f32, vaddq_f32)
}
#endif
#undef FUSED_LOOP
#undef UNROLL

/// FLOP/s of these.
double fused_rate(Isa isa, size_t rounds) {
  constexpr size_t turns = 1 << 20;
#if defined(__x86_64__)
  auto* const loop = isa == Isa::avx512 ? fused_avx512 : fused_avx2;
  const double lanes = isa == Isa::avx512 ? 16 : 8;
#else
  auto* const loop = fused_neon;
  const double lanes = 4;
#endif
  volatile float sink = loop(turns);
  double best = 1e9;
  for (size_t i = 0; i < rounds; ++i) {
    const auto begin = seconds();
    sink = loop(turns);
    best = std::min(best, seconds() - begin);
  }
  (void)sink;
  return 2 * 12 * lanes * turns / best;
}

// -- what is said -------------------------------------------------------------

/// Ratios to the best of the libraries.
struct Ratios {
  double logarithms = 0;
  double least = 1e9;
  std::string where;
  size_t count = 0;

  void add(const std::string& name, double ratio) {
    logarithms += std::log(ratio);
    ++count;
    if (ratio < least) {
      least = ratio;
      where = name;
    }
  }
  void print(const char* what) const {
    if (count > 0)
      std::printf("%s: %zu shapes, geometric mean %.3f of the best library's "
                  "speed, least %.3f (%s)\n",
                  what, count,
                  std::exp(logarithms / static_cast<double>(count)), least,
                  where.c_str());
  }
};

struct Flags {
  std::string isa;
  size_t rounds = 15;
  std::string only;
  std::string json;
  std::vector<std::string> libraries;
};

Flags flags_of(int count, char** words) {
  Flags flags;
  flags.isa = name_of(highest_isa());
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (!word.starts_with("--")) {
      flags.libraries.push_back(word);
      continue;
    }
    if (i + 1 == count)
      throw UsageError("yardsticks: " + word + " needs a value");
    const std::string value = words[++i];
    if (word == "--isa")
      flags.isa = value;
    else if (word == "--rounds")
      flags.rounds = std::max<size_t>(1, std::stoul(value));
    else if (word == "--only")
      flags.only = value;
    else if (word == "--json")
      flags.json = value;
    else
      throw UsageError("yardsticks: unknown flag " + word);
  }
  return flags;
}

Isa isa_of(const std::string& name) {
  for (auto isa : every_isa)
    if (name == name_of(isa) && has_isa(isa) && fuses(isa))
      return isa;
  throw UsageError("yardsticks: --isa " + name
                   + ": not one of this machine's with fused multiply-adds");
}

void run(const Flags& flags) {
  const auto isa = isa_of(flags.isa);
  // For libraries that read it when they are loaded.
  setenv("OMP_NUM_THREADS", "1", 1);
  if (isa == Isa::avx2)
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
  // Not select_isa(): it would pin this program's oneDNN, perhaps the very one
  // that is to be measured.
  select_loops(isa);
  prepare_compute_thread();
  std::vector<std::unique_ptr<Library>> libraries;
  std::set<std::string> names;
  for (const auto& path : flags.libraries) {
    libraries.push_back(open(path, flags.isa.c_str()));
    if (!names.insert(libraries.back()->name()).second)
      throw UsageError(path + " is " + libraries.back()->name()
                       + " again: files of one soname are loaded once; measure "
                         "one version a run");
  }
  const auto peak = fused_rate(isa, flags.rounds);
  std::printf("one thread, %s, processor time, median of %zu rounds by turns; "
              "fused multiply-adds in registers: %.1f GFLOP/s\n%-64s %9s",
              flags.isa.c_str(), flags.rounds, peak * 1e-9, "", "GFLOP/s");
  for (const auto& library : libraries)
    std::printf(" %20s", library->name());
  std::printf("\n");
  Ratios products;
  Ratios convolutions;
  nlohmann::json rows = nlohmann::json::array();
  const auto cases = all_cases();
  for (const auto& given : cases.all()) {
    if (given.name.find(flags.only) == std::string::npos)
      continue;
    const auto times = measure(given, libraries, flags.rounds);
    std::printf("%-64s %9.1f", given.name.c_str(),
                given.flops / times[0] * 1e-9);
    nlohmann::json row = {{"name", given.name},
                          {"flops", given.flops},
                          {"isa", flags.isa},
                          {"ours_us", times[0] * 1e6},
                          {"limit_share", given.flops / times[0] / peak}};
    double best = 0;
    for (size_t i = 0; i < libraries.size(); ++i) {
      const auto time = times[i + 1];
      if (time < 0) {
        std::printf(" %20s", "-");
        continue;
      }
      std::printf(" %20.3f", time / times[0]);
      row["peers"][libraries[i]->name()] = time * 1e6;
      best = best > 0 ? std::min(best, time) : time;
    }
    std::printf("\n");
    std::fflush(stdout);
    if (best > 0)
      (given.name.starts_with("product") ? products : convolutions)
        .add(given.name, best / times[0]);
    rows.push_back(row);
  }
  products.print("products");
  convolutions.print("convolutions");
  if (flags.json.empty())
    return;
  std::ofstream file{flags.json};
  file << rows.dump(2) << '\n';
  if (!file.flush())
    throw InputError(flags.json + " cannot be written");
}

} // namespace

int main(int count, char** words) {
  try {
    run(flags_of(count, words));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return dynamic_cast<const UsageError*>(&error) != nullptr ? 2 : 1;
  }
  return 0;
}
