#include "actors/stores/s3_listing.hpp"

#include <algorithm>
#include <charconv>

namespace troupe {

namespace {

constexpr size_t deepest = 16;
constexpr size_t longest_key = 4096; // S3's are 1024 bytes, encoded thrice that

/// An element that ends, with the text that was directly in it.
struct Element {
  std::vector<std::string_view> path; ///< names from the outermost in
  std::string text;
};

/// Walks through the elements of a document, in the order of their ends. No
/// more of XML than such answers have: elements, text, the five entities and
/// numbered characters, comments, a declaration.
class XmlWalk {
public:
  explicit XmlWalk(std::string_view text) : rest_(text) {}

  /// The next element that ends; false at the document's end, or where it is
  /// not well-formed.
  bool next(Element& out) {
    if (closing_) {
      path_.pop_back();
      texts_.pop_back();
      closing_ = false;
    }
    while (!rest_.empty()) {
      const auto mark = std::min(rest_.find('<'), rest_.size());
      if (!add_text(rest_.substr(0, mark)))
        return false;
      rest_.remove_prefix(mark);
      if (rest_.empty())
        break;
      if (rest_.starts_with("<!--")) {
        if (!pass("-->"))
          return false;
      } else if (rest_.starts_with("<?")) {
        if (!pass("?>"))
          return false;
      } else if (rest_.starts_with("<!")) {
        return false; // a document type could name entities
      } else {
        const auto end = rest_.find('>');
        if (end == rest_.npos)
          return false;
        const auto tag = rest_.substr(1, end - 1);
        rest_.remove_prefix(end + 1);
        if (tag.starts_with('/'))
          return close(tag.substr(1), out);
        if (!open(tag))
          return false;
        if (tag.ends_with('/'))
          return close(path_.back(), out);
      }
    }
    whole_ = path_.empty() && seen_;
    return false;
  }

  /// All elements have ended; known at the document's end.
  bool whole() const { return whole_; }

private:
  bool pass(std::string_view end) {
    const auto at = rest_.find(end);
    if (at == rest_.npos)
      return false;
    rest_.remove_prefix(at + end.size());
    return true;
  }

  bool open(std::string_view tag) {
    const auto name = tag.substr(0, tag.find_first_of(" \t\r\n/"));
    if (name.empty() || path_.size() == deepest || (path_.empty() && seen_))
      return false;
    seen_ = true;
    path_.push_back(name);
    texts_.emplace_back();
    return true;
  }

  bool close(std::string_view name, Element& out) {
    name = name.substr(0, name.find_last_not_of(" \t\r\n") + 1);
    if (path_.empty() || path_.back() != name)
      return false;
    out.path = path_;
    out.text = std::move(texts_.back());
    closing_ = true;
    return true;
  }

  bool add_text(std::string_view text) {
    if (texts_.empty())
      return text.find_first_not_of(" \t\r\n\xef\xbb\xbf") == text.npos;
    auto& to = texts_.back();
    while (!text.empty()) {
      const auto mark = std::min(text.find('&'), text.size());
      to.append(text.substr(0, mark));
      text.remove_prefix(mark);
      if (!text.empty() && !add_entity(text, to))
        return false;
    }
    return true;
  }

  static bool add_entity(std::string_view& text, std::string& to) {
    const auto end = text.find(';');
    if (end == text.npos || end > 10)
      return false;
    const auto name = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    if (name == "amp")
      to += '&';
    else if (name == "lt")
      to += '<';
    else if (name == "gt")
      to += '>';
    else if (name == "quot")
      to += '"';
    else if (name == "apos")
      to += '\'';
    else
      return name.starts_with('#') && add_character(name.substr(1), to);
    return true;
  }

