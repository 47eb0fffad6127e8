#include "kernels/records/image.hpp"

#include "kernels/records/area_scale.hpp"
#include "kernels/records/triangle_scale.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// After <cstdio>: it takes FILE for granted.
#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

namespace troupe {

namespace {

constexpr auto mend_image = "mend or remove it";

bool is_jpeg(std::span<const uint8_t> bytes) {
  return bytes.size() > 3 && bytes[0] == 0xff && bytes[1] == 0xd8
         && bytes[2] == 0xff;
}

bool is_png(std::span<const uint8_t> bytes) {
  return bytes.size() > 8 && png_sig_cmp(bytes.data(), 0, 8) == 0;
}

ImageSize checked_size(const Record& record, uint64_t height, uint64_t width) {
  if (height == 0 || width == 0)
    record.refuse("the image has no pixels", mend_image);
  if (height > max_pixels / width)
    record.refuse("the image has " + std::to_string(height) + " x "
                    + std::to_string(width) + " pixels, more than "
                    + std::to_string(max_pixels),
                  "scale it down before");
  return {static_cast<uint32_t>(height), static_cast<uint32_t>(width), 0};
}

// --- JPEG --------------------------------------------------------------------

/// The library calls back where it cannot go on; what it says goes into one
/// line, and the way out is a long jump: nothing with a destructor may be made
/// between there and here.
struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf way_out;
  char text[JMSG_LENGTH_MAX];
};

void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->text);
  std::longjmp(errors->way_out, 1);
}

/// Warnings that say that pixels are missing or damaged.
void warn(j_common_ptr info, int level) {
  const auto code = info->err->msg_code;
  if (level < 0
      && (code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF
          || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC))
    leave(info);
}

/// A file of a few bytes can ask for scan after scan of all pixels.
void count_scans(j_common_ptr info) {
  constexpr int max_scans = 100;
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number > max_scans)
    leave(info);
}

void say_nothing(j_common_ptr) {}

/// A decoder with its errors; ends with it.
struct JpegReader {
  jpeg_decompress_struct info{};
  JpegErrors errors{};

