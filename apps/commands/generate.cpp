#include "actors/job/trained_model.hpp"
#include "apps/commands/weights_model.hpp"
#include "apps/settings/commands.hpp"
#include "kernels/base/error.hpp"
#include "kernels/base/seconds_since.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/cpu/token_stream.hpp"
#include "kernels/data/text.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/text_lines.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>

// `troupe generate`: saved weights of a language model go on with a text.

namespace troupe {

namespace {

/// What tokens are written as.
struct Alphabet {
  bool numbers = false;
  std::vector<int32_t> characters;    ///< empty: bytes
  std::optional<Tokenizer> tokenizer; ///< instead of both
  uint32_t vocabulary = 0;

  std::vector<int32_t> read(const std::string& text, const std::string& name) {
    if (numbers)
      return read_numbers(text, name);
    return tokenizer ? read_tokens(text, name)
                     : ids_of_text(text, characters, name);
  }

  std::string write(int32_t token) const {
    if (numbers)
      return std::to_string(token) + ' ';
    return tokenizer ? tokenizer->text_of(token)
                     : text_of_id(token, characters);
  }

private:
  std::vector<int32_t> read_tokens(const std::string& text,
                                   const std::string& name) {
    if (!is_utf8(text))
      throw InputError(name + ": is not UTF-8");
    std::vector<int32_t> tokens;
    if (const auto unknown = tokenizer->encode(text, tokens))
      throw InputError(name + ": the tokenizer has no token for "
                       + std::to_string(unknown)
                       + " of its characters; leave them out");
    return tokens;
  }

  std::vector<int32_t> read_numbers(const std::string& text,
                                    const std::string& name) const {
    std::vector<int32_t> ids;
    constexpr auto blanks = " \t\r\n,";
    for (auto at = text.find_first_not_of(blanks); at != text.npos;
         at = text.find_first_not_of(blanks, at)) {
      const auto end = std::min(text.find_first_of(blanks, at), text.size());
      uint32_t id = 0;
      const auto* last = text.data() + end;
      const auto [stop, error] = std::from_chars(text.data() + at, last, id);
      if (error != std::errc{} || stop != last || id >= vocabulary)
        throw InputError(name + ": " + in_quotes(text.substr(at, end - at))
                         + " is no token; give numbers below "
                         + std::to_string(vocabulary)
                         + ", with blanks between them");
      ids.push_back(static_cast<int32_t>(id));
      at = end;
    }
    return ids;
  }
};

constexpr uint64_t max_prompt_bytes = uint64_t{1} << 30;

std::string standard_input() {
  std::string text;
  char part[1 << 16];
  while (true) {
    const auto got = ::read(STDIN_FILENO, part, sizeof part);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      throw InputError("standard input: " + std::string{std::strerror(errno)}
                       + "; give the text as --prompt");
    if (got == 0)
      return text;
    text.append(part, static_cast<size_t>(got));
    if (text.size() > max_prompt_bytes)
      throw InputError(
        "standard input: is longer than 1 GiB; its end would do");
  }
}

Alphabet alphabet_of(const Settings& settings, const KeptModel& kept,
                     uint32_t vocabulary) {
  constexpr uint32_t bytes = 256;
  Alphabet out;
  out.vocabulary = vocabulary;
  const auto& named = settings.generate.tokenizer;
  if (kept.columns)
    out.characters = kept.columns->characters;
  if (!named.empty())
    out.tokenizer = read_tokenizer(named, nullptr);
  else if (!settings.generate.ids && kept.columns
           && !kept.columns->tokenizer.empty())
    out.tokenizer.emplace(kept.columns->tokenizer, settings.checkpoint);
  if (out.tokenizer && out.tokenizer->vocabulary() > vocabulary)
    throw InputError(
      (named.empty() ? settings.checkpoint + ": its tokenizer" : named)
      + " has " + std::to_string(out.tokenizer->vocabulary())
      + " tokens, and the weights have rows for " + std::to_string(vocabulary)
      + "; name the tokenizer that they were trained with");
  if (out.tokenizer) // what rows there are beyond are of no token
    out.vocabulary = out.tokenizer->vocabulary();
  out.numbers = settings.generate.ids
                || (!out.tokenizer && out.characters.empty()
                    && vocabulary != bytes);
  return out;
}

/// How many tokens the model has a row for.
uint32_t rows_of_tokens(const Graph& graph) {
  auto rows = std::numeric_limits<uint32_t>::max();
  for (const auto& op : graph.ops)
    if (op.kind == OpKind::embedding)
      rows = static_cast<uint32_t>(
        std::min<uint64_t>(rows, op.attributes.vocabulary));
  return rows;
}

struct Written {
  uint64_t tokens = 0;
  bool ends_line = true; ///< nothing, or a text that does
};

/// Writes what is chosen as it comes: fewer tokens where nobody reads them any
/// more.
Written write_tokens(kernels::TokenStream& stream, const Alphabet& alphabet,
                     uint64_t count) {
  Written out;
  while (out.tokens < count) {
    const auto text = alphabet.write(stream.next());
    std::fwrite(text.data(), 1, text.size(), stdout);
    if (std::fflush(stdout) != 0)
      return out;
    ++out.tokens;
    if (!text.empty()) // as a number is that no token has
      out.ends_line = text.ends_with('\n');
  }
  return out;
}

/// Whether what is written to both comes to stand in one file, or pipe.
bool are_one_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0
         && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

} // namespace

int run_generate(const Settings& settings) {
  const auto& how = settings.generate;
  select_isa(settings.job.isa);
  prepare_compute_thread();
  const auto kept = kept_model(settings.checkpoint);
  const auto model = model_of(settings, kept);
  SampleShape shape;
  shape.label = LabelKind::tokens;
  shape.vocabulary = vocabulary_of(model, settings.checkpoint, kept);
  auto alphabet = alphabet_of(settings, kept, shape.vocabulary);
  const auto trained = load_trained_model(model, shape, settings.checkpoint);
  if (alphabet.numbers)
    alphabet.vocabulary = rows_of_tokens(trained.graph);
  // A model may have more tokens than there are characters.
  kernels::TokenStream stream{trained.graph,
                              trained.parameters.data(),
                              {how.temperature, how.top_k, how.top_p, how.seed,
                               alphabet.vocabulary}};
  const std::string name = how.prompt ? "--prompt" : "standard input";
  const auto prompt = alphabet.read(how.prompt ? *how.prompt : standard_input(),
                                    name);
  if (prompt.empty())
    throw InputError(name + ": is empty; give at least one "
                     + (alphabet.numbers ? "token" : "character")
                     + " to go on from");
  stream.read(prompt);
  const auto start = SteadyClock::now();
  auto written = write_tokens(stream, alphabet, how.max_tokens);
  const auto seconds = seconds_since(start);
  if (::isatty(STDOUT_FILENO) == 1 || alphabet.numbers) {
    std::fputs("\n", stdout);
    written.ends_line = true;
  }
  std::fflush(stdout);
  if (settings.quiet)
    return 0;
  // The text may be another program's input, so it is not what gets a newline.
  if (!written.ends_line && are_one_file(STDOUT_FILENO, STDERR_FILENO))
    std::fputs("\n", stderr);
  std::fprintf(stderr,
               "%llu tokens in %.3g s, %.1f tokens/s, after a prompt of %zu\n",
               static_cast<unsigned long long>(written.tokens), seconds,
               static_cast<double>(written.tokens) / seconds, prompt.size());
  return 0;
}

} // namespace troupe
