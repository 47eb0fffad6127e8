#pragma once

#include "kernels/data/dataset.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/kernels/sample_graph.hpp"

// What targets of data readers share: the first byte of an input is the way in
// which the rest is read.
namespace troupe::fuzz {

/// Takes every sample; what it holds is in the ranges that the shape names.
inline void gather_all(Dataset& data) {
  constexpr uint64_t window = 3;
  if (data.shape.label == LabelKind::tokens) {
    data.window = window;
    data.stride = 1;
  }
  const Graph graph = testing::graph_of(data.shape, window);
  BatchMemory batch{graph, 1};
  for (uint64_t row = 0; row < data.samples(); ++row) {
    data.gather(&row, 1, batch);
    for (uint64_t i = 0; batch.labels() && i < graph.labels(); ++i)
      holds(batch.labels()[i] >= 0
              && static_cast<uint64_t>(batch.labels()[i]) < graph.classes(),
            "a label is that of a class");
    for (uint64_t i = 0; batch.ids() && i < graph.ids(); ++i)
      holds(batch.ids()[i] >= -1
              && batch.ids()[i] < static_cast<int64_t>(data.shape.vocabulary),
            "an id is one of the vocabulary");
  }
}

/// Reads what a specification names, a part of it held out.
inline void read_data(const std::string& spec) {
  accepted([&] {
    const auto parts = load_data(parse_data_spec(spec), {0.3, {}});
    gather_all(*parts.train);
    gather_all(*parts.eval);
  });
}

/// The target of a reader of one file: way 2k reads it plain, with options[k],
/// way 2k + 1 as a compressed one.
inline int read_file(const char* kind, std::span<const char* const> options,
                     const uint8_t* data, size_t size) {
  static const Scratch scratch;
  Input input{data, size};
  const auto way = input.byte();
  const auto path = scratch.put(way % 2 == 0 ? "data" : "data.gz",
                                input.rest());
  read_data(std::string{kind} + ':' + path + options[way / 2 % options.size()]);
  return 0;
}

} // namespace troupe::fuzz
