#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

// Byte-level tokenizers write each byte of a text as a character that can be
// seen: itself where it is one, else one from U+0100 on (Radford et al. 2019,
// "Language models are unsupervised multitask learners", and its program).

namespace troupe {

/// The bytes that a token's characters stand for; nullopt: one stands for none.
std::optional<std::string> bytes_of_characters(std::string_view characters);

} // namespace troupe
