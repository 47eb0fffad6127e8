#include "kernels/compression/compressor.hpp"

#include "kernels/base/error.hpp"
#include "kernels/compression/formats.hpp"

#include <charconv>

namespace troupe {

namespace {

struct Name {
  CompressionKind kind;
  const char* text;
};

constexpr Name names[] = {
  {CompressionKind::none, "none"},     {CompressionKind::float16, "fp16"},
  {CompressionKind::bfloat16, "bf16"}, {CompressionKind::int8, "int8"},
  {CompressionKind::onebit, "onebit"},
};

} // namespace

Compression parse_compression(const std::string& text) {
  for (const auto& name : names)
    if (text == name.text)
      return {name.kind, 0};
  const std::string prefix = "topk:";
  if (text.starts_with(prefix)) {
    Compression result{CompressionKind::topk, 0};
    const auto* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + prefix.size(), end,
                                         result.fraction);
    if (error == std::errc{} && stop == end && result.fraction > 0
        && result.fraction <= 1)
      return result;
    throw UsageError("--compress " + text
                     + ": topk takes the share of values to send, above 0 and "
                       "up to 1, for example topk:0.01");
  }
  throw UsageError("--compress " + text
                   + ": unknown compression; use one of none, fp16, bf16, "
                     "int8, onebit, topk:F");
}

std::string to_string(const Compression& compression) {
  for (const auto& name : names)
    if (compression.kind == name.kind)
      return name.text;
  char digits[32];
  auto end = std::to_chars(digits, digits + sizeof digits,
                           compression.fraction);
  return "topk:" + std::string(digits, end.ptr);
}

void Compressor::check(std::span<const std::byte> in, size_t count) const {
  const auto where = "compressed values (" + name() + "): ";
  if (in.size() != bytes(count))
    throw InputError(where + std::to_string(in.size()) + " bytes for "
                     + std::to_string(count) + " values, which take "
                     + std::to_string(bytes(count)));
  const auto wrong = fault(in.data(), count);
  if (!wrong.empty())
    throw InputError(where + wrong);
}

void Compressor::decompress(std::span<const std::byte> in, size_t count,
                            float* out) const {
  check(in, count);
  decode(in.data(), count, out, false);
}

void Compressor::add(std::span<const std::byte> in, size_t count,
                     float* out) const {
  check(in, count);
  decode(in.data(), count, out, true);
}

std::unique_ptr<Compressor> make_compressor(const Compression& compression) {
  switch (compression.kind) {
    case CompressionKind::none:
      return nullptr;
    case CompressionKind::float16:
      return kernels::make_float16();
    case CompressionKind::bfloat16:
      return kernels::make_bfloat16();
    case CompressionKind::int8:
      return kernels::make_int8();
    case CompressionKind::onebit:
      return kernels::make_onebit();
    case CompressionKind::topk:
      return kernels::make_topk(compression.fraction);
  }
  return nullptr;
}

} // namespace troupe
