#include "apps/bench/operator_sites.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::sites {

namespace {

using kernels::OpArgs;

double relu(double x) {
  return std::max(x, 0.0);
}

double dense_at(const OperatorSite& site, const OpArgs& args, size_t at) {
  const auto n = site.input.back();
  const auto units = site.output.back();
  const auto unit = at % units;
  double sum = args.parameters[1][unit];
  for (size_t i = 0; i < n; ++i)
    sum += double{args.inputs[0][at / units * n + i]}
           * args.parameters[0][i * units + unit];
  return site.attributes.activation == Activation::relu ? relu(sum) : sum;
}

double conv_at(const OperatorSite& site, const OpArgs& args, size_t at) {
  const auto height = static_cast<int64_t>(site.input[0]);
  const auto width = static_cast<int64_t>(site.input[1]);
  const auto units = site.output[2];
  const auto unit = at % units;
  const auto channels = site.input[2] / site.attributes.groups;
  const auto first = unit / (units / site.attributes.groups) * channels;
  const auto column = at / units % site.output[1];
  const auto row = at / units / site.output[1] % site.output[0];
  const auto sample = at / elements(site.output);
  const auto& a = site.attributes;
  double sum = args.parameters[1][unit];
  for (uint32_t i = 0; i < a.kernel; ++i)
    for (uint32_t j = 0; j < a.kernel; ++j) {
      const auto y = static_cast<int64_t>(row * a.stride + i) - a.padding;
      const auto x = static_cast<int64_t>(column * a.stride + j) - a.padding;
      if (y < 0 || x < 0 || y >= height || x >= width)
        continue;
      const auto pixel = static_cast<size_t>(
        (static_cast<int64_t>(sample) * height + y) * width + x);
      for (size_t c = 0; c < channels; ++c)
        sum += double{args.inputs[0][pixel * site.input[2] + first + c]}
               * args.parameters[0][((i * a.kernel + j) * channels + c) * units
                                    + unit];
    }
  return a.activation == Activation::relu ? relu(sum) : sum;
}

double softmax_at(const OperatorSite& site, const OpArgs& args, size_t at) {
  const auto n = site.input.back();
  const auto* row = args.inputs[0] + at / n * n;
  double sum = 0;
  for (size_t i = 0; i < n; ++i)
    sum += std::exp(double{row[i]});
  return std::exp(double{row[at % n]}) / sum;
}

double layer_norm_at(const OperatorSite& site, const OpArgs& args, size_t at) {
  const auto n = site.input.back();
  const auto* row = args.inputs[0] + at / n * n;
  double mean = 0;
  double variance = 0;
  for (size_t i = 0; i < n; ++i)
    mean += row[i] / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i)
    variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(n);
  return (row[at % n] - mean) / std::sqrt(variance + site.attributes.epsilon)
           * args.parameters[0][at % n]
         + args.parameters[1][at % n];
}

double attention_at(const OperatorSite& site, const OpArgs& args, size_t at) {
  const auto length = site.output[0];
  const auto d = site.output[1];
  const auto size = d / site.attributes.heads;
  const auto head = at % d / size * size;
  const auto position = at / d % length;
  const auto* sample = args.inputs[0] + at / (d * length) * length * 3 * d;
  const auto visible = site.attributes.causal ? position + 1 : length;
  double sum = 0;
  double result = 0;
  for (size_t j = 0; j < visible; ++j) {
    double score = 0;
    for (size_t i = 0; i < size; ++i)
      score += double{sample[position * 3 * d + head + i]}
               * sample[j * 3 * d + d + head + i];
    const auto weight = std::exp(score / std::sqrt(static_cast<double>(size)));
    sum += weight;
    result += weight * sample[j * 3 * d + 2 * d + at % d];
  }
  return result / sum;
}

double embedding_at(const OperatorSite& site, const OpArgs& args, size_t at) {
  const auto width = site.attributes.width;
  const auto id = static_cast<size_t>(args.ids(0)[at / width]);
  return args.parameters[0][id * width + at % width];
}

