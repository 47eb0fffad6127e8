#pragma once

#include "kernels/collective/reducer.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/graph.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/stablehlo/program.hpp"

#include <cstdint>
#include <vector>

namespace troupe::kernels::stablehlo {

/// What a program takes of a micro-batch besides parameters, in the order of
/// its arguments; types and shapes as BatchTensors says.
enum class BatchField : uint8_t {
  features,
  ids,
  labels,
  targets,
  key,
  step_rows,
  step_leaves,
};

/// A pass of a graph over micro-batches of one number of rows.
struct PassProgram {
  Program program;
  std::vector<BatchField> batch;
  bool counts = false; ///< results have `correct` (and `classes`)
};

/// Arguments: parameters, batch. Results: losses f32 [rows]; correct i32, where
/// the loss counts; the gradient of the summed loss for each parameter.
/// Errors: InputError for an operator, or an attribute, that is not written as
/// StableHLO; it names it.
PassProgram gradient_program(const Graph& graph, uint32_t rows,
                             Precision precision);

/// Arguments: two gradients, each as the parameters are. Results: their sum,
/// which takes the first one's memory.
Program addition_program(const Graph& graph);

/// Run by `replicas` together, each with `vectors` gradients of its own: what
/// they have is summed as the program says, whose members are replicas, and all
/// get the sum. Each adds up a share of all elements and gives it to the others
/// (two passes of (replicas - 1) / replicas of a gradient, as a ring has).
/// Arguments: gradients, each as the parameters are. Results: their sum.
Program sum_program(const Graph& graph, uint32_t replicas, uint32_t vectors,
                    const SumProgram& order);
/// The same of one gradient of each, in an order that is the compiler's.
Program any_order_sum_program(const Graph& graph, uint32_t replicas);

/// Arguments: parameters, batch. Results: losses; correct and classes i32
/// [rows, labels], where the loss counts; what the loss takes.
/// Errors: likewise.
PassProgram evaluation_program(const Graph& graph, uint32_t rows,
                               Precision precision);

/// What an update changes by, beside gradients: one f32 argument, so that a
/// schedule compiles nothing anew.
struct UpdateNumbers {
  float samples = 1;
  float clip_norm = 0;
  float step_size = 0;
  float root_scale = 1;
  float first_scale = 1;
  float keep = 1; ///< of parameters that decay
  float threshold = 0;
  float ftrl_denominator = 0;
};
constexpr uint64_t update_number_count = 8;
/// Source: the terms of the CPU's update (optimizer/terms.hpp).
UpdateNumbers update_numbers(const OptimizerOptions& rule, uint64_t step,
                             float learning_rate, float samples,
                             double clip_norm);

struct UpdateShape {
  bool clips = false;
  bool lazy_tables = false; ///< of rows whose gradient is 0 nothing changes
};

/// Arguments: parameters, each slot of state for all parameters, gradients'
/// sums, numbers f32 [update_number_count]. Results: parameters and state,
/// which take their arguments' memory; f32, how many elements of the sums are
/// not finite. Where there is one, parameters and state are as they were.
Program update_program(const Graph& graph, const OptimizerOptions& rule,
                       UpdateShape shape);

} // namespace troupe::kernels::stablehlo
