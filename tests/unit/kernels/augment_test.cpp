#include "kernels/records/augment.hpp"
#include "kernels/records/colour_change.hpp"
#include "kernels/records/image.hpp"
#include "kernels/records/triangle_scale.hpp"
#include "tests/unit/kernels/data_files.hpp"

#include <cmath>
#include <cstdio>
#include <set>

// After <cstdio>: it takes FILE for granted.
#include <jpeglib.h>
#include <png.h>

using namespace troupe;
using namespace troupe::testing;

BOOST_AUTO_TEST_SUITE(augment)

namespace {

/// Smooth, so that scales can be compared: three waves.
Bytes picture(uint32_t height, uint32_t width, uint32_t channels) {
  Bytes pixels(size_t{height} * width * channels);
  for (uint32_t y = 0; y < height; ++y)
    for (uint32_t x = 0; x < width; ++x)
      for (uint32_t c = 0; c < channels; ++c)
        pixels[(size_t{y} * width + x) * channels + c] = static_cast<uint8_t>(
          128 + 60 * std::sin(0.05 * x + c) + 60 * std::cos(0.07 * y - c));
  return pixels;
}

Bytes jpeg(const Bytes& pixels, uint32_t height, uint32_t width) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = width;
  info.image_height = height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < height) {
    auto* row = const_cast<uint8_t*>(pixels.data()
                                     + size_t{info.next_scanline} * width * 3);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes result(memory, memory + size);
  std::free(memory);
  return result;
}

Bytes png(const Bytes& pixels, uint32_t height, uint32_t width) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  BOOST_REQUIRE(png_image_write_to_memory(&image, nullptr, &size, 0,
                                          pixels.data(), 0, nullptr));
  Bytes result(size);
  BOOST_REQUIRE(png_image_write_to_memory(&image, result.data(), &size, 0,
                                          pixels.data(), 0, nullptr));
  result.resize(size);
  return result;
}

SampleDraw draw_of(uint64_t sample, uint64_t epoch = 0, uint64_t seed = 1) {
  return {augment_key(seed, epoch, sample)};
}

Bytes cropped(const Bytes& file, const Augmentation& steps,
              const SampleDraw& draw) {
  Bytes out(size_t{steps.crop_height} * steps.crop_width * 3);
  decode_crop({"file", 0, file, {}}, steps, draw, 3, out.data());
  return out;
}

double mean_distance(const Bytes& a, const Bytes& b) {
  BOOST_REQUIRE(a.size() == b.size());
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += std::abs(int{a[i]} - int{b[i]});
  return sum / static_cast<double>(a.size());
}

/// As scale_part takes colours.
Bytes widened(const Bytes& pixels) {
  Bytes wide;
  for (size_t i = 0; i < pixels.size(); i += 3)
    wide.insert(wide.end(), {pixels[i], pixels[i + 1], pixels[i + 2], 99});
  return wide;
}

Bytes scaled(const Bytes& pixels, const PixelGrid& grid, const ImagePart& part,
             bool mirrored, uint32_t height, uint32_t width) {
  Bytes out(size_t{height} * width * grid.channels);
  const bool grey = grid.channels == 1;
  scale_part((grey ? pixels : widened(pixels)).data(),
             {grid.height, grid.width, grey ? 1u : 4u}, part, mirrored,
             out.data(), {height, width, grid.channels});
  return out;
}

} // namespace

// --- what is said
// -------------------------------------------------------------

BOOST_AUTO_TEST_CASE(steps_are_read_with_their_values) {
  const auto all = parse_augmentation(
    "random_resized_crop:224x96,flip,colour:0.4,normalise:imagenet");
  BOOST_TEST(all.crop_height == 224u);
  BOOST_TEST(all.crop_width == 96u);
  BOOST_TEST(all.flip);
  BOOST_TEST(all.colour[2] == 0.4);
  BOOST_TEST(all.normalise);
  BOOST_TEST(all.mean[1] == 0.456);
  const auto some = parse_augmentation("colour:0.1:0.2:0,normalise:0.5:0.25");
  BOOST_TEST(some.colour[1] == 0.2);
  BOOST_TEST(some.normalised_channels == 1u);
  BOOST_TEST(some.deviation[0] == 0.25);
  BOOST_TEST(parse_augmentation("random_resized_crop:8").crop_width == 8u);
}

