#pragma once

#include "kernels/cpu/incremental_pass.hpp"
#include "kernels/cpu/next_token.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::kernels {

/// A text that a model goes on with, token by token. Where the model's window
/// is full it goes on with the newer half of it. Where a context begins, and
/// what is drawn, follows from how many tokens there are: so a text that was
/// cut anywhere and given again goes on as it would have.
class TokenStream {
public:
  /// Parameters, flat by Layout(graph), must outlive it. Errors: as
  /// IncrementalPass.
  TokenStream(const Graph& graph, const float* parameters,
              const SamplingRule& rule);

  /// Adds tokens, one at least. Errors: InputError for one that there is not.
  void read(std::span<const int32_t> tokens);
  /// Chooses the token that follows, and adds it. There must be some before.
  int32_t next();

  uint64_t window() const { return pass_.window(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }

private:
  uint64_t begin_of_context() const;

  IncrementalPass pass_;
  const float* parameters_;
  SamplingRule rule_;
  std::vector<int32_t> tokens_; ///< all
  uint64_t begin_ = 0;          ///< of those that the pass has read
};

} // namespace troupe::kernels
