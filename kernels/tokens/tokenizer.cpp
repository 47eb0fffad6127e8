#include "kernels/tokens/tokenizer.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/shown_text.hpp"
#include "kernels/files/strict_json.hpp"
#include "kernels/files/text_lines.hpp"
#include "kernels/tokens/byte_alphabet.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <new>
#include <utility>

namespace troupe {

namespace {

using Json = kernels::StrictJson<>;
using Names = BytePairs::Texts<int32_t>;

constexpr size_t max_depth = 16;
constexpr size_t max_added = 10'000;
constexpr size_t max_steps = 32; ///< of a part of a file
/// Where no step cuts a text into words it is one.
constexpr size_t max_word_bytes = size_t{16} << 20;
/// Stands for a blank in tokens of characters.
constexpr std::string_view blank_marker = "\u2581";

/// How GPT-2 cuts a text; its own and the first word with blanks of several.
constexpr auto byte_level_words =
  R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string type_of(const Json& step) {
  return step.value("type", std::string{});
}

/// A regular expression for what a step's `pattern` says.
std::string expression_of(const Json& pattern) {
  if (pattern.contains("Regex"))
    return pattern.at("Regex").get<std::string>();
  const auto text = pattern.at("String").get<std::string>();
  std::string out;
  for (auto c : text) {
    const bool special = std::string_view{R"(\^$.|?*+()[]{}-#)"}.find(c)
                         != std::string_view::npos;
    out += special ? std::string{'\\', c} : std::string{c};
  }
  return out;
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? std::string{}
                                                 : found->get<std::string>();
}

} // namespace

/// Reads the parts of a file.
class Tokenizer::Reader {
public:
  Reader(Tokenizer& out, const Json& file) : out_(out), file_(file) {}

  void read() {
    read_normalizer();
    read_words();
    read_model();
    read_added();
  }

private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(out_.where_ + ": " + what);
  }

  /// A step that is not built.
  [[noreturn]] void refuse_step(const char* part, const Json& step) const {
    refuse("its " + std::string{part} + " has a step "
           + in_quotes(type_of(step)) + " that is not available");
  }

  /// The steps of one that may be a sequence of them; none of null.
  std::vector<Json> steps_of(const char* key, const char* several) const {
    const auto found = file_.find(key);
    if (found == file_.end() || found->is_null())
      return {};
    if (type_of(*found) != "Sequence")
      return {*found};
    const auto& list = found->at(several);
    if (list.size() > max_steps)
      refuse("its " + std::string{key} + " has more than "
             + std::to_string(max_steps) + " steps");
    return std::vector<Json>(list.begin(), list.end());
  }

  void read_normalizer() {
    using Kind = NormalForm::Kind;
    static const std::map<std::string, Kind> forms{{"NFC", Kind::nfc},
                                                   {"NFD", Kind::nfd},
                                                   {"NFKC", Kind::nfkc},
                                                   {"NFKD", Kind::nfkd}};
    for (const auto& step : steps_of("normalizer", "normalizers")) {
      const auto type = type_of(step);
      if (const auto form = forms.find(type); form != forms.end())
        out_.form_.add({form->second, {}, {}}, out_.where_);
      else if (type == "Prepend")
        out_.form_.add(
          {Kind::prepend, {}, step.at("prepend").get<std::string>()},
          out_.where_);
      else if (type == "Replace" && step.at("pattern").contains("String"))
        out_.form_.add({Kind::replace,
                        step.at("pattern").at("String").get<std::string>(),
                        step.at("content").get<std::string>()},
                       out_.where_);
      else
        refuse_step("normalizer", step);
    }
  }

