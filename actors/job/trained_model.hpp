#pragma once

#include "actors/job/job.hpp"
#include "actors/wire/messages/supervision.hpp"
#include "kernels/base/buffer.hpp"
#include "kernels/engine/executor.hpp"
#include "kernels/engine/replica.hpp"
#include "kernels/graph/models.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// A model whose weights came from a file.
struct TrainedModel {
  Graph graph;       ///< in as many virtual slices as were asked for
  Buffer parameters; ///< flat, by Layout(graph)
  std::string weights_sha256;
};

/// Reads the weights of a model for samples of a shape from a safetensors file,
/// which has them whole. What is computed with them has the bits of a run whose
/// --virtual-slices are `slices`.
/// Errors: UsageError for the model, or slices that it cannot have; InputError
/// for the file, also where its tensors are not the model's by name and shape.
TrainedModel load_trained_model(const std::string& model,
                                const SampleShape& shape,
                                const std::string& path, uint32_t slices = 1);

/// What the weights in a file or folder say of the data that they were trained
/// on: the columns of a table, characters of a text or its tokenizer,
/// scale=standard; of a folder of Hugging Face's its tokenizer; null where they
/// say nothing.
/// Errors: InputError for the file.
std::shared_ptr<FittedColumns> kept_columns(const std::string& path);

/// What the weights in a file or folder say of themselves.
struct KeptModel {
  /// --model of the training, or that folder's config.json; empty: they do not
  /// say.
  std::string model;
  std::string text; ///< the same, or what that file held then
  std::shared_ptr<FittedColumns> columns; ///< as kept_columns()
};
/// Errors: InputError for the file.
KeptModel kept_model(const std::string& path);

/// How many ids a language model whose weights are in a file or folder knows:
/// the characters that are kept with them, or the rows of its table of tokens.
/// Errors: UsageError for the model; InputError for the file, and where there
/// is no such table.
uint32_t vocabulary_of(const std::string& model, const std::string& path,
                       const KeptModel& kept);

/// How a job's samples differ from those that the weights in a file or folder
/// were trained on, in what their numbers stand for, up to a line's "--data":
/// "column \"city\" has other values than that of"; empty where they do not, or
/// one of both says nothing. Errors: InputError for the file.
std::string other_meaning(const Job& job, const std::string& path);

/// Gives samples without labels the kind of those that the weights in a file or
/// folder were trained on, where these say it.
/// Errors: InputError for the file.
void take_label_kind(Dataset& data, const std::string& path);

/// Which samples are judged: those that the training of these weights, if it
/// was on this data, held out; else what the options say. Sets `eval_fraction`
/// and `data` of the options so; returns whether training had seen the others.
/// Errors: InputError for the file, and where the options hold out others than
/// training did.
bool keep_split(JobOptions& options, const std::string& path);

/// What a trained model makes of samples.
struct Scores {
  uint64_t samples = 0;
  double loss = 0;     ///< mean over the samples, nats
  double accuracy = 0; ///< 0 … 1, of the labels; not of numbers
  /// The loss first. Classes: and accuracy. Binary: accuracy, auc. Tokens:
  /// perplexity, accuracy. Numbers: the loss alone, the mean squared error.
  /// None where samples have no labels.
  std::vector<Measure> measures;
  std::vector<int32_t> predictions; ///< class index of each label
  /// [samples, graph.outputs()]: of each label the logit of 1, or the value; or
  /// the logits of all classes, which are empty unless they are asked for.
  std::vector<float> outputs;
};

/// Gives ids the numbers that a graph's tables have them under.
using Renumber = std::function<void(int32_t* ids, size_t count)>;

/// Computes all samples in micro-batches, spread over the executor's threads;
/// the result does not depend on their number. Call from a task of it.
/// `renumber`: empty where ids are those of the data. `logits`: those of all
/// classes are wanted.
/// Shapes: parameters flat by Layout(graph).
/// Errors: InputError where the memory for logits is not there.
Scores score_on(Executor& executor, const Graph& graph, const float* parameters,
                const Dataset& data, DeviceId device,
                const Renumber& renumber = {}, bool logits = false);

/// Computes all samples in micro-batches on one device, whose threads each take
/// some; the result does not depend on their number.
Scores score(const TrainedModel& model, const Dataset& data, DeviceId device,
             uint32_t threads, bool logits = false);

} // namespace troupe
