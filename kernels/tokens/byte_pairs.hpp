#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe {

/// Byte-pair encoding of words (Sennrich, Haddow and Birch 2016, "Neural
/// machine translation of rare words with subword units"): of the pairs of
/// neighbours that may merge the one learnt first does, the leftmost of
/// several, until none may. Owner: one thread at a time.
class BytePairs {
public:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  template <class Value>
  using Texts = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;

  struct Options {
    bool bytes = false; ///< a word begins as bytes, not as characters
    /// A word that is a token is that one, whatever would merge.
    bool whole_words = false;
    bool byte_fallback = false; ///< unknown characters become tokens <0xNN>
    int32_t unknown = -1;       ///< the token of others; -1: left out
    bool fuse_unknown = false;  ///< of several in a row one
  };

  /// `tokens`: the ids of texts, as bytes. A merge's tokens and their text
  /// together have ids.
  struct Merge {
    int32_t left = 0;
    int32_t right = 0;
    int32_t merged = 0;
  };
  BytePairs(Texts<int32_t> tokens, const std::vector<Merge>& merges,
            Options options);

  /// Adds the tokens of a word, which is UTF-8 and not empty. Returns how many
  /// characters (or bytes) have none and were left out.
  uint64_t encode(std::string_view word, std::vector<int32_t>& out);

private:
  struct Known {
    std::vector<int32_t> tokens;
    uint64_t left_out = 0;
  };
  struct Ranked {
    uint32_t rank;
    int32_t merged;
  };
  /// A token of the word that is encoded; merged ones leave holes.
  struct Symbol {
    int32_t token;
    uint32_t before;
    uint32_t after;
  };
  struct Candidate {
    uint32_t rank;
    uint32_t at;
    int32_t merged;
    bool operator<(const Candidate& other) const { // the largest is next
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  int32_t token_of(std::string_view text) const;
  bool has_bytes(std::string_view character) const;
  uint64_t begin(std::string_view word);
  void merge();
  void consider(uint32_t at);
  const Ranked* merge_at(uint32_t at) const;

  Texts<int32_t> tokens_;
  std::unordered_map<uint64_t, Ranked> merges_; ///< by both tokens
  Options options_;
  std::vector<int32_t> byte_tokens_; ///< of <0x00> to <0xFF>; -1: none
  Texts<Known> known_;               ///< words that came before
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;
};

} // namespace troupe
