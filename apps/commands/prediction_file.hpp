#pragma once

#include "actors/job/trained_model.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// What `troupe predict` writes, and in which form.
struct PredictionFile {
  std::string path;               ///< .npy: an array of NumPy, else text
  std::string output;             ///< class, probabilities or logits
  std::vector<std::string> names; ///< of classes; empty: they have numbers
};

/// Errors: UsageError where a model of this graph cannot give that, or the file
/// cannot hold it.
void check_prediction_file(const PredictionFile& file, const Graph& graph);

/// The file's bytes. Text has a line for each label (of text data for each
/// place of each window, one window after another): the class's index or name,
/// or the number; probabilities and logits as a table with commas apart, under
/// a line of the classes' names. An array is [samples], of text [samples,
/// window], int32 or float32; of probabilities and logits [..., classes], in
/// the order of the classes' indices. Of two classes with one logit (sigmoid)
/// there are two probabilities and that logit.
std::string contents_of(const PredictionFile& file, const Graph& graph,
                        const Scores& scores);

/// What logits say of classes: the softmax of rows of graph.classes(), or of
/// each logit those of class 0 and 1. Computed in float64.
/// Shapes: logits [labels, classes], or of sigmoid [labels]; the result
/// [labels, classes].
std::vector<float> probabilities_of(const Graph& graph,
                                    const std::vector<float>& logits);

} // namespace troupe
