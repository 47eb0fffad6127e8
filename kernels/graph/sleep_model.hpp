#pragma once

#include "kernels/graph/graph.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A model that waits instead of computing, for figures and proofs of
/// protocols: sleep:Tms has one scalar parameter, sleep:Tms-N has N of them. A
/// gradient takes T and is the parameters themselves, times the rows; with
/// count:Tms-N it is -1, times the rows, and the parameters begin at 0: under
/// --optimizer sgd --lr 1 each counts the updates it has had.
/// Of samples with ids either has a table of rows of N values, which begin at
/// 1; a micro-batch has a gradient of the rows that it has, the row itself.
/// Beside the rows, T ms-N-M has M dense parameters, as those of no ids.
/// sleep:Tms+Ums+…-N has layers for stages, each with N parameters: one takes T
/// forward, and T for each half of its backward pass.
struct SleepModel {
  uint32_t ms = 0; ///< that each gradient of a micro-batch waits
  uint64_t parameters = 1;
  bool counts = false;
  uint64_t beside = 0;          ///< dense parameters beside a table
  std::vector<uint32_t> layers; ///< ms of each; empty: it has none
};

/// Nothing if the text names another model.
/// Errors: UsageError.
std::optional<SleepModel> sleep_model(const std::string& model);

/// A graph that says what the model trains and which labels it is given; its
/// operators are none that a device could run. It takes any samples and reads
/// none of their features.
Graph sleep_graph(const std::string& model, const SleepModel& sleep,
                  const SampleShape& sample);

} // namespace troupe
