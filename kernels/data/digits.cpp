#include "kernels/data/digits.hpp"

#include "kernels/files/free_memory.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>

// Everything below is integer arithmetic: the same bytes on every machine,
// whatever the instruction set. Lengths are fixed-point: a "point" is 1/256 of
// a pixel, a "sub" is 1/16 of a pixel.

namespace troupe {

namespace {

constexpr int side = 28;

// --- the shapes --------------------------------------------------------------

/// A position in a box of 100 x 100, y pointing down.
struct Point {
  int8_t x;
  int8_t y;
};

/// A smooth curve through its points.
struct Stroke {
  static constexpr int max_points = 13;
  int count = 0;
  std::array<Point, max_points> at{};
  constexpr Stroke() = default;
  constexpr Stroke(std::initializer_list<Point> points) {
    for (auto point : points)
      at[static_cast<size_t>(count++)] = point;
  }
};

/// One way of writing a digit.
struct Style {
  static constexpr int max_strokes = 3;
  int count = 0;
  std::array<Stroke, max_strokes> strokes{};
  constexpr Style(std::initializer_list<Stroke> list) {
    for (auto& stroke : list)
      strokes[static_cast<size_t>(count++)] = stroke;
  }
};

constexpr int styles_per_digit = 4;

// clang-format off
constexpr Style styles[10][styles_per_digit] = {
  { // 0: round, narrow, leaning with an overlap, open at the top
    {{{50, 2}, {27, 14}, {17, 48}, {27, 85}, {50, 98}, {73, 85}, {83, 48}, {73, 14}, {50, 2}, {36, 8}}},
    {{{50, 0}, {36, 12}, {30, 50}, {36, 88}, {50, 100}, {64, 88}, {70, 50}, {64, 12}, {50, 0}}},
    {{{66, 8}, {45, 4}, {24, 30}, {20, 66}, {36, 96}, {62, 90}, {80, 56}, {78, 22}, {62, 4}, {46, 10}}},
    {{{40, 5}, {22, 30}, {20, 66}, {38, 96}, {64, 94}, {80, 66}, {78, 32}, {62, 8}, {44, 8}}},
  },
  { // 1: bar, bar with a flag, flag and foot, bent bar
    {{{52, 0}, {50, 50}, {48, 100}}},
    {{{34, 22}, {44, 14}, {54, 0}}, {{54, 0}, {53, 50}, {53, 100}}},
    {{{32, 20}, {52, 2}}, {{52, 2}, {51, 96}}, {{30, 97}, {72, 97}}},
    {{{58, 0}, {50, 30}, {47, 70}, {44, 100}}},
  },
  { // 2: plain, with a loop, wide and flat, with a curved foot
    {{{20, 26}, {32, 6}, {56, 2}, {74, 18}, {70, 42}, {46, 70}, {18, 97}}, {{18, 97}, {50, 96}, {82, 97}}},
    {{{20, 20}, {42, 2}, {68, 10}, {72, 36}, {52, 66}, {28, 90}, {16, 90}, {24, 78}, {46, 86}, {64, 98}, {84, 90}}},
    {{{14, 30}, {30, 10}, {60, 6}, {80, 22}, {68, 48}, {40, 72}, {14, 92}}, {{14, 92}, {50, 93}, {88, 88}}},
    {{{24, 14}, {50, 0}, {74, 14}, {70, 44}, {44, 76}, {20, 96}}, {{20, 96}, {44, 88}, {62, 98}, {82, 92}}},
  },
  { // 3: two bowls, flat top, small upper bowl, loop in the middle
    {{{22, 12}, {46, 1}, {70, 12}, {68, 36}, {44, 47}}, {{44, 47}, {70, 54}, {78, 76}, {58, 97}, {32, 97}, {16, 84}}},
    {{{22, 4}, {76, 4}}, {{76, 4}, {48, 40}}, {{48, 40}, {72, 50}, {78, 76}, {54, 98}, {18, 90}}},
    {{{28, 8}, {52, 2}, {64, 16}, {58, 34}, {42, 40}}, {{42, 40}, {72, 46}, {82, 70}, {64, 94}, {38, 99}, {18, 90}}},
    {{{20, 18}, {40, 2}, {66, 8}, {68, 32}, {48, 46}, {38, 50}, {44, 56}, {56, 50}, {76, 62}, {72, 88}, {44, 100}, {18, 88}}},
  },
  { // 4: open, closed, open with a round corner, crossed far down
    {{{30, 2}, {18, 58}}, {{18, 58}, {84, 56}}, {{68, 6}, {66, 54}, {64, 100}}},
    {{{62, 0}, {14, 66}}, {{14, 66}, {88, 66}}, {{62, 0}, {62, 100}}},
    {{{26, 4}, {20, 36}, {28, 54}, {52, 54}, {72, 44}}, {{74, 4}, {70, 50}, {62, 100}}},
    {{{66, 2}, {36, 30}, {16, 62}}, {{16, 62}, {48, 62}, {82, 60}}, {{70, 28}, {66, 64}, {62, 99}}},
  },
  { // 5: bar, stem and bowl; one sweep; small bowl; leaning
    {{{76, 4}, {28, 4}}, {{28, 4}, {24, 44}}, {{24, 44}, {50, 38}, {76, 52}, {78, 76}, {56, 98}, {20, 92}}},
    {{{80, 6}, {50, 4}, {34, 14}, {30, 40}, {54, 44}, {74, 60}, {70, 86}, {46, 99}, {20, 90}}},
    {{{78, 2}, {34, 6}}, {{34, 6}, {26, 52}}, {{26, 52}, {48, 46}, {66, 60}, {66, 82}, {46, 98}, {22, 96}}},
    {{{86, 6}, {42, 2}}, {{42, 2}, {32, 40}}, {{32, 40}, {58, 40}, {74, 58}, {66, 84}, {42, 98}, {14, 86}}},
  },
  { // 6: curved stem, straight stem, wide loop, closed flat loop
    {{{66, 2}, {40, 22}, {24, 54}, {26, 84}, {50, 99}, {74, 86}, {74, 62}, {54, 50}, {32, 62}, {26, 78}}},
    {{{46, 0}, {32, 40}, {26, 74}, {40, 97}, {64, 94}, {72, 74}, {58, 58}, {36, 66}, {28, 78}}},
    {{{76, 8}, {48, 10}, {24, 40}, {20, 74}, {42, 98}, {72, 92}, {82, 70}, {64, 52}, {38, 56}, {22, 70}}},
    {{{60, 0}, {36, 34}, {22, 72}, {34, 95}, {60, 97}, {78, 84}, {64, 70}, {42, 72}, {26, 84}}},
  },
  { // 7: plain, crossed, hooked, curved
    {{{18, 6}, {80, 4}}, {{80, 4}, {56, 50}, {42, 100}}},
    {{{18, 5}, {80, 5}}, {{80, 5}, {58, 46}, {38, 100}}, {{34, 52}, {76, 48}}},
    {{{18, 24}, {20, 8}}, {{20, 8}, {82, 6}}, {{82, 6}, {58, 44}, {46, 100}}},
    {{{16, 10}, {40, 2}, {62, 8}, {80, 4}}, {{80, 4}, {66, 34}, {60, 70}, {58, 100}}},
  },
  { // 8: one sweep, two circles, small head, narrow
    {{{72, 14}, {50, 1}, {28, 14}, {34, 36}, {64, 58}, {76, 80}, {50, 99}, {24, 82}, {34, 58}, {66, 38}, {74, 14}}},
    {{{50, 46}, {30, 34}, {32, 12}, {52, 1}, {70, 14}, {68, 34}, {50, 46}}, {{50, 46}, {24, 62}, {24, 86}, {50, 100}, {76, 86}, {76, 62}, {50, 46}}},
    {{{64, 10}, {46, 4}, {36, 18}, {46, 34}, {72, 56}, {76, 82}, {52, 99}, {26, 86}, {28, 60}, {54, 36}, {66, 20}, {58, 6}}},
    {{{62, 10}, {48, 0}, {36, 16}, {44, 40}, {60, 62}, {62, 88}, {48, 100}, {34, 86}, {40, 60}, {58, 40}, {64, 12}}},
  },
  { // 9: straight stem, curved tail, wide head, hooked
    {{{72, 18}, {52, 2}, {28, 14}, {24, 38}, {42, 52}, {64, 42}, {73, 18}}, {{73, 18}, {70, 60}, {66, 100}}},
    {{{70, 24}, {58, 4}, {34, 6}, {24, 30}, {38, 50}, {62, 44}, {72, 22}}, {{72, 22}, {74, 58}, {62, 88}, {36, 99}}},
    {{{80, 20}, {54, 0}, {24, 12}, {18, 38}, {42, 50}, {70, 38}, {80, 20}}, {{80, 20}, {66, 62}, {50, 100}}},
    {{{68, 12}, {46, 2}, {28, 22}, {34, 44}, {56, 44}, {68, 14}}, {{68, 14}, {72, 60}, {64, 94}, {44, 96}, {34, 84}}},
  },
};
// clang-format on

// --- randomness --------------------------------------------------------------

constexpr uint64_t golden_ratio = 0x9e3779b97f4a7c15u;

/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014 (the finalizer of SplitMix64).
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Random {
public:
  Random(uint64_t seed, uint64_t sample)
    : state_(mix(mix(seed + golden_ratio) + golden_ratio * (sample + 1))) {}

  uint64_t bits() { return mix(state_ += golden_ratio); }

  /// Uniform in [low, high].
  int between(int low, int high) {
    const int values = high - low + 1;
    return low + scaled(bits() >> 32, values);
  }

  /// In [-reach, reach], the middle more often than the ends.
  int about_zero(int reach) {
    const auto both = bits();
    return scaled(both >> 32, reach + 1)
           - scaled(both & 0xffffffffu, reach + 1);
  }

private:
  /// From 32 random bits to [0, values).
  static int scaled(uint64_t bits, int values) {
    return static_cast<int>((bits * static_cast<uint64_t>(values)) >> 32);
  }

  uint64_t state_;
};

// --- the plane ---------------------------------------------------------------

/// Holds for each pixel the largest radius² - distance² over all stamps, in
/// subs²: positive inside the ink, linear in distance² and so free of roots.
/// A margin around the picture spares stamps the bounds checks.
class Plane {
public:
  static constexpr int margin = 8;
  static constexpr int stamp_side = 8;
  static constexpr int stride = side + 2 * margin;

