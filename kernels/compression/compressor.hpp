#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

enum class CompressionKind : uint8_t {
  none,
  float16,
  bfloat16,
  int8,
  onebit,
  topk,
};

/// --compress taken apart.
struct Compression {
  CompressionKind kind = CompressionKind::none;
  double fraction = 0; ///< topk: of the values, in (0, 1]

  bool operator==(const Compression&) const = default;
};

/// Reads none, fp16, bf16, int8, onebit or topk:F.
/// Errors: UsageError naming --compress and what may stand there.
Compression parse_compression(const std::string& text);
std::string to_string(const Compression& compression);

/// A lossy format for runs of float32 values, with error feedback: what a
/// message leaves out stays in a residual and goes with the next one.
/// Bytes are a function of the values alone: the same for any address and
/// instruction set. Little-endian; n values:
///   float16   n x binary16, to nearest even; finite values beyond 65504 stop
///             there
///   bfloat16  n x the upper half of a float32, likewise
///   int8      blocks of 256 (the last shorter): float32 scale, n x int8 in
///             [-127, 127]; value = code * scale, scale = largest size / 127,
///             0 where that is not a normal number
///   onebit    blocks of 512: float32 mean of the negative values, float32 mean
///             of the others, a bit a value from the lowest (1: not negative),
///             unused bits 0
///   topk      k = ceil(fraction n) at least 1: k x uint32 index, ascending,
///             k x float32; the others are 0. The largest sizes, of equal ones
///             the lower index; NaN before all
/// A value that is not finite spoils its block (int8 and onebit: NaN), so that
/// the receiver notices; nothing of it stays in the residual.
///
/// Source: one bit, and error feedback for it: Seide et al., "1-Bit Stochastic
/// Gradient Descent and its Application to Data-Parallel Distributed Training
/// of Speech DNNs", Interspeech 2014; feedback for any format: Karimireddy et
/// al., "Error Feedback Fixes SignSGD and other Gradient Compression Schemes",
/// ICML 2019; topk: Aji and Heafield, "Sparse Communication for Distributed
/// Gradient Descent", EMNLP 2017, and Lin et al., "Deep Gradient Compression",
/// ICLR 2018, whose momentum correction is left out.
class Compressor {
public:
  virtual ~Compressor() = default;

  /// Exact length of the bytes of so many values; none: none.
  virtual size_t bytes(size_t count) const = 0;

  /// Writes values + residual and leaves the error in the residual.
  /// Shapes: values and residual [count], residual may be null: no feedback;
  /// out [bytes(count)].
  virtual void compress(const float* values, float* residual, size_t count,
                        std::byte* out) const = 0;

  /// Overwrites `out` with what the bytes say.
  /// Shapes: out [count].
  /// Errors: InputError for bytes that compress() cannot have written, with
  /// `out` as it was.
  void decompress(std::span<const std::byte> in, size_t count,
                  float* out) const;
  /// The same, added to `out`.
  void add(std::span<const std::byte> in, size_t count, float* out) const;

protected:
  /// What is wrong with bytes of the right length; empty: nothing.
  virtual std::string fault(const std::byte* in, size_t count) const = 0;
  virtual void decode(const std::byte* in, size_t count, float* out,
                      bool adds) const = 0;
  virtual std::string name() const = 0;

private:
  void check(std::span<const std::byte> in, size_t count) const;
};

/// Makes the compressor of a kind; null for none.
std::unique_ptr<Compressor> make_compressor(const Compression& compression);

} // namespace troupe
