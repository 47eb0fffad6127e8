#include "apps/tensorboard/events.hpp"

#include "apps/tensorboard/message.hpp"
#include "kernels/graph/model_spec.hpp"

#include <charconv>

namespace troupe::tensorboard {
namespace {

/// Of Event.
constexpr uint32_t wall_time = 1, step_field = 2, file_version = 3,
                   graph_def = 4, summary = 5, session_log = 7;

ProtoMessage event_at(double time) {
  ProtoMessage out;
  out.real(wall_time, time);
  return out;
}

/// What hyperparameters are told in: a summary without a value, whose metadata
/// are the message.
std::string session_event(double time, const char* tag,
                          const ProtoMessage& data) {
  constexpr uint64_t float_type = 1;
  ProtoMessage plugin, metadata, tensor, value, all;
  plugin.text(1, "hparams").message(2, data);
  metadata.message(1, plugin);
  tensor.whole(1, float_type).message(2, {}).text(5, std::string(4, '\0'));
  value.text(1, tag).message(9, metadata).message(8, tensor);
  all.message(1, value);
  return event_at(time).message(summary, all).bytes();
}

ProtoMessage parameter_value(const std::string& text) {
  double number = 0;
  const auto* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  ProtoMessage out;
  if (error == std::errc{} && rest == end)
    return out.real(2, number);
  return out.text(3, text);
}

} // namespace

std::string version_event(double time) {
  return event_at(time).text(file_version, "brain.Event:2").bytes();
}

std::string start_event(double time, uint64_t step) {
  constexpr uint64_t start = 1;
  ProtoMessage session;
  session.whole(1, start);
  return event_at(time)
    .whole(step_field, step)
    .message(session_log, session)
    .bytes();
}

std::string scalar_event(double time, uint64_t step,
                         const std::vector<Scalar>& scalars) {
  ProtoMessage all;
  for (const auto& scalar : scalars) {
    ProtoMessage value;
    value.text(1, scalar.tag).real32(2, static_cast<float>(scalar.value));
    all.message(1, value);
  }
  return event_at(time).whole(step_field, step).message(summary, all).bytes();
}

std::string histogram_event(double time, uint64_t step,
                            const std::vector<NamedSpread>& spreads) {
  ProtoMessage all;
  for (const auto& [tag, spread] : spreads) {
    // A bucket begins where the one before ends, so gaps are buckets, too.
    std::vector<double> ends;
    std::vector<double> counts;
    for (size_t i = 0; i < spread.buckets.size(); ++i) {
      const auto bucket = spread.buckets[i];
      if (const auto begin = lower_end(bucket); i > 0 && ends.back() < begin) {
        ends.push_back(begin);
        counts.push_back(0);
      }
      ends.push_back(upper_end(bucket));
      counts.push_back(static_cast<double>(spread.counts[i]));
    }
    ProtoMessage histogram, value;
    histogram.real(1, spread.min)
      .real(2, spread.max)
      .real(3, static_cast<double>(spread.count))
      .real(4, spread.sum)
      .real(5, spread.sum_of_squares)
      .reals(6, ends)
      .reals(7, counts);
    value.text(1, tag).message(5, histogram);
    all.message(1, value);
  }
  return event_at(time).whole(step_field, step).message(summary, all).bytes();
}

std::string graph_event(double time, const Graph& graph) {
  std::map<uint32_t, std::string> maker; ///< of each value
  ProtoMessage all;
  const auto add = [&](const std::string& name, const std::string& kind,
                       const std::vector<uint32_t>& inputs) {
    ProtoMessage node;
    node.text(1, name).text(2, kind);
    for (auto input : inputs)
      if (const auto made = maker.find(input); made != maker.end())
        node.text(3, made->second);
    all.message(1, node);
  };
  for (const auto& [value, name] : {std::pair{graph.features_value, "features"},
                                    std::pair{graph.ids_value, "ids"}})
    if (value) {
      add(name, "samples", {});
      maker[*value] = name;
    }
  for (const auto& op : graph.ops) {
    add(op.name, to_string(op.kind), op.inputs);
    maker[op.output] = op.name;
  }
  return event_at(time).text(graph_def, all.bytes()).bytes();
}

std::string begin_event(double time,
                        const std::map<std::string, std::string>& parameters) {
  ProtoMessage info, data;
  for (const auto& [name, text] : parameters) {
    ProtoMessage entry;
    entry.text(1, name).message(2, parameter_value(text));
    info.message(1, entry);
  }
  info.real(5, time);
  data.whole(1, 0).message(3, info);
  return session_event(time, "_hparams_/session_start_info", data);
}

std::string end_event(double time, End end) {
  ProtoMessage info, data;
  info.whole(1, static_cast<uint64_t>(end)).real(2, time);
  data.whole(1, 0).message(4, info);
  return session_event(time, "_hparams_/session_end_info", data);
}

} // namespace troupe::tensorboard