  Plane() { ink_.fill(nothing); }

  /// Puts a disc down; its centre is kept within four pixels of the picture.
  void stamp(int x_points, int y_points, int radius_subs) {
    constexpr int low = -4 * 16;
    constexpr int high = (side + 3) * 16;
    const int x = std::clamp(x_points >> 4, low, high);
    const int y = std::clamp(y_points >> 4, low, high);
    // The pixel (column, row) has its middle at 16 * column + 8 subs.
    const int column = (x >> 4) - stamp_side / 2 + ((x >> 3) & 1);
    const int row = (y >> 4) - stamp_side / 2 + ((y >> 3) & 1);
    std::array<int16_t, stamp_side> across;
    for (int i = 0; i < stamp_side; ++i) {
      const int dx = 16 * (column + i) + 8 - x;
      across[static_cast<size_t>(i)] =
        static_cast<int16_t>(radius_subs * radius_subs - dx * dx);
    }
    auto* line = ink_.data() + index(column, row);
    for (int j = 0; j < stamp_side; ++j, line += stride) {
      const int dy = 16 * (row + j) + 8 - y;
      const auto down = static_cast<int16_t>(dy * dy);
      for (int i = 0; i < stamp_side; ++i) {
        const auto value =
          static_cast<int16_t>(across[static_cast<size_t>(i)] - down);
        line[i] = std::max(line[i], value);
      }
    }
  }

