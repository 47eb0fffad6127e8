// actors/stores/aws_access.cpp: a user's files of keys. The input's first byte
// says which profile is named, the rest is both files.

#include "actors/stores/aws_access.hpp"
#include "tests/fuzz/input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const troupe::fuzz::Scratch scratch;
  troupe::fuzz::Input input{data, size};
  const auto way = input.byte();
  const auto path = scratch.put("keys", input.rest());
  troupe::fuzz::accepted([&] {
    const auto access =
      troupe::read_aws_access([&](const char* name) -> std::string {
        const std::string_view wanted{name};
        if (wanted == "AWS_SHARED_CREDENTIALS_FILE"
            || wanted == "AWS_CONFIG_FILE")
          return path;
        return wanted == "AWS_PROFILE" && (way & 1) ? "other" : "";
      });
    for (const auto* value : {&access.keys.id, &access.keys.secret,
                              &access.keys.token, &access.region})
      for (const auto c : *value)
        troupe::fuzz::holds(static_cast<unsigned char>(c) > ' ' && c != 0x7f,
                            "a value fits into a request");
    troupe::fuzz::holds(access.keys.id.empty() == access.keys.secret.empty(),
                        "a key has its secret");
  });
  return 0;
}
