#include "kernels/data/text.hpp"

#include "kernels/base/error.hpp"
#include "kernels/columns/column_rule.hpp"
#include "kernels/columns/fitted_columns.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/files/byte_source.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/free_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

namespace troupe {

namespace {

constexpr std::array levels{"char", "byte"};
constexpr int32_t last_code_point = 0x10ffff;
constexpr size_t chunk_bytes = size_t{1} << 20;
/// Of the evaluation part, one in so many characters may be unknown.
constexpr uint64_t known_per_unknown = 100;

bool is_byte_level(const DataSpec& spec) {
  return choice_option(spec, "level", levels) == "byte";
}

/// Hands on the bytes of a file, part by part.
template <class Take>
void read_parts(ByteSource& source, Take take) {
  std::vector<uint8_t> chunk(chunk_bytes);
  while (true) {
    const auto got = source.read(std::as_writable_bytes(std::span{chunk}));
    take(std::span<const uint8_t>{chunk}.first(got));
    if (got < chunk.size())
      return;
  }
}

/// Code points of a stream of bytes, wherever it is cut.
class Utf8 {
public:
  explicit Utf8(std::string path,
                std::string advice = "convert the file, or add level=byte")
    : path_(std::move(path)), advice_(std::move(advice)) {}

  void decode(std::span<const uint8_t> bytes, std::vector<int32_t>& out) {
    for (auto byte : bytes) {
      if (missing_ == 0)
        start(byte);
      else
        go_on(byte);
      ++at_;
      if (missing_ == 0)
        out.push_back(value_);
    }
  }

  void end() const {
    if (missing_ > 0)
      refuse();
  }

private:
  void start(uint8_t byte) {
    value_ = byte;
    if (byte < 0x80)
      return;
    missing_ = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
    value_ = byte & (0x3f >> missing_);
    constexpr std::array<int32_t, 4> lowest{0, 0x80, 0x800, 0x10000};
    lowest_ = lowest[static_cast<size_t>(missing_)];
    if (byte < 0xc2 || byte > 0xf4)
      refuse();
  }

  void go_on(uint8_t byte) {
    if ((byte & 0xc0) != 0x80)
      refuse();
    value_ = value_ << 6 | (byte & 0x3f);
    const bool surrogate = value_ >= 0xd800 && value_ < 0xe000;
    if (--missing_ == 0
        && (value_ < lowest_ || value_ > last_code_point || surrogate))
      refuse();
  }

  [[noreturn]] void refuse() const {
    throw InputError(path_ + ": byte " + std::to_string(at_) + " is not UTF-8; "
                     + advice_);
  }

  std::string path_;
  std::string advice_;
  uint64_t at_ = 0;
  int32_t value_ = 0;
  int32_t lowest_ = 0;
  int missing_ = 0;
};

std::string utf8_of(int32_t character) {
  const auto c = static_cast<uint32_t>(character);
  std::string out;
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
    return out;
  }
  if (c < 0x800) {
    add(0xc0 | c >> 6);
  } else if (c < 0x10000) {
    add(0xe0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3f));
  } else {
    add(0xf0 | c >> 18);
    add(0x80 | (c >> 12 & 0x3f));
    add(0x80 | (c >> 6 & 0x3f));
  }
  add(0x80 | (c & 0x3f));
  return out;
}

/// Errors: InputError where a specification's tokens, and `more` bytes beside
/// them, are more than may be held.
void check_tokens(const DataSpec& spec, const std::vector<int32_t>& tokens,
                  uint64_t more, const ReadLimits& limits) {
  check_held(spec, tokens.size() * sizeof(int32_t) + more, limits.memory);
}

void add_characters(const DataSpec& spec, const DataFile& file, bool bytes_only,
                    const ReadLimits& limits, std::vector<int32_t>& out) {
  const auto source = open_bytes(file);
  const auto path = file.name();
  if (!is_packed_name(path)) {
    // A character has up to four bytes in a file, and four in memory.
    const auto most = source->most();
    check_tokens(spec, out, bytes_only ? most * sizeof(int32_t) : most, limits);
    make_room(out,
              limits.memory ? std::min(most, *limits.memory / sizeof(int32_t))
                            : most,
              path);
  }
  Utf8 utf8{path};
  read_parts(*source, [&](std::span<const uint8_t> fresh) {
    make_room(out, fresh.size(), path);
    if (bytes_only)
      out.insert(out.end(), fresh.begin(), fresh.end());
    else
      utf8.decode(fresh, out);
    check_tokens(spec, out, 0, limits);
  });
  utf8.end();
}