  const int16_t* row(int y) const { return ink_.data() + index(0, y); }

private:
  static constexpr int index(int x, int y) {
    return (y + margin) * stride + x + margin;
  }

  static constexpr int16_t nothing = -16384;
  std::array<int16_t, static_cast<size_t>(stride) * stride> ink_;
};

// --- drawing -----------------------------------------------------------------

/// A position in points.
struct Place {
  int x;
  int y;
};

/// How one writer holds the pen: an affine map from the box to the picture, a
/// bend, and how far single points stray.
class Hand {
public:
  explicit Hand(Random& random) {
    const int height = random.between(1650, 2250); // 1/100 pixel
    const int width = height * random.between(72, 112) / 100;
    const int half_angle = random.about_zero(130); // tan, in 1/1024
    const int slant = random.between(-150, 420);   // in 1/1024
    constexpr int64_t one = 1024;
    const int64_t norm = one * one + int64_t{half_angle} * half_angle;
    const int64_t cosine = (one * one - int64_t{half_angle} * half_angle) * one
                           / norm;
    const int64_t sine = 2 * one * half_angle * one / norm;
    // A box unit is size / 100 pixels, that is size * 256 / 10000 points.
    const int64_t x_scale = int64_t{width} * 256 * 4096 / 10000;
    const int64_t y_scale = int64_t{height} * 256 * 4096 / 10000;
    xx_ = x_scale * cosine / one;
    yx_ = x_scale * sine / one;
    xy_ = y_scale * (-cosine * slant / one - sine) / one;
    yy_ = y_scale * (-sine * slant / one + cosine) / one;
    bend_ = random.about_zero(7);
    x_shift_ = side * 128 + random.about_zero(830);
    y_shift_ = side * 128 + random.about_zero(830);
    jitter_ = random.between(2, 5);
  }

