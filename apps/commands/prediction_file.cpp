#include "apps/commands/prediction_file.hpp"

#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"
#include "kernels/files/npy_header.hpp"
#include "kernels/files/shown_text.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

bool is_array(const PredictionFile& file) {
  return file.path.ends_with(".npy");
}

bool has_one_logit(const Graph& graph) {
  return graph.loss().kind == OpKind::sigmoid_cross_entropy;
}

std::string name_of(const PredictionFile& file, size_t index) {
  return index < file.names.size() ? shown_text(file.names[index])
                                   : std::to_string(index);
}

/// As tables with commas have a name. Source: RFC 4180.
std::string as_field(const std::string& text) {
  if (text.find_first_of(",\"") == text.npos)
    return text;
  std::string out = "\"";
  for (auto c : text)
    out += c == '"' ? std::string{"\"\""} : std::string{c};
  return out + '"';
}

std::string title_of(const PredictionFile& file, const Graph& graph,
                     size_t width) {
  if (width == 1)
    return as_field(name_of(file, 1)) + '\n'; // the logit of class 1
  std::string line;
  for (size_t i = 0; i < graph.classes(); ++i)
    line += (i > 0 ? "," : "") + as_field(name_of(file, i));
  return line + '\n';
}

std::string table_of(const std::vector<float>& values, size_t width) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i)
    text += print_real(values[i]) + ((i + 1) % width == 0 ? '\n' : ',');
  return text;
}

template <class T>
std::string array_of(const std::string& type, std::vector<uint64_t> shape,
                     const std::vector<T>& values) {
  auto bytes = npy_header(type, shape);
  bytes.append(reinterpret_cast<const char*>(values.data()),
               values.size() * sizeof(T));
  return bytes;
}

} // namespace

void check_prediction_file(const PredictionFile& file, const Graph& graph) {
  const auto output = "--output " + file.output;
  if (file.output != "class" && graph.classes() == 0)
    throw UsageError(output + ": --model " + graph.text
                     + " gives numbers, not classes; leave it out");
  if (file.output == "class" && is_array(file) && !file.names.empty())
    throw UsageError("--out " + file.path
                     + ": the classes of these data are texts, and an array "
                       "holds numbers; name a .txt file, or add --output "
                       "probabilities");
}

std::vector<float> probabilities_of(const Graph& graph,
                                    const std::vector<float>& logits) {
  std::vector<float> out;
  if (has_one_logit(graph)) {
    for (auto logit : logits)
      for (auto sign : {1.0, -1.0}) // of class 0, of class 1
        out.push_back(static_cast<float>(1 / (1 + std::exp(sign * logit))));
    return out;
  }
  const auto classes = static_cast<ptrdiff_t>(graph.classes());
  std::vector<double> row;
  for (auto from = logits.begin(); from != logits.end(); from += classes) {
    const double largest = *std::max_element(from, from + classes);
    double sum = 0;
    row.clear();
    for (auto at = from; at != from + classes; ++at) {
      row.push_back(std::exp(*at - largest));
      sum += row.back();
    }
    for (auto value : row)
      out.push_back(static_cast<float>(value / sum));
  }
  return out;
}

std::string contents_of(const PredictionFile& file, const Graph& graph,
                        const Scores& scores) {
  std::vector<uint64_t> shape{scores.samples};
  if (graph.labels() > 1)
    shape.push_back(graph.labels());
  if (file.output != "class") {
    const auto values = file.output == "logits"
                          ? scores.outputs
                          : probabilities_of(graph, scores.outputs);
    const auto width = values.size() / (scores.samples * graph.labels());
    if (width > 1)
      shape.push_back(width);
    return is_array(file)
             ? array_of("<f4", shape, values)
             : title_of(file, graph, width) + table_of(values, width);
  }
  if (is_array(file))
    return graph.classes() > 0 ? array_of("<i4", shape, scores.predictions)
                               : array_of("<f4", shape, scores.outputs);
  if (graph.classes() == 0)
    return table_of(scores.outputs, 1);
  std::string text;
  for (auto index : scores.predictions)
    text += name_of(file, static_cast<size_t>(index)) + '\n';
  return text;
}

} // namespace troupe