/// A file's text, which is UTF-8, and is held beside the tokens before it.
std::string text_in(const DataSpec& spec, const DataFile& file,
                    const ReadLimits& limits,
                    const std::vector<int32_t>& tokens) {
  const auto source = open_bytes(file);
  const auto path = file.name();
  if (!is_packed_name(path))
    check_tokens(spec, tokens, source->most(), limits);
  std::string text;
  Utf8 utf8{path, "convert the file"};
  std::vector<int32_t> characters;
  read_parts(*source, [&](std::span<const uint8_t> fresh) {
    check_tokens(spec, tokens, text.size() + fresh.size(), limits);
    make_room(text, fresh.size(), path);
    text.append(fresh.begin(), fresh.end());
    characters.clear();
    utf8.decode(fresh, characters);
  });
  utf8.end();
  return text;
}

/// Adds the tokens of a text.
/// Errors: InputError where it has more than one character (or byte) in a
/// hundred bytes without one.
void add_tokens(Tokenizer& tokenizer, const std::string& text,
                const std::string& name, Dataset& out) {
  // What its steps make of it, and its tokens.
  constexpr uint64_t max_copies = 4;
  need_memory(max_copies * text.size(), name + ": making tokens of it",
              "take a part of it");
  const auto left_out = tokenizer.encode(text, out.tokens);
  if (left_out * known_per_unknown > text.size())
    throw InputError(name + ": " + std::to_string(left_out)
                     + " characters of it have no token, more than one in a "
                       "hundred; take the tokenizer that is for such text");
  out.left_out += left_out;
}

/// The tokenizer that a specification, or who knows the weights, names.
std::optional<Tokenizer> tokenizer_of(const DataSpec& spec,
                                      const ReadLimits& limits) {
  std::optional<Tokenizer> out;
  const auto place = option(spec, "tokenizer");
  if (place)
    out = read_tokenizer(*place, limits.store);
  if (limits.tokenizer.empty())
    return out;
  if (option(spec, "level"))
    refuse(spec, "the weights were trained with a tokenizer; leave level= out");
  if (out && out->json() != limits.tokenizer)
    refuse(spec, "the weights were trained with another tokenizer; leave "
                 "tokenizer= out, which takes theirs");
  if (!out)
    out.emplace(limits.tokenizer, "the tokenizer of the weights");
  return out;
}

Dataset read_tokens(const DataSpec& spec, Tokenizer& tokenizer,
                    const ReadLimits& limits) {
  Dataset result;
  result.shape.vocabulary = tokenizer.vocabulary();
  for (const auto& file : list_files(spec.where, limits.store)) {
    add_tokens(tokenizer, text_in(spec, file, limits, result.tokens),
               file.name(), result);
    check_tokens(spec, result.tokens, 0, limits);
  }
  result.fitted = std::make_shared<FittedColumns>();
  result.fitted->tokenizer = tokenizer.json();
  if (kept_bytes(*result.fitted) > max_vocabulary_bytes)
    refuse(spec, "its tokenizer takes more than "
                   + std::to_string(max_vocabulary_bytes)
                   + " bytes with the weights");
  return result;
}

/// The characters that occur, ascending.
std::vector<int32_t> characters_in(const std::vector<int32_t>& text) {
  const auto last = *std::max_element(text.begin(), text.end());
  std::vector<bool> occurs(static_cast<size_t>(last) + 1);
  for (auto character : text)
    occurs[static_cast<size_t>(character)] = true;
  std::vector<int32_t> out;
  for (int32_t character = 0; character <= last; ++character)
    if (occurs[static_cast<size_t>(character)])
      out.push_back(character);
  return out;
}

