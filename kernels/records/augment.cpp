#include "kernels/records/augment.hpp"

#include "kernels/base/error.hpp"
#include "kernels/files/text_lines.hpp"
#include "kernels/numbers/random.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

namespace troupe {

namespace {

constexpr uint32_t largest_crop = 8192;

/// Which draws of a sample's key belong to what.
enum Stream : uint64_t { crop_stream = 1, flip_stream = 2, colour_stream = 3 };

/// In [0, 1), with 53 bits.
double uniform(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

[[noreturn]] void refuse_step(std::string_view step, const std::string& why) {
  throw InputError("augment: " + in_quotes(step) + " " + why);
}

std::vector<std::string_view> split_text(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = std::min(text.find(by), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size())
      return parts;
    text.remove_prefix(end + 1);
  }
}

uint32_t extent_of(std::string_view step, std::string_view text) {
  uint32_t extent = 0;
  const auto* last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, extent);
  if (error != std::errc{} || stop != last || extent == 0
      || extent > largest_crop)
    refuse_step(step, "is not of the form random_resized_crop:SIDE or "
                      "HEIGHTxWIDTH, each from 1 to 8192");
  return extent;
}

void take_crop(std::string_view step, std::string_view value,
               Augmentation& out) {
  const auto extents = split_text(value, 'x');
  if (extents.size() > 2)
    extent_of(step, "");
  out.crop_height = extent_of(step, extents.front());
  out.crop_width = extent_of(step, extents.back());
}

void take_colour(std::string_view step, std::string_view value,
                 Augmentation& out) {
  const auto parts = split_text(value, ':');
  if (parts.size() != 1 && parts.size() != 3)
    refuse_step(step, "is not of the form colour:X or "
                      "colour:BRIGHTNESS:CONTRAST:SATURATION");
  for (size_t i = 0; i < out.colour.size(); ++i) {
    const auto number = parse_real(parts[parts.size() == 1 ? 0 : i]);
    if (!number || *number < 0 || *number > 1)
      refuse_step(step, "has a strength that is not from 0 to 1");
    out.colour[i] = *number;
  }
}

void take_means(std::string_view step, std::string_view value,
                Augmentation& out) {
  out.normalise = true;
  if (value == "imagenet") {
    out.normalised_channels = 3;
    out.mean = {0.485, 0.456, 0.406};
    out.deviation = {0.229, 0.224, 0.225};
    return;
  }
  const auto parts = split_text(value, ':');
  const auto malformed = [&] {
    refuse_step(step, "is not of the form normalise:imagenet or "
                      "normalise:MEAN/…:DEVIATION/…, one or three each");
  };
  if (parts.size() != 2)
    malformed();
  const auto means = split_text(parts[0], '/');
  const auto deviations = split_text(parts[1], '/');
  if (means.size() != deviations.size()
      || (means.size() != 1 && means.size() != 3))
    malformed();
  out.normalised_channels = static_cast<uint32_t>(means.size());
  for (size_t i = 0; i < means.size(); ++i) {
    const auto mean = parse_real(means[i]);
    const auto deviation = parse_real(deviations[i]);
    constexpr double least = 1e-6;
    constexpr double most = 1e6;
    if (!mean || !deviation || std::fabs(*mean) > most || *deviation < least
        || *deviation > most)
      refuse_step(step, "has a mean or a deviation that cannot be one");
    out.mean[i] = *mean;
    out.deviation[i] = *deviation;
  }
}

/// (16/9)^u: square roots and products, which are the same bits everywhere.
double power_of_16_9ths(uint64_t bits) {
  double result = 1;
  double root = 16.0 / 9.0;
  for (int i = 0; i < 24; ++i) {
    root = std::sqrt(root);
    if (bits >> (63 - i) & 1)
      result *= root;
  }
  return result;
}

uint32_t rounded(double value) {
  return static_cast<uint32_t>(std::floor(value + 0.5));
}

/// A number below `count`, all as likely as 64 bits allow.
uint32_t below(uint64_t bits, uint32_t count) {
  return static_cast<uint32_t>((bits >> 32) * count >> 32);
}

/// The largest of a shape a:b at the middle of height x width.
CropArea middle_area(uint32_t height, uint32_t width, double shape_height,
                     double shape_width) {
  CropArea area{0, 0, height, width};
  if (height * shape_width > width * shape_height)
    area.height = std::clamp(rounded(width * shape_height / shape_width), 1u,
                             height);
  else
    area.width = std::clamp(rounded(height * shape_width / shape_height), 1u,
                            width);
  area.top = (height - area.height) / 2;
  area.left = (width - area.width) / 2;
  return area;
}

CropArea evaluated_area(const Augmentation& steps, uint32_t height,
                        uint32_t width) {
  const auto whole = middle_area(height, width, steps.crop_height,
                                 steps.crop_width);
  CropArea area;
  area.height = std::max(1u, rounded(whole.height * 0.875));
  area.width = std::max(1u, rounded(whole.width * 0.875));
  area.top = (height - area.height) / 2;
  area.left = (width - area.width) / 2;
  return area;
}

} // namespace

