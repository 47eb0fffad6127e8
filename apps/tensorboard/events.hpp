#pragma once

#include "kernels/cpu/value_spread.hpp"
#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// What TensorBoard reads, as serialized messages tensorflow.Event. Times are
/// Unix seconds.
/// Source: tensorboard/compat/proto/event.proto, summary.proto, graph.proto;
/// tensorboard/plugins/hparams/plugin_data.proto.
namespace tensorboard {

/// A file's first.
std::string version_event(double time);
/// A run begins, or goes on, here: what earlier files of the folder have from
/// this step on is not shown.
std::string start_event(double time, uint64_t step);

struct Scalar {
  std::string tag; ///< "loss", "evaluation/accuracy"
  double value = 0;
};
std::string scalar_event(double time, uint64_t step,
                         const std::vector<Scalar>& scalars);

struct NamedSpread {
  std::string tag; ///< "weights/dense_0/weight"
  ValueSpread spread;
};
std::string histogram_event(double time, uint64_t step,
                            const std::vector<NamedSpread>& spreads);

/// A node for each operator, and one for the samples.
std::string graph_event(double time, const Graph& graph);

/// A session begins with these hyperparameters: numbers where they read as
/// such.
std::string begin_event(double time,
                        const std::map<std::string, std::string>& parameters);
enum class End : uint8_t { success = 1, failure = 2 };
std::string end_event(double time, End end);

} // namespace tensorboard
} // namespace troupe