/// Makes ids of a part's characters.
void number(const std::shared_ptr<FittedColumns>& fitted, Dataset& part,
            const char* where) {
  const auto& known = fitted->characters;
  std::vector<int32_t> ids(static_cast<size_t>(known.back()) + 1, -1);
  for (size_t id = 0; id < known.size(); ++id)
    ids[static_cast<size_t>(known[id])] = static_cast<int32_t>(id);
  auto& tokens = part.tokens;
  const auto before = tokens.size();
  for (auto& token : tokens) {
    const auto character = static_cast<size_t>(token);
    token = character < ids.size() ? ids[character] : -1;
  }
  tokens.erase(std::remove(tokens.begin(), tokens.end(), -1), tokens.end());
  part.left_out = before - tokens.size();
  if (part.left_out * known_per_unknown > before)
    throw InputError(part.name + ": of " + std::to_string(before)
                     + " characters " + std::to_string(part.left_out)
                     + " do not occur in " + where
                     + ", more than one in a hundred; take text of one kind, "
                       "or train with level=byte");
  part.shape.vocabulary = static_cast<uint32_t>(known.size());
  part.fitted = fitted;
}

/// A code point as text and by its number, for messages.
std::string shown_character(int32_t character) {
  char number[16];
  std::snprintf(number, sizeof number, "U+%04X",
                static_cast<unsigned>(character));
  return character < ' ' ? std::string{number}
                         : "'" + utf8_of(character) + "' (" + number + ")";
}

} // namespace

std::vector<int32_t> ids_of_text(const std::string& text,
                                 const std::vector<int32_t>& characters,
                                 const std::string& name) {
  const std::span bytes{reinterpret_cast<const uint8_t*>(text.data()),
                        text.size()};
  if (characters.empty())
    return {bytes.begin(), bytes.end()};
  std::vector<int32_t> ids;
  Utf8 utf8{name, "give text in UTF-8"};
  utf8.decode(bytes, ids);
  utf8.end();
  for (auto& id : ids) {
    const auto found = std::lower_bound(characters.begin(), characters.end(),
                                        id);
    if (found == characters.end() || *found != id)
      throw InputError(name + ": the character " + shown_character(id)
                       + " does not occur in the text that the weights were "
                         "trained on; leave it out");
    id = static_cast<int32_t>(found - characters.begin());
  }
  return ids;
}

std::string text_of_id(int32_t id, const std::vector<int32_t>& characters) {
  return characters.empty() ? std::string(1, static_cast<char>(id))
                            : utf8_of(characters.at(static_cast<size_t>(id)));
}

Tokenizer read_tokenizer(const std::string& place,
                         const std::shared_ptr<const FileStore>& store) {
  const auto file = one_file(place, store);
  const auto source = open_bytes(file);
  std::string text;
  read_parts(*source, [&](std::span<const uint8_t> fresh) {
    text.append(fresh.begin(), fresh.end());
    if (text.size() > Tokenizer::max_bytes)
      throw InputError(file.name() + ": is too long for a tokenizer.json");
  });
  return Tokenizer{text, file.name()};
}

void check_text(const DataSpec& spec) {
  is_byte_level(spec);
  if (option(spec, "tokenizer") && option(spec, "level"))
    refuse(spec, "a tokenizer says what tokens are; leave level= out");
}

Dataset read_text(const DataSpec& spec, const ReadLimits& limits) {
  Dataset result;
  if (auto tokenizer = tokenizer_of(spec, limits)) {
    result = read_tokens(spec, *tokenizer, limits);
  } else {
    const bool bytes_only = is_byte_level(spec);
    result.shape.vocabulary = bytes_only ? 256 : last_code_point + 1;
    for (const auto& file : list_files(spec.where, limits.store))
      add_characters(spec, file, bytes_only, limits, result.tokens);
  }
  result.name = "text:" + spec.where;
  result.shape.label = LabelKind::tokens;
  if (result.tokens.empty())
    throw InputError(spec.where + ": is empty; name a file with text");
  return result;
}

void fit_text(const DataSpec& spec, Dataset& train, Dataset* eval) {
  if (is_byte_level(spec))
    return;
  if (option(spec, "tokenizer")) {
    if (eval != nullptr)
      eval->fitted = train.fitted;
    return;
  }
  const auto fitted = std::make_shared<FittedColumns>();
  fitted->characters = characters_in(train.tokens);
  for (auto* part : {&train, eval})
    if (part != nullptr)
      number(fitted, *part, "the training part");
}

void number_text(const DataSpec& spec,
                 const std::shared_ptr<FittedColumns>& kept, Dataset& part) {
  if (!kept->tokenizer.empty())
    part.fitted = kept; // it was read by that
  else if (option(spec, "tokenizer"))
    refuse(spec, "the weights know characters and no tokens; leave tokenizer= "
                 "out");
  else if (!is_byte_level(spec))
    number(kept, part, "the text that the weights were trained on");
}

} // namespace troupe
