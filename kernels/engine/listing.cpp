#include "kernels/engine/listing.hpp"

#include "kernels/engine/device.hpp"
#include "kernels/engine/memory_plan.hpp"
#include "kernels/graph/model_spec.hpp"

#include <algorithm>
#include <array>

namespace troupe {

namespace {

using Line = std::array<std::string, 6>;

constexpr bool right_aligned[] = {false, false, false, false, true, true};

std::string joined_inputs(const Graph& graph, const Op& op) {
  std::string out;
  for (auto input : op.inputs)
    out += (out.empty() ? "" : ", ") + graph.values[input].name;
  return out;
}

/// Elements of the parameters that no operator before uses.
uint64_t own_parameters(const Graph& graph, size_t at) {
  uint64_t result = 0;
  for (auto parameter : graph.ops[at].parameters) {
    bool shared = false;
    for (size_t i = 0; i < at; ++i)
      for (auto other : graph.ops[i].parameters)
        shared = shared || other == parameter;
    result += shared ? 0 : graph.parameters[parameter].size();
  }
  return result;
}

std::string aligned(const std::vector<Line>& lines) {
  std::array<size_t, std::tuple_size_v<Line>> widths{};
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], line[i].size());
  std::string out;
  for (const auto& line : lines) {
    std::string row;
    for (size_t i = 0; i < line.size(); ++i) {
      const std::string blanks(widths[i] - line[i].size(), ' ');
      row += (i == 0 ? "" : "  ")
             + (right_aligned[i] ? blanks + line[i] : line[i] + blanks);
    }
    row.erase(row.find_last_not_of(' ') + 1);
    out += row + '\n';
  }
  return out;
}

kernels::MemoryPlan plan_of(const Graph& graph, uint32_t rows) {
  auto device = kernels::make_device({}, Precision::float32);
  std::vector<kernels::Needs> needs;
  for (size_t i = 0; i < graph.ops.size(); ++i)
    needs.push_back(device->make_operator(graph, i, rows)->needs());
  return kernels::MemoryPlan::make(graph, needs, rows);
}

std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (auto c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    out += c;
  }
  return out + '"';
}

} // namespace

std::string to_table(const Graph& graph, uint32_t rows) {
  std::vector<Line> lines{
    {"operator", "kind", "inputs", "output", "parameters", "FLOPs"}};
  for (auto input : {graph.features_value, graph.ids_value})
    if (input) {
      const auto& value = graph.values[*input];
      lines.push_back(
        {value.name, "input", "", to_string(value.shape), "", ""});
    }
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const auto& op = graph.ops[i];
    lines.push_back({op.name, to_string(op.kind), joined_inputs(graph, op),
                     to_string(graph.values[op.output].shape),
                     std::to_string(own_parameters(graph, i)),
                     std::to_string(graph.flops_of(i))});
  }
  const auto plan = plan_of(graph, rows);
  return aligned(lines)
         + "\nparameters: " + std::to_string(graph.parameter_count())
         + "\nFLOPs a sample, forward and backward: "
         + std::to_string(graph.flops_per_sample()) + "\nmemory of a step of "
         + std::to_string(rows) + (rows == 1 ? " row: " : " rows: ")
         + std::to_string(plan.total * sizeof(float)) + " bytes, "
         + std::to_string(plan.unshared * sizeof(float))
         + " if no buffers shared any\n";
}

uint64_t step_bytes(const Graph& graph, uint32_t rows) {
  return plan_of(graph, rows).total * sizeof(float);
}

std::string to_dot(const Graph& graph, const std::string& title) {
  auto out = "digraph " + in_quotes(title) + " {\n  node [shape=box];\n";
  for (auto input : {graph.features_value, graph.ids_value})
    if (input)
      out += "  " + in_quotes(graph.values[*input].name) + " [shape=oval];\n";
  for (const auto& op : graph.ops)
    out += "  " + in_quotes(op.name) + " [label=\"" + op.name + "\\n"
           + to_string(op.kind) + "\"];\n";
  for (const auto& op : graph.ops)
    for (auto input : op.inputs)
      out += "  " + in_quotes(graph.values[input].name) + " -> "
             + in_quotes(op.name) + " [label="
             + in_quotes(to_string(graph.values[input].shape)) + "];\n";
  return out + "}\n";
}

} // namespace troupe
