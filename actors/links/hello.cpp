#include "actors/links/hello.hpp"

#include "kernels/base/require.hpp"

#include <algorithm>

namespace troupe {
namespace {

constexpr uint32_t hello_mark = 0x6f6c6c68;   // "hllo"
constexpr uint32_t welcome_mark = 0x636c6577; // "welc"
constexpr size_t key_size = 32;

class Writer {
public:
  template <class Number>
  void number(Number value) {
    for (size_t i = 0; i < sizeof value; ++i)
      text_ += static_cast<char>(uint64_t{value} >> (8 * i));
  }

  void string(const std::string& value, size_t longest) {
    const auto size = std::min(value.size(), longest);
    number(static_cast<uint16_t>(size));
    text_.append(value, 0, size);
  }

  std::string finish() {
    kernels::require(text_.size() <= largest_greeting, "a greeting too long");
    Writer whole;
    whole.number(static_cast<uint32_t>(text_.size()));
    return whole.text_ + text_;
  }

private:
  std::string text_;
};

class Reader {
public:
  explicit Reader(std::span<const char> body) : body_(body) {}

  template <class Number>
  Number number() {
    uint64_t value = 0;
    if (body_.size() < sizeof(Number)) {
      fine_ = false;
      return 0;
    }
    for (size_t i = 0; i < sizeof(Number); ++i)
      value |= uint64_t{static_cast<unsigned char>(body_[i])} << (8 * i);
    body_ = body_.subspan(sizeof(Number));
    return static_cast<Number>(value);
  }

  bool flag() {
    const auto value = number<uint8_t>();
    fine_ = fine_ && value <= 1;
    return value == 1;
  }

  /// Printable, so that it can be shown.
  std::string string(size_t longest) {
    const size_t size = number<uint16_t>();
    if (!fine_ || size > longest || size > body_.size()) {
      fine_ = false;
      return {};
    }
    std::string value{body_.data(), size};
    body_ = body_.subspan(size);
    fine_ = std::none_of(value.begin(), value.end(),
                         [](unsigned char c) { return c < ' ' || c == 0x7f; });
    return value;
  }

  bool whole() const { return fine_ && body_.empty(); }
  bool fine() const { return fine_; }

private:
  std::span<const char> body_;
  bool fine_ = true;
};

} // namespace

std::string encode(const LinkHello& hello) {
  Writer to;
  to.number(hello_mark);
  to.number(hello.revision);
  to.number(static_cast<uint8_t>(hello.purpose));
  to.string(hello.key, key_size);
  to.number(hello.id);
  to.number(hello.fence.job);
  to.number(hello.fence.term);
  to.number(hello.fence.epoch);
  to.string(hello.name, longest_link_name);
  to.string(hello.from, longest_member_name);
  to.number(hello.rank);
  to.number(hello.members);
  for (bool flag : {hello.shared, hello.encrypted, hello.segment})
    to.number(static_cast<uint8_t>(flag));
  return to.finish();
}

std::optional<LinkHello> decode_hello(std::span<const char> body) {
  Reader from{body};
  LinkHello hello;
  const auto mark = from.number<uint32_t>();
  hello.revision = from.number<uint32_t>();
  if (!from.fine() || mark != hello_mark)
    return std::nullopt;
  if (hello.revision != link_revision)
    return hello;
  const auto purpose = from.number<uint8_t>();
  hello.purpose = static_cast<LinkPurpose>(purpose);
  hello.key = from.string(key_size);
  hello.id = from.number<uint64_t>();
  hello.fence.job = from.number<uint64_t>();
  hello.fence.term = from.number<uint64_t>();
  hello.fence.epoch = from.number<uint64_t>();
  hello.name = from.string(longest_link_name);
  hello.from = from.string(longest_member_name);
  hello.rank = from.number<uint32_t>();
  hello.members = from.number<uint32_t>();
  for (auto* flag : {&hello.shared, &hello.encrypted, &hello.segment})
    *flag = from.flag();
  if (!from.whole() || purpose > static_cast<uint8_t>(LinkPurpose::channel))
    return std::nullopt;
  return hello;
}

std::string encode(const LinkWelcome& welcome) {
  Writer to;
  to.number(welcome_mark);
  to.number(welcome.id);
  to.string(welcome.refusal, longest_refusal);
  to.number(static_cast<uint8_t>(welcome.segment));
  to.number(static_cast<uint8_t>(welcome.control));
  return to.finish();
}

std::optional<LinkWelcome> decode_welcome(std::span<const char> body) {
  Reader from{body};
  LinkWelcome welcome;
  const auto mark = from.number<uint32_t>();
  welcome.id = from.number<uint64_t>();
  welcome.refusal = from.string(longest_refusal);
  welcome.segment = from.flag();
  welcome.control = from.flag();
  if (!from.whole() || mark != welcome_mark)
    return std::nullopt;
  return welcome;
}

} // namespace troupe
