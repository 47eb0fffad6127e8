// The first words on a link, and the text that says where links are met.

#include "actors/links/frame.hpp"
#include "actors/links/hello.hpp"
#include "tests/fuzz/input.hpp"

using namespace troupe;
using troupe::fuzz::holds;

namespace {

constexpr size_t length_bytes = 4;

std::string body_of(const std::string& greeting) {
  return greeting.substr(length_bytes);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input{data, size};
  const auto what = input.byte() % 4;
  const auto text = input.text();
  if (what == 0) {
    if (auto hello = decode_hello(text);
        hello && hello->revision == link_revision)
      holds(decode_hello(body_of(encode(*hello))) == hello, "a hello is one");
  } else if (what == 1) {
    if (auto welcome = decode_welcome(text))
      holds(decode_welcome(body_of(encode(*welcome))) == welcome,
            "a welcome is one");
  } else if (what == 2) {
    if (auto endpoint = parse_link_endpoint(text)) {
      const auto again = parse_link_endpoint(endpoint->text());
      holds(again && again->text() == endpoint->text(), "an endpoint is one");
    }
  } else if (text.size() >= frame_header_bytes) {
    const auto bytes = std::as_bytes(input.rest().first<frame_header_bytes>());
    const auto decoded = decode_frame(bytes);
    holds(!to_string(decoded.fault).empty()
            || decoded.fault == FrameFault::none,
          "a fault has words");
    if (decoded.fault == FrameFault::none)
      holds(std::ranges::equal(encode_frame(decoded.header), bytes),
            "a header is one");
  }
  return 0;
}