  explicit JpegReader(std::span<const uint8_t> bytes) : bytes_(bytes) {
    info.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = leave;
    errors.base.emit_message = warn;
    errors.base.output_message = say_nothing;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Reads what comes before the pixels; false where that cannot be.
  bool open() {
    if (setjmp(errors.way_out) != 0)
      return false;
    jpeg_create_decompress(&info);
    // Progressive images are kept as coefficients.
    info.mem->max_memory_to_use = long{256} << 20;
    progress_.progress_monitor = count_scans;
    info.progress = &progress_;
    jpeg_mem_src(&info, bytes_.data(), bytes_.size());
    jpeg_read_header(&info, TRUE);
    return true;
  }

  bool start(uint32_t channels, unsigned eighths) {
    if (setjmp(errors.way_out) != 0)
      return false;
    info.out_color_space = channels == 4   ? JCS_EXT_RGBX
                           : channels == 3 ? JCS_RGB
                                           : JCS_GRAYSCALE;
    info.scale_num = eighths;
    info.scale_denom = 8;
    info.dct_method = JDCT_ISLOW; // the same bits with and without SIMD
    jpeg_start_decompress(&info);
    return true;
  }

  /// Cuts what comes out to columns [left, left + width), and a few more to
  /// its left and right; those of them that come out. After start().
  bool cut(uint32_t& left, uint32_t& width) {
    if (setjmp(errors.way_out) != 0)
      return false;
    JDIMENSION first = left;
    JDIMENSION count = width;
    jpeg_crop_scanline(&info, &first, &count);
    left = first;
    width = count;
    return true;
  }

  /// Rows [top, top + count); what follows is not decoded.
  bool rows(uint8_t* out, uint32_t top, uint32_t count) {
    if (setjmp(errors.way_out) != 0)
      return false;
    const size_t stride = size_t{info.output_width}
                          * static_cast<size_t>(info.output_components);
    if (top > 0)
      jpeg_skip_scanlines(&info, top);
    while (info.output_scanline < top + count) {
      JSAMPROW row = out + (info.output_scanline - top) * stride;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_abort_decompress(&info);
    return true;
  }

  bool rows(uint8_t* out) {
    if (setjmp(errors.way_out) != 0)
      return false;
    const size_t stride = size_t{info.output_width}
                          * static_cast<size_t>(info.output_components);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = out + info.output_scanline * stride;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
    return true;
  }

private:
  std::span<const uint8_t> bytes_;
  jpeg_progress_mgr progress_{};
};

[[noreturn]] void refuse_jpeg(const Record& record, const JpegReader& reader) {
  record.refuse("the JPEG image is damaged (" + std::string{reader.errors.text}
                  + ")",
                mend_image);
}

/// The smallest scale at which an extent is still as long as it has to be.
unsigned eighths_of(uint64_t extent, uint64_t wanted) {
  unsigned eighths = 8;
  for (unsigned less : {4u, 2u, 1u})
    if ((extent * less + 7) / 8 >= wanted)
      eighths = less;
  return eighths;
}

/// Pixels in memory of their own.
struct Pixels {
  PixelGrid grid;
  std::vector<uint8_t> values;
};

void open_jpeg(const Record& record, JpegReader& reader) {
  if (!reader.open())
    refuse_jpeg(record, reader);
  checked_size(record, reader.info.image_height, reader.info.image_width);
  // Some cameras' four colours: the library turns no CMYK into RGB.
  if (reader.info.num_components == 4)
    record.refuse("the JPEG image has four colours (CMYK)",
                  "convert it to RGB");
}

Pixels decode_jpeg(const Record& record, const ImageSize& wanted) {
  JpegReader reader{record.bytes};
  open_jpeg(record, reader);
  const auto eighths =
    std::max(eighths_of(reader.info.image_height, wanted.height),
             eighths_of(reader.info.image_width, wanted.width));
  if (!reader.start(wanted.channels, eighths))
    refuse_jpeg(record, reader);
  Pixels result;
  result.grid = {reader.info.output_height, reader.info.output_width,
                 static_cast<uint32_t>(reader.info.output_components)};
  result.values.resize(size_t{result.grid.height} * result.grid.width
                       * result.grid.channels);
  if (result.grid.channels != wanted.channels
      || !reader.rows(result.values.data()))
    refuse_jpeg(record, reader);
  return result;
}

/// A part of an image, with what of it is in memory.
struct PartPixels {
  Pixels pixels;
  ImagePart part; ///< in `pixels`
};

PartPixels decode_jpeg_part(const Record& record, const Augmentation& steps,
                            const SampleDraw& draw, uint32_t channels) {
  JpegReader reader{record.bytes};
  open_jpeg(record, reader);
  const auto area = crop_area(steps, draw, reader.info.image_height,
                              reader.info.image_width);
  const auto eighths = std::max(eighths_of(area.height, steps.crop_height),
                                eighths_of(area.width, steps.crop_width));
  channels = channels == 3 ? 4 : 1; // as scale_part takes them
  if (!reader.start(channels, eighths))
    refuse_jpeg(record, reader);
  const auto at_scale = [&](uint32_t pixels) { return pixels * eighths / 8.0; };
  const auto top = area.top * eighths / 8;
  const auto bottom = std::min((area.top + area.height) * eighths / 8 + 1,
                               reader.info.output_height);
  auto left = area.left * eighths / 8;
  auto width = std::min((area.left + area.width) * eighths / 8 + 1,
                        reader.info.output_width)
               - left;
  PartPixels result;
  auto& grid = result.pixels.grid;
  grid.channels = static_cast<uint32_t>(reader.info.output_components);
  if (grid.channels != channels || !reader.cut(left, width))
    refuse_jpeg(record, reader);
  grid.width = reader.info.output_width;
  grid.height = bottom - top;
  result.pixels.values.resize(size_t{grid.height} * grid.width * channels);
  if (!reader.rows(result.pixels.values.data(), top, grid.height))
    refuse_jpeg(record, reader);
  result.part = {at_scale(area.top) - top, at_scale(area.left) - left,
                 at_scale(area.height), at_scale(area.width)};
  return result;
}

ImageSize jpeg_size(const Record& record) {
  JpegReader reader{record.bytes};
  if (!reader.open())
    refuse_jpeg(record, reader);
  return checked_size(record, reader.info.image_height,
                      reader.info.image_width);
}

// --- PNG ---------------------------------------------------------------------

/// libpng's simplified interface; ends with it.
struct PngReader {
  png_image image{};

  explicit PngReader(const Record& record) : record_(record) {
    image.version = PNG_IMAGE_VERSION;
  }

  /// Reads what comes before the pixels. Errors: InputError; what was begun is
  /// given back with this object.
  void open() {
    if (png_image_begin_read_from_memory(&image, record_.bytes.data(),
                                         record_.bytes.size())
        == 0)
      refuse_png();
    checked_size(record_, image.height, image.width);
  }
  ~PngReader() { png_image_free(&image); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  [[noreturn]] void refuse_png() const {
    record_.refuse("the PNG image is damaged (" + std::string{image.message}
                     + ")",
                   mend_image);
  }

private:
  const Record& record_;
};

Pixels decode_png(const Record& record, uint32_t channels) {
  PngReader reader{record};
  reader.open();
  auto& image = reader.image;
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Pixels result;
  result.grid = {image.height, image.width, channels};
  result.values.resize(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&image, &black, result.values.data(), 0, nullptr)
      == 0)
    reader.refuse_png();
  return result;
}

ImageSize png_size(const Record& record) {
  PngReader reader{record};
  reader.open();
  return {reader.image.height, reader.image.width, 0};
}

} // namespace

bool is_image(std::span<const uint8_t> bytes) {
  return is_jpeg(bytes) || is_png(bytes);
}

ImageSize image_size(const Record& record) {
  if (is_jpeg(record.bytes))
    return jpeg_size(record);
  if (is_png(record.bytes))
    return png_size(record);
  record.refuse("is neither a JPEG nor a PNG image", mend_image);
}

namespace {

/// Red, green, blue and a byte that nobody looks at, as scale_part takes them.
void widen(Pixels& pixels) {
  const auto count = size_t{pixels.grid.height} * pixels.grid.width;
  std::vector<uint8_t> wide(4 * count);
  for (size_t i = 0; i < count; ++i)
    std::copy_n(pixels.values.data() + 3 * i, 3, wide.data() + 4 * i);
  pixels.values = std::move(wide);
  pixels.grid.channels = 4;
}

} // namespace

void decode_crop(const Record& record, const Augmentation& steps,
                 const SampleDraw& draw, uint32_t channels, uint8_t* out) {
  PartPixels decoded;
  if (is_jpeg(record.bytes)) {
    decoded = decode_jpeg_part(record, steps, draw, channels);
  } else if (is_png(record.bytes)) {
    decoded.pixels = decode_png(record, channels);
    if (channels == 3)
      widen(decoded.pixels);
    const auto& grid = decoded.pixels.grid;
    const auto area = crop_area(steps, draw, grid.height, grid.width);
    decoded.part = {static_cast<double>(area.top),
                    static_cast<double>(area.left),
                    static_cast<double>(area.height),
                    static_cast<double>(area.width)};
  } else {
    record.refuse("is neither a JPEG nor a PNG image", mend_image);
  }
  const auto& grid = decoded.pixels.grid;
  scale_part(decoded.pixels.values.data(), grid, decoded.part,
             is_flipped(steps, draw), out,
             {steps.crop_height, steps.crop_width, channels});
}

void decode_image(const Record& record, const ImageSize& wanted, bool exact,
                  uint8_t* out) {
  if (exact) {
    const auto size = image_size(record);
    if (size.height != wanted.height || size.width != wanted.width)
      record.refuse("the image has " + std::to_string(size.height) + " x "
                      + std::to_string(size.width) + " pixels, the first one "
                      + std::to_string(wanted.height) + " x "
                      + std::to_string(wanted.width),
                    "add size=HEIGHTxWIDTH");
  } else if (!is_image(record.bytes)) {
    record.refuse("is neither a JPEG nor a PNG image", mend_image);
  }
  const auto pixels = is_jpeg(record.bytes)
                        ? decode_jpeg(record, wanted)
                        : decode_png(record, wanted.channels);
  scale_area(pixels.values.data(), pixels.grid, out,
             {wanted.height, wanted.width, wanted.channels});
}

} // namespace troupe