  void read_words() {
    const auto steps = steps_of("pre_tokenizer", "pretokenizers");
    for (size_t i = 0; i < steps.size(); ++i) {
      const auto& step = steps[i];
      const auto type = type_of(step);
      if (bytes_) // there it would see the characters that stand for them
        refuse("its pre_tokenizer has a step behind ByteLevel, which is not "
               "available");
      if (type == "ByteLevel")
        read_byte_level(step, i == 0);
      else if (type == "Split")
        read_split(step);
      else if (type == "Digits")
        cut(step.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)",
            WordSplit::Keep::all);
      else if (type == "Metaspace" && steps.size() == 1)
        read_blanks(step);
      else
        refuse_step("pre_tokenizer", step);
    }
    cuts_nothing_ = steps.empty();
  }

  void cut(const std::string& expression, WordSplit::Keep keep) {
    // They mean something else to the library that these are written for, or
    // where a text is searched place by place (Pattern).
    for (const auto* sign : {"\\h", "\\H", "(?m", "\\G", "(*COMMIT", "(*SKIP"})
      if (expression.find(sign) != std::string::npos)
        refuse("its pre_tokenizer has an expression with " + std::string{sign}
               + ", which is not available");
    out_.words_.cut(Pattern{expression, out_.where_}, keep);
  }

  void read_byte_level(const Json& step, bool first) {
    bytes_ = true;
    if (step.value("add_prefix_space", true)) {
      if (!first)
        refuse("its pre_tokenizer puts a blank before each word, which is not "
               "available");
      out_.prefix_ = " ";
    }
    if (step.value("use_regex", true))
      cut(byte_level_words, WordSplit::Keep::all);
  }

  void read_split(const Json& step) {
    const auto behavior = step.at("behavior").get<std::string>();
    const bool inverted = step.value("invert", false);
    const auto expression = expression_of(step.at("pattern"));
    if (behavior == "Isolated")
      cut(expression, WordSplit::Keep::all);
    else if (behavior == "Removed")
      cut(expression,
          inverted ? WordSplit::Keep::matches : WordSplit::Keep::between);
    else
      refuse("its pre_tokenizer splits with the behavior " + in_quotes(behavior)
             + ", which is not available");
  }

  void read_blanks(const Json& step) {
    const auto blank = step.at("replacement").get<std::string>();
    out_.blanks_.add({NormalForm::Kind::replace, " ", blank}, out_.where_);
    const auto scheme = step.value("prepend_scheme",
                                   step.value("add_prefix_space", true)
                                     ? std::string{"always"}
                                     : std::string{"never"});
    if (blank.empty()
        || (scheme != "never" && scheme != "first" && scheme != "always"))
      refuse("its Metaspace is none that is available");
    if (scheme != "never")
      out_.prefix_ = blank;
    out_.prefix_first_ = scheme == "first";
    if (step.value("split", true))
      out_.words_.cut_before(blank);
  }

  void read_model() {
    const auto& model = file_.at("model");
    if (!model.is_object())
      refuse("is no tokenizer.json (it has no model)");
    const auto type = text_at(model, "type");
    if (type != "BPE" && !(type.empty() && model.contains("merges")))
      refuse("is a " + in_quotes(type)
             + " tokenizer; byte-pair encoding (BPE) alone is available");
    for (const auto* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_at(model, key).empty())
        refuse("its model has a " + std::string{key}
               + ", which is not available");
    if (const auto found = model.find("dropout");
        found != model.end() && !found->is_null() && *found != 0)
      refuse("its model has a dropout: the same text would have other tokens "
             "each time");
    read_vocabulary(model.at("vocab"));
    auto merges = merges_of(model.at("merges"));
    BytePairs::Options options;
    options.bytes = bytes_;
    options.whole_words = model.value("ignore_merges", false);
    options.byte_fallback = !bytes_ && model.value("byte_fallback", false);
    options.fuse_unknown = model.value("fuse_unk", false);
    if (const auto unknown = text_at(model, "unk_token"); !unknown.empty())
      options.unknown = id_of(unknown);
    read_pieces(options.byte_fallback);
    if (cuts_nothing_ && !options.whole_words && begins_words_with_blanks())
      cut("\u2581+[^\u2581]*|[^\u2581]+", WordSplit::Keep::all);
    out_.pairs_.emplace(texts(), merges, options);
  }

  void put(std::string text, int64_t id) {
    if (id < 0 || id >= max_tokens)
      refuse("the token " + in_quotes(text) + " has the number "
             + std::to_string(id) + "; it has to be below "
             + std::to_string(max_tokens));
    const auto place = static_cast<size_t>(id);
    auto& pieces = out_.pieces_;
    pieces.resize(std::max(pieces.size(), place + 1));
    pieces[place] = std::move(text);
  }

  void read_vocabulary(const Json& vocabulary) {
    if (!vocabulary.is_object())
      refuse("its vocabulary does not number tokens by their texts");
    for (const auto& [text, id] : vocabulary.items()) {
      put(text, id.get<int64_t>());
      names_[text] = id.get<int32_t>();
    }
    if (names_.empty())
      refuse("its vocabulary is empty");
  }

  int32_t id_of(const std::string& text) const {
    const auto found = names_.find(text);
    if (found == names_.end())
      refuse("its vocabulary lacks the token " + in_quotes(text));
    return found->second;
  }

  /// Each is a list of two texts, or a text with a blank between them.
  std::vector<BytePairs::Merge> merges_of(const Json& list) const {
    std::vector<BytePairs::Merge> out;
    out.reserve(list.size());
    for (const auto& one : list) {
      std::string left;
      std::string right;
      if (one.is_array() && one.size() == 2) {
        left = one[0].get<std::string>();
        right = one[1].get<std::string>();
      } else {
        const auto text = one.get<std::string>();
        const auto blank = text.find(' ');
        if (blank == text.npos || text.find(' ', blank + 1) != text.npos)
          refuse("its merge " + in_quotes(text) + " is none of two tokens");
        left = text.substr(0, blank);
        right = text.substr(blank + 1);
      }
      out.push_back({id_of(left), id_of(right), id_of(left + right)});
    }
    return out;
  }

  /// What words are made of: in bytes, where they are.
  Names texts() const {
    if (!bytes_)
      return names_;
    Names out;
    for (const auto& [text, id] : names_)
      if (auto bytes = bytes_of_characters(text))
        out.emplace(std::move(*bytes), id);
    return out;
  }

  /// Whether no token has a blank behind another character, so that no merge
  /// goes over from a word into the next.
  bool begins_words_with_blanks() const {
    return names_.contains(blank_marker)
           && std::ranges::none_of(names_, [](const auto& name) {
                std::string_view text{name.first};
                while (text.starts_with(blank_marker))
                  text.remove_prefix(blank_marker.size());
                return text.find(blank_marker) != text.npos;
              });
  }

  /// The bytes of each token, as a text has them.
  void read_pieces(bool byte_fallback) {
    std::string blank;
    for (const auto& step : steps_of("decoder", "decoders"))
      if (type_of(step) == "Metaspace")
        blank = step.at("replacement").get<std::string>();
      else if (type_of(step) == "Replace"
               && step.at("content").get<std::string>() == " ")
        blank = text_at(step.at("pattern"), "String");
    NormalForm blanks;
    if (!blank.empty())
      blanks.add({NormalForm::Kind::replace, blank, " "}, out_.where_);
    for (auto& piece : out_.pieces_)
      if (auto bytes = bytes_ ? bytes_of_characters(piece) : std::nullopt)
        piece = std::move(*bytes);
      else if (auto byte = byte_fallback ? byte_of(piece) : std::nullopt)
        piece = std::string(1, *byte);
      else if (!blanks.empty())
        piece = blanks.apply(piece);
  }

  /// Of "<0x0A>".
  static std::optional<char> byte_of(std::string_view name) {
    constexpr size_t digits_at = 3;
    constexpr size_t length = 6;
    if (name.size() != length || !name.starts_with("<0x")
        || !name.ends_with('>'))
      return std::nullopt;
    uint8_t byte = 0;
    const auto* begin = name.data() + digits_at;
    const auto [end, error] = std::from_chars(begin, begin + 2, byte, 16);
    if (error != std::errc{} || end != begin + 2)
      return std::nullopt;
    return static_cast<char>(byte);
  }

  void read_added() {
    const auto found = file_.find("added_tokens");
    if (found == file_.end() || found->is_null())
      return;
    size_t added = 0;
    for (const auto& one : *found) {
      const auto text = one.at("content").get<std::string>();
      if (text.empty())
        continue;
      for (const auto* key : {"single_word", "lstrip", "rstrip"})
        if (one.value(key, false))
          refuse("the added token " + in_quotes(text) + " has " + key
                 + ", which is not available");
      const auto id = one.at("id").get<int64_t>();
      put(text, id);
      if (++added > max_added)
        refuse("it has more than " + std::to_string(max_added)
               + " added tokens");
      if (one.value("normalized", false))
        out_.normal_.add(out_.form_.apply(text), static_cast<int32_t>(id));
      else
        out_.raw_.add(text, static_cast<int32_t>(id));
    }
  }

  Tokenizer& out_;
  const Json& file_;
  Names names_;
  bool bytes_ = false;        ///< words are bytes
  bool cuts_nothing_ = false; ///< there is no step that makes words
};