uint64_t augment_key(uint64_t seed, uint64_t data_epoch, uint64_t sample) {
  constexpr uint64_t stream = 0x6175676d;
  using kernels::stream_key;
  return stream_key(stream_key(stream_key(seed, stream), data_epoch), sample);
}

Augmentation parse_augmentation(std::string_view text) {
  constexpr std::array<std::string_view, 4> names{"random_resized_crop", "flip",
                                                  "colour", "normalise"};
  Augmentation out;
  size_t next = 0;
  for (const auto step : split_text(text, ',')) {
    const auto colon = std::min(step.find(':'), step.size());
    const auto name = step.substr(0, colon);
    const auto value = colon < step.size() ? step.substr(colon + 1)
                                           : std::string_view{};
    const auto place = static_cast<size_t>(
      std::find(names.begin(), names.end(), name) - names.begin());
    if (place == names.size())
      refuse_step(step,
                  "is no step; there are: random_resized_crop:SIDE, flip, "
                  "colour:X, normalise:imagenet");
    if (place < next)
      refuse_step(step, "comes too late: steps are random_resized_crop, flip, "
                        "colour and normalise, each once, in this order");
    next = place + 1;
    if (place == 0)
      take_crop(step, value, out);
    else if (place == 1 && colon == step.size())
      out.flip = true;
    else if (place == 1)
      refuse_step(step, "takes no value; write flip");
    else if (place == 2)
      take_colour(step, value, out);
    else
      take_means(step, value, out);
  }
  return out;
}

CropArea crop_area(const Augmentation& steps, const SampleDraw& draw,
                   uint32_t height, uint32_t width) {
  if (!draw.key)
    return evaluated_area(steps, height, width);
  constexpr double min_area = 0.08;
  constexpr double widest = 4.0 / 3.0;
  const auto key = kernels::stream_key(*draw.key, crop_stream);
  const auto all = static_cast<double>(height) * width;
  for (uint64_t attempt = 0; attempt < 10; ++attempt) {
    const auto bits = [&](uint64_t i) {
      return kernels::random_bits(key, 4 * attempt + i);
    };
    const auto area = all * (min_area + (1 - min_area) * uniform(bits(0)));
    const auto shape = 0.75 * power_of_16_9ths(bits(1)); // width by height
    const auto w = rounded(std::sqrt(area * shape));
    const auto h = rounded(std::sqrt(area / shape));
    if (w > 0 && h > 0 && w <= width && h <= height)
      return {below(bits(2), height - h + 1), below(bits(3), width - w + 1), h,
              w};
  }
  const auto shape = static_cast<double>(width) / height;
  if (shape > widest)
    return middle_area(height, width, 3, 4);
  if (shape < 1 / widest)
    return middle_area(height, width, 4, 3);
  return {0, 0, height, width};
}

bool is_flipped(const Augmentation& steps, const SampleDraw& draw) {
  return steps.flip && draw.key
         && kernels::random_bits(kernels::stream_key(*draw.key, flip_stream), 0)
              >> 63;
}

std::array<uint32_t, 3> colour_factors(const Augmentation& steps,
                                       const SampleDraw& draw) {
  constexpr double one = 65'536;
  std::array<uint32_t, 3> factors;
  for (size_t i = 0; i < factors.size(); ++i) {
    double factor = 1;
    if (draw.key) {
      const auto key = kernels::stream_key(*draw.key, colour_stream);
      factor += steps.colour[i]
                * (2 * uniform(kernels::random_bits(key, i)) - 1);
    }
    factors[i] = rounded(factor * one);
  }
  return factors;
}

} // namespace troupe