  static bool add_character(std::string_view digits, std::string& to) {
    const bool hex = digits.starts_with('x');
    digits.remove_prefix(hex ? 1 : 0);
    uint32_t c = 0;
    const auto* last = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), last, c,
                                               hex ? 16 : 10);
    if (error != std::errc{} || stop != last || c == 0 || c > 0x10ffff
        || (c >= 0xd800 && c < 0xe000))
      return false;
    const auto put = [&](uint32_t byte) { to += static_cast<char>(byte); };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xc0 | c >> 6);
      put(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
      put(0xe0 | c >> 12);
      put(0x80 | (c >> 6 & 0x3f));
      put(0x80 | (c & 0x3f));
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3f));
      put(0x80 | (c >> 6 & 0x3f));
      put(0x80 | (c & 0x3f));
    }
    return true;
  }

  std::string_view rest_;
  std::vector<std::string_view> path_;
  std::vector<std::string> texts_; ///< of the elements that are open
  bool closing_ = false;           ///< the innermost one was given out
  bool seen_ = false;
  bool whole_ = false;
};

bool is_at(const Element& element,
           std::initializer_list<std::string_view> path) {
  return std::equal(element.path.begin(), element.path.end(), path.begin(),
                    path.end());
}

std::optional<uint8_t> hex_digit(char c) {
  if (c >= '0' && c <= '9')
    return static_cast<uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f')
    return static_cast<uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F')
    return static_cast<uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

/// As forms are encoded: a plus is a space.
std::optional<std::string> form_decoded(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size())
      return std::nullopt;
    const auto high = hex_digit(text[i + 1]);
    const auto low = hex_digit(text[i + 2]);
    if (!high || !low)
      return std::nullopt;
    result += static_cast<char>(*high << 4 | *low);
    i += 2;
  }
  return result;
}

/// What may stand in an error line: a word.
std::string plain_word(std::string_view text) {
  constexpr size_t longest = 64;
  const bool plain =
    text.size() <= longest && std::all_of(text.begin(), text.end(), [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
             || (c >= '0' && c <= '9') || c == '-';
    });
  return plain ? std::string{text} : std::string{};
}

/// An object as it is put together.
struct ObjectDraft {
  ListedObject object;
  bool keyed = false;
  bool sized = false;
};

} // namespace

std::optional<S3Listing> parse_s3_listing(std::string_view xml) {
  constexpr std::string_view root = "ListBucketResult";
  constexpr std::string_view object = "Contents";
  S3Listing result;
  XmlWalk walk{xml};
  Element element;
  ObjectDraft draft;
  bool rooted = false;
  bool encoded = false;
  bool goes_on = false;
  while (walk.next(element)) {
    if (is_at(element, {root, object, "Key"})) {
      draft.keyed = !element.text.empty() && element.text.size() <= longest_key;
      draft.object.key = std::move(element.text);
    } else if (is_at(element, {root, object, "Size"})) {
      const auto* last = element.text.data() + element.text.size();
      const auto [stop, error] = std::from_chars(element.text.data(), last,
                                                 draft.object.bytes);
      draft.sized = error == std::errc{} && stop == last;
    } else if (is_at(element, {root, object, "ETag"})) {
      draft.object.tag = std::move(element.text);
    } else if (is_at(element, {root, object})) {
      if (!draft.keyed || !draft.sized)
        return std::nullopt;
      result.objects.push_back(std::move(draft.object));
      draft = {};
    } else if (is_at(element, {root, "IsTruncated"})) {
      goes_on = element.text == "true";
    } else if (is_at(element, {root, "NextContinuationToken"})) {
      result.next = std::move(element.text);
    } else if (is_at(element, {root, "EncodingType"})) {
      encoded = element.text == "url";
    } else if (is_at(element, {root})) {
      rooted = true;
    }
  }
  if (!walk.whole() || !rooted || (goes_on && result.next.empty()))
    return std::nullopt;
  if (!goes_on)
    result.next.clear();
  if (encoded)
    for (auto& listed : result.objects) {
      auto key = form_decoded(listed.key);
      if (!key || key->empty())
        return std::nullopt;
      listed.key = std::move(*key);
    }
  return result;
}

S3Error parse_s3_error(std::string_view xml) {
  S3Error result;
  XmlWalk walk{xml};
  Element element;
  while (walk.next(element)) {
    if (is_at(element, {"Error", "Code"}))
      result.code = plain_word(element.text);
    else if (is_at(element, {"Error", "Region"}))
      result.region = plain_word(element.text);
  }
  return result;
}

} // namespace troupe