Tokenizer::Tokenizer(const std::string& json, const std::string& where)
  : where_(where) {
  try {
    if (json.size() > max_bytes)
      throw InputError(where + ": has more than 64 MiB");
    if (kernels::nested_deeper(json, max_depth))
      throw InputError(where + ": is nested too deeply");
    auto file = Json::parse(json);
    Json kept{{"version", "1.0"},
              {"truncation", nullptr},
              {"padding", nullptr},
              {"post_processor", nullptr}};
    for (const auto* key :
         {"added_tokens", "normalizer", "pre_tokenizer", "decoder", "model"})
      if (const auto part = file.find(key); part != file.end())
        kept[key] = std::move(*part);
    json_ = kept.dump();
    Reader{*this, kept}.read();
  } catch (const InputError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& failure) {
    throw InputError(where + ": is no tokenizer.json ("
                     + shown_text(failure.what()) + ')');
  }
}

namespace {

/// Adds the added tokens of a text, and has `encode` add those of what lies
/// between, which it is told whether the text begins with.
template <class Encode>
uint64_t encode_between(const AddedTokens& added, std::string_view text,
                        std::vector<int32_t>& out, Encode encode) {
  uint64_t left_out = 0;
  for (size_t done = 0; done < text.size();) {
    const auto found = added.find(text, done);
    if (found.begin > done)
      left_out += encode(text.substr(done, found.begin - done), done == 0);
    if (found.token >= 0)
      out.push_back(found.token);
    done = found.end;
  }
  return left_out;
}

} // namespace

uint64_t Tokenizer::encode(std::string_view text, std::vector<int32_t>& out) {
  return encode_between(raw_, text, out, [&](std::string_view raw, bool first) {
    const auto normal = form_.empty() ? std::string{} : form_.apply(raw);
    return encode_between(normal_, form_.empty() ? raw : normal, out,
                          [&](std::string_view words, bool begins) {
                            return encode_words(words, first && begins, out);
                          });
  });
}

uint64_t Tokenizer::encode_words(std::string_view text, bool first,
                                 std::vector<int32_t>& out) {
  std::string made;
  if (!blanks_.empty()) {
    made = blanks_.apply(text);
    text = made;
  }
  if (!prefix_.empty() && (first || !prefix_first_)
      && !text.starts_with(prefix_)) {
    made = prefix_ + std::string{text};
    text = made;
  }
  uint64_t left_out = 0;
  words_.split(text, [&](std::string_view word) {
    if (word.size() > max_word_bytes)
      throw InputError(where_
                       + ": makes a word of more than 16 MiB of a text; "
                         "cut that into files");
    left_out += pairs_->encode(word, out);
  });
  return left_out;
}

} // namespace troupe
