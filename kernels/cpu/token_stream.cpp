#include "kernels/cpu/token_stream.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>

namespace troupe::kernels {

TokenStream::TokenStream(const Graph& graph, const float* parameters,
                         const SamplingRule& rule)
  : pass_(graph), parameters_(parameters), rule_(rule) {}

void TokenStream::read(std::span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

/// A full window gives way to one of its newer half and one token more.
uint64_t TokenStream::begin_of_context() const {
  const auto window = pass_.window();
  if (tokens_.size() <= window)
    return 0;
  const auto dropped = window + 1 - std::max<uint64_t>(1, window / 2);
  return (tokens_.size() - window + dropped - 1) / dropped * dropped;
}

int32_t TokenStream::next() {
  require(!tokens_.empty(), "a text without a beginning");
  if (const auto begin = begin_of_context(); begin != begin_) {
    pass_.restart();
    begin_ = begin;
  }
  const auto logits = pass_.read(
    parameters_, std::span{tokens_}.subspan(begin_ + pass_.places()));
  tokens_.push_back(next_token(logits, rule_, tokens_.size()));
  return tokens_.back();
}

} // namespace troupe::kernels