/// Bytes of what each pass reads and writes once.
void count_bytes(OperatorSite& site) {
  const auto inputs = site.rows * elements(site.input);
  const auto outputs = site.rows * elements(site.output);
  size_t parameters = 0;
  for (const auto& shape : site.parameters)
    parameters += elements(shape);
  site.forward_bytes = (inputs + outputs + parameters) * sizeof(float);
  site.backward_bytes = (2 * inputs + outputs + 2 * parameters) * sizeof(float);
}

} // namespace

OperatorSite dense(uint32_t rows, const Shape& input, uint64_t units,
                   Activation activation) {
  OperatorSite site;
  site.name = "dense";
  site.attributes.units = units;
  site.attributes.activation = activation;
  site.rows = rows;
  site.input = input;
  site.output = input;
  site.output.back() = units;
  site.parameters = {{input.back(), units}, {units}};
  site.flops = 2.0 * rows * static_cast<double>(elements(input) * units);
  site.shape = std::to_string(rows) + " x " + to_string(input) + " -> "
               + std::to_string(units);
  site.reference = dense_at;
  count_bytes(site);
  return site;
}

OperatorSite conv(uint32_t rows, uint64_t side, uint64_t channels,
                  uint64_t units, uint32_t stride, uint32_t kernel,
                  uint32_t groups) {
  OperatorSite site;
  site.kind = OpKind::conv2d;
  site.name = groups > 1 ? "conv2d, groups" : "conv2d";
  site.attributes.units = units;
  site.attributes.kernel = kernel;
  site.attributes.stride = stride;
  site.attributes.padding = kernel / 2;
  site.attributes.groups = groups;
  site.attributes.activation = Activation::relu;
  site.rows = rows;
  site.input = {side, side, channels};
  site.output = {(side - 1) / stride + 1, (side - 1) / stride + 1, units};
  site.parameters = {{kernel, kernel, channels / groups, units}, {units}};
  site.flops = 2.0 * rows
               * static_cast<double>(elements(site.output) * kernel * kernel
                                     * channels / groups);
  site.shape = std::to_string(rows) + " x " + to_string(site.input) + " -> "
               + to_string(site.output);
  site.reference = conv_at;
  count_bytes(site);
  return site;
}

OperatorSite by_rows(OpKind kind, const char* name, uint32_t rows,
                     const Shape& input) {
  OperatorSite site;
  site.kind = kind;
  site.name = name;
  site.rows = rows;
  site.input = site.output = input;
  if (kind == OpKind::layer_norm)
    site.parameters = {{input.back()}, {input.back()}};
  site.shape = std::to_string(rows) + " x " + to_string(input);
  site.reference = kind == OpKind::softmax ? softmax_at : layer_norm_at;
  count_bytes(site);
  return site;
}

OperatorSite attention(uint32_t rows, uint64_t length, uint64_t d,
                       uint32_t heads) {
  OperatorSite site;
  site.kind = OpKind::attention;
  site.name = "attention";
  site.attributes.heads = heads;
  site.attributes.causal = true;
  site.rows = rows;
  site.input = {length, 3 * d};
  site.output = {length, d};
  // two products over the half of the pairs that a causal one needs
  site.flops = 2.0 * rows * static_cast<double>(length * (length + 1) * d);
  site.shape = std::to_string(rows) + " x " + to_string(site.input) + ", "
               + std::to_string(heads) + " heads";
  site.reference = attention_at;
  count_bytes(site);
  return site;
}

OperatorSite embedding(uint32_t rows, uint64_t ids, uint64_t width,
                       uint64_t vocabulary) {
  OperatorSite site;
  site.kind = OpKind::embedding;
  site.name = "embedding";
  site.ids = true;
  site.attributes.width = width;
  site.attributes.vocabulary = vocabulary;
  site.rows = rows;
  site.input = {ids};
  site.output = {ids, width};
  site.parameters = {{vocabulary, width}};
  site.shape = std::to_string(rows) + " x " + std::to_string(ids) + " of "
               + std::to_string(vocabulary) + " x " + std::to_string(width);
  site.reference = embedding_at;
  const auto looked_up = rows * ids * width * sizeof(float);
  site.forward_bytes = 2 * looked_up;
  site.backward_bytes = 3 * looked_up + vocabulary * width * sizeof(float);
  return site;
}

} // namespace troupe::sites