  Place place(Point point, Random& random) const {
    int64_t x = 16 * (point.x - 50) + random.about_zero(16 * jitter_);
    const int64_t y = 16 * (point.y - 50) + random.about_zero(16 * jitter_);
    // Least at the middle, most at both ends, zero on the average.
    constexpr int64_t end = 800; // sixteenths of a unit
    x += bend_ * (y * y - end * end / 3) * 16 / (end * end);
    return {static_cast<int>((xx_ * x + xy_ * y) >> 16) + x_shift_,
            static_cast<int>((yx_ * x + yy_ * y) >> 16) + y_shift_};
  }

private:
  int64_t xx_, xy_, yx_, yy_; // points per sixteenth of a unit, times 65536
  int64_t bend_;              // units
  int x_shift_, y_shift_;
  int jitter_; // units
};

/// Weights of the four points around a piece of a Catmull-Rom curve, at
/// step / curve_steps of the piece; they sum to curve_scale.
constexpr int curve_steps = 32;
constexpr int curve_scale = 2 * curve_steps * curve_steps * curve_steps;

constexpr std::array<int, 4> curve_weights(int step) {
  constexpr int n = curve_steps;
  const int s1 = step * n * n;
  const int s2 = step * step * n;
  const int s3 = step * step * step;
  return {2 * s2 - s3 - s1, 3 * s3 - 5 * s2 + curve_scale, 4 * s2 - 3 * s3 + s1,
          s3 - s2};
}

constexpr auto curve = [] {
  std::array<std::array<int, 4>, curve_steps> table{};
  for (int step = 0; step < curve_steps; ++step)
    table[static_cast<size_t>(step)] = curve_weights(step);
  return table;
}();

/// As few steps as leave at most ~0.6 pixels between two stamps.
int steps_between(Place a, Place b) {
  const int dx = std::abs(a.x - b.x);
  const int dy = std::abs(a.y - b.y);
  const int length = std::max(dx, dy) + std::min(dx, dy) / 2;
  int steps = 4;
  while (steps < curve_steps && length > 160 * steps)
    steps *= 2;
  return steps;
}

void draw(Plane& plane, const Stroke& stroke, const Hand& hand, int radius,
          Random& random) {
  const auto count = static_cast<size_t>(stroke.count);
  std::array<Place, Stroke::max_points + 2> at;
  for (size_t i = 0; i < count; ++i)
    at[i + 1] = hand.place(stroke.at[i], random);
  // Each end continues as it came.
  at[0] = {2 * at[1].x - at[2].x, 2 * at[1].y - at[2].y};
  at[count + 1] = {2 * at[count].x - at[count - 1].x,
                   2 * at[count].y - at[count - 1].y};
  for (size_t i = 1; i < count; ++i) {
    const int stride = curve_steps / steps_between(at[i], at[i + 1]);
    const int pressed = radius + random.about_zero(2);
    for (int step = 0; step < curve_steps; step += stride) {
      const auto& w = curve[static_cast<size_t>(step)];
      int x = 0;
      int y = 0;
      for (size_t k = 0; k < 4; ++k) {
        x += w[k] * at[i - 1 + k].x;
        y += w[k] * at[i - 1 + k].y;
      }
      plane.stamp(x / curve_scale, y / curve_scale, pressed);
    }
  }
  plane.stamp(at[count].x, at[count].y, radius);
}

/// Turns ink into grey, and adds the noise of paper and sensor.
void develop(const Plane& plane, int radius, Random& random, uint8_t* out) {
  const int softness = random.between(10, 26); // subs from white to black
  const int slope = 255 * 256 / (2 * radius * softness);
  const int intensity = random.between(180, 255);
  const int noise = random.between(0, 56);
  for (int y = 0; y < side; ++y) {
    const auto* ink = plane.row(y);
    std::array<int, side> grain;
    for (size_t x = 0; x < side; x += 4) {
      auto bits = random.bits();
      for (size_t k = 0; k < 4; ++k, bits >>= 16)
        grain[x + k] = static_cast<int>(bits & 0xff)
                       - static_cast<int>((bits >> 8) & 0xff);
    }
    for (size_t x = 0; x < side; ++x) {
      const int cover = std::clamp(128 + ((ink[x] * slope) >> 8), 0, 255);
      const int grey = ((cover * intensity) >> 8) + ((grain[x] * noise) >> 8);
      *out++ = static_cast<uint8_t>(std::clamp(grey, 0, 255));
    }
  }
}

int draw_digit(uint64_t seed, uint64_t sample, uint8_t* out) {
  Random random{seed, sample};
  const int digit = random.between(0, 9);
  const auto& style = styles[digit][random.between(0, styles_per_digit - 1)];
  const Hand hand{random};
  const int radius = random.between(14, 28); // subs
  Plane plane;
  for (int i = 0; i < style.count; ++i)
    draw(plane, style.strokes[static_cast<size_t>(i)], hand, radius, random);
  for (int specks = random.between(0, 2); specks > 0; --specks) {
    const int x = random.between(0, side * 256);
    const int y = random.between(0, side * 256);
    plane.stamp(x, y, random.between(6, 14));
  }
  develop(plane, radius, random, out);
  return digit;
}

} // namespace

Dataset synthetic_digits(uint64_t samples, uint64_t seed) {
  constexpr uint32_t pixels = side * side;
  Dataset result;
  result.name = "synthetic:digits";
  result.shape.features = {28, 28, 1};
  result.shape.classes = 10;
  result.scale = 1.0f / 255.0f;
  need_memory(samples * (pixels + sizeof(int32_t)), result.name,
              "draw fewer samples=");
  result.bytes.resize(samples * pixels);
  result.labels.resize(samples);
  for (uint64_t i = 0; i < samples; ++i)
    result.labels[i] = draw_digit(seed, i, result.bytes.data() + i * pixels);
  return result;
}

} // namespace troupe