BOOST_AUTO_TEST_CASE(what_is_no_step_is_one_line) {
  for (const auto* text :
       {"", "flip,", "rotate", "flip:1", "random_resized_crop",
        "random_resized_crop:0", "random_resized_crop:8x8x8",
        "random_resized_crop:9000", "colour", "colour:2", "colour:0.1:0.2",
        "normalise", "normalise:1", "normalise:0.5:0", "normalise:1/2:3/4",
        "normalise:1/2/3:1", "normalise:x:1", "flip,random_resized_crop:8",
        "flip,flip"})
    BOOST_CHECK_EXCEPTION(parse_augmentation(text), InputError,
                          says({"augment: "}));
}

BOOST_AUTO_TEST_CASE(a_specification_is_checked_before_files_are_opened) {
  const auto refused = [](const std::string& keys,
                          std::vector<std::string> words) {
    BOOST_CHECK_EXCEPTION(parse_data_spec("images:none" + keys), UsageError,
                          says(std::move(words)));
  };
  refused("?augment=rotate", {"rotate", "is no step"});
  refused("?augment=random_resized_crop:8&size=8", {"leave size= out"});
  refused("?augment=normalise:imagenet&channels=1", {"3 means", "1 channels"});
  refused("?augment=flip&scale=standard", {"scale=standard"});
  BOOST_CHECK_THROW(parse_data_spec("jsonl:none?augment=flip"), UsageError);
  parse_data_spec("tar:none?augment=random_resized_crop:8,flip&scale=none");
}

// --- what is drawn
// ------------------------------------------------------------

BOOST_AUTO_TEST_CASE(draws_follow_from_seed_epoch_and_sample_alone) {
  const auto steps = parse_augmentation("random_resized_crop:16,flip,colour:1");
  std::set<std::array<uint32_t, 4>> seen;
  for (uint64_t seed : {1, 2})
    for (uint64_t epoch : {0, 1})
      for (uint64_t sample = 0; sample < 100; ++sample) {
        const auto draw = draw_of(sample, epoch, seed);
        const auto area = crop_area(steps, draw, 375, 500);
        BOOST_CHECK(
          area == crop_area(steps, draw_of(sample, epoch, seed), 375, 500));
        seen.insert({area.top, area.left, area.height, area.width});
      }
  BOOST_TEST(seen.size() > 390u); // hardly any two alike
}

