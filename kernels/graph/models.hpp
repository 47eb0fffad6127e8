#pragma once

#include "kernels/graph/graph.hpp"
#include "kernels/graph/model_spec.hpp"

#include <string>

namespace troupe {

/// Makes a graph from a model specification for samples of a shape; where the
/// shape is not known(), the one that the model was made for.
///   mlp:784-512-256-10       dense layers, relu between them; features are
///                            flattened
///   cnn, resnet8, resnet20   images
///   transformer:L4-H4-D128-T64[-P0.1]  GPT-style; tokens
///   gpt2:L4-H4-D128-T64[-P0.1]  the same with GPT-2's biases and activation
///   llama:L4-H4-K2-D128-T64[-F352][-P0.1]  Llama-style; tokens
///   dlrm, wide_deep          ids, with or without features
///   logreg                   ids with features as their weights, or features
///   sleep:20ms[-N]           waits instead of computing; sleep_model.hpp
///   FILE.json, FILE.toml     any graph of the operators; docs/models.md
///   {…}                      the text of such a JSON file
/// Graph::text makes the same graph elsewhere: it holds what a file held.
/// Errors: UsageError for an unknown kind, bad numbers, operators whose shapes
/// do not fit (names operator and shapes); InputError for a file that cannot
/// be read, and for a data set that does not fit the model.
Graph make_graph(const std::string& model, const SampleShape& sample = {});

/// The model as plain data, fitted to samples of a shape; see make_graph.
ModelSpec model_spec(const std::string& model, const SampleShape& sample = {});

/// What names the same model on a machine without the file: the text of a
/// file, else the model as it is.
/// Errors: of model_spec.
std::string portable_model(const std::string& model);

} // namespace troupe
