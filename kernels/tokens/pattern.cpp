#include "kernels/tokens/pattern.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/text_lines.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdint>
#include <new>

namespace troupe {

namespace {

/// Steps of a match that begins at one place: PCRE2 counts each place anew.
constexpr uint32_t usual_tries = 10'000;
constexpr uint32_t max_tries = 10'000'000;
/// Steps beyond the usual ones, of all places together, and for each byte.
constexpr uint64_t spare_tries = 20'000'000;
constexpr uint64_t spare_tries_of_byte = 200;
constexpr uint32_t max_heap_kib = 64 << 10; ///< the same
constexpr size_t min_stack = size_t{32} << 10;
constexpr size_t max_stack = size_t{8} << 20;
constexpr size_t max_bytes = size_t{64} << 10;

std::string words_of(int code) {
  unsigned char words[160] = "";
  pcre2_get_error_message(code, words, sizeof words);
  return reinterpret_cast<const char*>(words);
}

const unsigned char* units(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

} // namespace

struct Pattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* found = nullptr;
  pcre2_match_context* limits = nullptr;
  pcre2_jit_stack* stack = nullptr;
  uint64_t tries = 0; ///< beyond the usual ones
  uint64_t bytes = 0; ///< that were passed

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(limits);
    pcre2_match_data_free(found);
    pcre2_code_free(code);
  }

  /// The first match that begins at `from` to `last`.
  int match(std::string_view text, size_t from, uint32_t most, size_t last) {
    pcre2_set_match_limit(limits, most);
    pcre2_set_offset_limit(limits, last);
    return pcre2_match(code, units(text), text.size(), from,
                       PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, found, limits);
  }

  /// Place by place, each with as many steps as it takes while there are some
  /// left for the text.
  int match_slowly(std::string_view text, size_t from) {
    for (auto at = from; at < text.size(); ++at) {
      if ((static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U)
        continue; // in the middle of a character
      uint64_t most = usual_tries;
      auto result = match(text, at, static_cast<uint32_t>(most), at);
      while (result == PCRE2_ERROR_MATCHLIMIT && most < max_tries
             && tries
                  < spare_tries + spare_tries_of_byte * (bytes + at - from)) {
        tries += most;
        most *= 10;
        result = match(text, at, static_cast<uint32_t>(most), at);
      }
      if (result == PCRE2_ERROR_MATCHLIMIT)
        tries += most;
      if (result != PCRE2_ERROR_NOMATCH)
        return result;
    }
    return PCRE2_ERROR_NOMATCH;
  }
};

Pattern::Pattern(const std::string& expression, const std::string& where)
  : compiled_(std::make_shared<Compiled>()), where_(where) {
  if (expression.size() > max_bytes)
    throw InputError(where + ": an expression has more than 64 KiB");
  int code = 0;
  size_t at = 0;
  auto& own = *compiled_;
  own.code = pcre2_compile(units(expression), expression.size(),
                           PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE
                             | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
                           &code, &at, nullptr);
  if (own.code == nullptr)
    throw InputError(where + ": " + in_quotes(expression)
                     + " is no regular expression: " + words_of(code)
                     + " at byte " + std::to_string(at));
  // Where no memory may be run, it is interpreted.
  pcre2_jit_compile(own.code, PCRE2_JIT_COMPLETE);
  own.found = pcre2_match_data_create_from_pattern(own.code, nullptr);
  own.limits = pcre2_match_context_create(nullptr);
  own.stack = pcre2_jit_stack_create(min_stack, max_stack, nullptr);
  if (own.found == nullptr || own.limits == nullptr)
    throw std::bad_alloc{};
  pcre2_set_heap_limit(own.limits, max_heap_kib);
  pcre2_jit_stack_assign(own.limits, nullptr, own.stack);
}

std::optional<Pattern::Match> Pattern::find(std::string_view text,
                                            size_t from) {
  auto& own = *compiled_;
  auto code = own.match(text, from, usual_tries, PCRE2_UNSET);
  if (code == PCRE2_ERROR_MATCHLIMIT)
    code = own.match_slowly(text, from);
  if (code == PCRE2_ERROR_NOMATCH)
    return std::nullopt;
  if (code < 0)
    throw InputError(where_ + ": an expression of it cannot be matched after "
                     + std::to_string(from) + " bytes: " + words_of(code));
  const auto* ends = pcre2_get_ovector_pointer(own.found);
  if (ends[0] < from || ends[1] <= ends[0]) // \K may do that
    throw InputError(where_ + ": an expression of it matches backwards");
  own.bytes += ends[1] - from;
  return Match{ends[0], ends[1]};
}

} // namespace troupe
