// What is asked of whoever signs certificates, by anybody, and the tokens in
// it.

#include "actors/certificates/certificate.hpp"
#include "actors/certificates/certificate_desk.hpp"
#include "actors/certificates/join_token.hpp"
#include "tests/fuzz/input.hpp"

using namespace troupe;
using troupe::fuzz::holds;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input{data, size};
  const auto what = input.byte() % 3;
  const auto text = input.text();
  if (what == 0) {
    if (const auto petition = petition_of(text)) {
      holds(to_text(*petition) == text, "a petition is one");
      key_asked_for(request_in(petition->request).get());
    }
  } else if (what == 1) {
    if (const auto token = parse_token(text))
      holds(to_string(*token) == text, "a token is one");
  } else if (const auto name = name_of_uri(text)) {
    holds(uri_of(*name) == text, "a name is one");
    holds(file_stem(*name).find('/') == std::string::npos, "and a file's");
  }
  return 0;
}