BOOST_AUTO_TEST_CASE(a_crop_lies_in_the_image_and_is_of_the_drawn_sizes) {
  const auto steps = parse_augmentation("random_resized_crop:16");
  const std::pair<uint32_t, uint32_t> sizes[]{
    {375, 500}, {500, 375}, {1, 1}, {1, 500}, {500, 1}, {7, 3}, {8'000, 20}};
  for (const auto& [height, width] : sizes) {
    double areas = 0;
    constexpr uint64_t samples = 2'000;
    for (uint64_t sample = 0; sample < samples; ++sample) {
      const auto area = crop_area(steps, draw_of(sample), height, width);
      BOOST_REQUIRE(area.height > 0u);
      BOOST_REQUIRE(area.width > 0u);
      BOOST_REQUIRE(area.top + area.height <= height);
      BOOST_REQUIRE(area.left + area.width <= width);
      areas += static_cast<double>(area.height) * area.width / height / width;
    }
    if (height == 375 || width == 375) // of 8 % to 100 %, large ones fit less
      BOOST_TEST((areas / samples > 0.4 && areas / samples < 0.5));
  }
}

BOOST_AUTO_TEST_CASE(evaluation_takes_seven_eighths_at_the_middle) {
  const auto steps =
    parse_augmentation("random_resized_crop:224,flip,colour:1");
  BOOST_CHECK(crop_area(steps, {}, 400, 600) == (CropArea{25, 125, 350, 350}));
  BOOST_CHECK(crop_area(steps, {}, 1, 1) == (CropArea{0, 0, 1, 1}));
  BOOST_TEST(!is_flipped(steps, {}));
  BOOST_TEST(colour_factors(steps, {})[1] == 65'536u);
}

BOOST_AUTO_TEST_CASE(half_are_mirrored_and_colours_stay_within_their_strength) {
  const auto steps = parse_augmentation("flip,colour:0.2:0.5:0");
  int flipped = 0;
  for (uint64_t sample = 0; sample < 2'000; ++sample) {
    flipped += is_flipped(steps, draw_of(sample)) ? 1 : 0;
    const auto factors = colour_factors(steps, draw_of(sample));
    BOOST_REQUIRE((factors[0] >= 52'428 && factors[0] <= 78'644));
    BOOST_REQUIRE((factors[1] >= 32'768 && factors[1] <= 98'304));
    BOOST_REQUIRE(factors[2] == 65'536u);
  }
  BOOST_TEST((flipped > 900 && flipped < 1'100));
}

// --- what becomes of pixels
// ---------------------------------------------------

BOOST_AUTO_TEST_CASE(an_image_of_the_wanted_size_stays_as_it_is) {
  for (uint32_t channels : {1, 3}) {
    const PixelGrid grid{20, 30, channels};
    const auto pixels = picture(20, 30, channels);
    BOOST_TEST(scaled(pixels, grid, {0, 0, 20, 30}, false, 20, 30) == pixels);
    auto turned = pixels;
    mirror(turned.data(), grid);
    BOOST_TEST(scaled(pixels, grid, {0, 0, 20, 30}, true, 20, 30) == turned);
    mirror(turned.data(), grid);
    BOOST_TEST(turned == pixels);
  }
}

BOOST_AUTO_TEST_CASE(one_colour_stays_that_colour_at_any_scale) {
  for (uint32_t size : {1, 2, 5, 17, 64})
    for (uint32_t wanted : {1, 3, 16, 100})
      for (uint8_t value : {0, 1, 127, 201, 254, 255}) {
        const Bytes pixels(size_t{size} * size * 3, value);
        const auto out =
          scaled(pixels, {size, size, 3},
                 {0.3 * size, 0.1 * size, 0.5 * size, 0.9 * size}, false,
                 wanted, wanted);
        BOOST_TEST(out == Bytes(out.size(), value));
      }
}

BOOST_AUTO_TEST_CASE(pixels_are_means_with_weights_that_fall_off) {
  // 4 to 2: each of the result reaches over two to both sides.
  const Bytes pixels{10, 20, 100, 200};
  // Weights 1/4, 3/4, 3/4, 1/4 around 1; what lies outside is left out.
  const auto left = (0.75 * 10 + 0.75 * 20 + 0.25 * 100) / 1.75;
  const auto right = (0.25 * 20 + 0.75 * 100 + 0.75 * 200) / 1.75;
  const auto out = scaled(pixels, {1, 4, 1}, {0, 0, 1, 4}, false, 1, 2);
  BOOST_TEST(std::abs(out[0] - left) < 1);
  BOOST_TEST(std::abs(out[1] - right) < 1);
  const auto down = scaled(pixels, {4, 1, 1}, {0, 0, 4, 1}, false, 2, 1);
  BOOST_TEST(std::abs(down[0] - left) < 1);
  BOOST_TEST(std::abs(down[1] - right) < 1);
}

BOOST_AUTO_TEST_CASE(what_lies_outside_of_the_part_plays_no_role) {
  auto pixels = picture(40, 40, 3);
  const ImagePart part{10, 12, 15.5, 20};
  const auto before = scaled(pixels, {40, 40, 3}, part, false, 8, 8);
  for (uint32_t y = 0; y < 40; ++y)
    for (uint32_t x = 0; x < 40; ++x)
      if (y < 10 || y >= 26 || x < 12 || x >= 32)
        for (uint32_t c = 0; c < 3; ++c)
          pixels[(size_t{y} * 40 + x) * 3 + c] ^= 0xff;
  BOOST_TEST(before == scaled(pixels, {40, 40, 3}, part, false, 8, 8));
}

BOOST_AUTO_TEST_CASE(colours_change_as_they_are_defined) {
  const Bytes pixels{100, 50, 200, 10, 20, 30};
  const PixelGrid grid{1, 2, 3};
  auto same = pixels;
  change_colours(same.data(), grid, {65'536, 65'536, 65'536});
  BOOST_TEST(same == pixels);
  auto bright = pixels;
  change_colours(bright.data(), grid, {98'304, 65'536, 65'536}); // 1.5
  BOOST_TEST(bright == (Bytes{150, 75, 255, 15, 30, 45}));
  auto grey = pixels; // 0.299 r + 0.587 g + 0.114 b
  change_colours(grey.data(), grid, {65'536, 65'536, 0});
  BOOST_TEST(grey == (Bytes{82, 82, 82, 18, 18, 18}));
  auto flat = pixels; // the mean grey
  change_colours(flat.data(), grid, {65'536, 0, 65'536});
  BOOST_TEST(flat == (Bytes(6, 50)));
}

BOOST_AUTO_TEST_CASE(a_part_of_a_jpeg_is_that_part_of_all_of_it) {
  constexpr uint32_t height = 300;
  constexpr uint32_t width = 420;
  const auto pixels = picture(height, width, 3);
  const auto file = jpeg(pixels, height, width);
  const auto plain = png(pixels, height, width);
  for (const auto* text :
       {"random_resized_crop:64,flip", "random_resized_crop:224",
        "random_resized_crop:7x30", "random_resized_crop:500"})
    for (uint64_t sample = 0; sample < 40; ++sample) {
      const auto steps = parse_augmentation(text);
      const auto found = cropped(file, steps, draw_of(sample));
      BOOST_TEST(found == cropped(file, steps, draw_of(sample)));
      // The same from whole pixels, as far as a JPEG keeps them.
      BOOST_TEST(mean_distance(found, cropped(plain, steps, draw_of(sample)))
                 < 3.0);
    }
}

// --- data sets
// ----------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_epoch_draws_anew_and_evaluation_draws_nothing) {
  const Folder folder;
  for (int i = 0; i < 6; ++i) {
    const auto name = "set/" + std::to_string(i % 2);
    std::filesystem::create_directories(folder.path / name);
    auto pixels = picture(60, 50 + static_cast<uint32_t>(i), 3);
    for (auto& value : pixels)
      value = static_cast<uint8_t>(value + i);
    folder.put(name + "/" + std::to_string(i) + ".jpg",
               jpeg(pixels, 60, 50 + static_cast<uint32_t>(i)));
  }
  const auto data = load_dataset(parse_data_spec(
    "images:" + (folder.path / "set").string()
    + "?augment=random_resized_crop:16,flip,colour:0.3,normalise:imagenet"));
  BOOST_TEST(data.samples() == 6u);
  BOOST_TEST((data.shape.features == Shape{16, 16, 3}));
  const auto graph = graph_of(data.shape);
  const auto width = 16 * 16 * 3;
  const auto taken = [&](uint64_t row, const std::optional<DataPass>& pass) {
    BatchMemory batch{graph, 1};
    data.gather(&row, 1, batch, pass);
    return std::vector<float>(batch.features(), batch.features() + width);
  };
  std::set<std::vector<float>> seen;
  for (uint64_t row = 0; row < 6; ++row) {
    BOOST_TEST((taken(row, {}) == taken(row, {})));
    seen.insert(taken(row, {}));
    for (uint64_t epoch : {0, 1}) {
      const DataPass pass{7, epoch};
      BOOST_TEST((taken(row, pass) == taken(row, pass)));
      seen.insert(taken(row, pass));
    }
    seen.insert(taken(row, DataPass{8, 0}));
  }
  BOOST_TEST(seen.size() == 24u);
  float least = 0;
  float most = 0;
  for (const auto& row : seen) {
    least = std::min(least, *std::min_element(row.begin(), row.end()));
    most = std::max(most, *std::max_element(row.begin(), row.end()));
  }
  BOOST_TEST((least < -0.5f && least >= -2.2f && most > 0.5f && most < 2.7f));
}

BOOST_AUTO_TEST_SUITE_END()
