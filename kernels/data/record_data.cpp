#include "kernels/data/record_data.hpp"

#include "kernels/base/error.hpp"
#include "kernels/data/class_labels.hpp"
#include "kernels/data/data_options.hpp"
#include "kernels/data/sample_source.hpp"
#include "kernels/data/sample_windows.hpp"
#include "kernels/files/file_list.hpp"
#include "kernels/files/file_url.hpp"
#include "kernels/files/free_memory.hpp"
#include "kernels/records/byte_stream.hpp"
#include "kernels/records/formats.hpp"
#include "kernels/records/record_files.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// Of the free memory, for rows, where nobody says how much: others run on the
/// machine, and a quarter that suffices is as good as more.
constexpr uint64_t usual_share = 4;
constexpr std::array record_tasks{"classes", "regression"};
constexpr std::array channel_counts{"3", "1"};

// --- what the keys say -------------------------------------------------------

/// "32x48", each from 1 to `most`.
Shape extents_of(const DataSpec& spec, const char* key, size_t max_extents,
                 uint64_t most) {
  Shape result;
  const auto text = option(spec, key);
  if (!text)
    return result;
  const auto* at = text->data();
  const auto* last = at + text->size();
  while (true) {
    uint64_t extent = 0;
    const auto [stop, error] = std::from_chars(at, last, extent);
    if (error != std::errc{} || extent == 0 || extent > most
        || (stop != last && *stop != 'x') || result.size() == max_extents)
      refuse(spec,
             std::string{key} + "=" + *text + " is not of the form "
               + (max_extents == 2 ? "SIDE or HEIGHTxWIDTH" : "EXTENTxEXTENT…")
               + ", each from 1 to " + std::to_string(most));
    result.push_back(extent);
    if (stop == last)
      return result;
    at = stop + 1;
  }
}

Augmentation augmentation_of(const DataSpec& spec, const ImageSize& size) {
  const auto text = option(spec, "augment");
  if (!text)
    return {};
  Augmentation steps;
  try {
    steps = parse_augmentation(*text);
  } catch (const InputError& mistake) {
    refuse(spec, mistake.what());
  }
  if (steps.crop_height > 0 && size.height > 0)
    refuse(spec, "random_resized_crop says the size; leave size= out");
  if (steps.normalise && steps.normalised_channels != size.channels)
    refuse(spec, "normalise has " + std::to_string(steps.normalised_channels)
                   + " means, and images have " + std::to_string(size.channels)
                   + " channels; give as many");
  if (option(spec, "scale").value_or("none") != "none")
    refuse(spec, "scale=standard does not go with augment=; add "
                 "normalise:MEAN:DEVIATION as its last step");
  return steps;
}

RowWishes wishes_of(const DataSpec& spec) {
  RowWishes wishes;
  wishes.shape = extents_of(spec, "shape", 4, 1 << 24);
  const auto size = extents_of(spec, "size", 2, 8192);
  if (!size.empty()) {
    wishes.image.height = static_cast<uint32_t>(size.front());
    wishes.image.width = static_cast<uint32_t>(size.back());
  }
  wishes.image.channels =
    choice_option(spec, "channels", channel_counts) == "3" ? 3 : 1;
  wishes.augment = augmentation_of(spec, wishes.image);
  return wishes;
}

NamedFields fields_of(const DataSpec& spec, const char* label) {
  NamedFields fields;
  fields.label = option(spec, "label").value_or(label);
  std::string_view left;
  const auto given = option(spec, "features");
  if (given)
    left = *given;
  while (!left.empty()) {
    const auto end = std::min(left.find(','), left.size());
    if (end == 0)
      refuse(spec, "features=" + *given + " has an empty name");
    fields.features.emplace_back(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  for (const auto& name : fields.features)
    if (name == fields.label
        || std::count(fields.features.begin(), fields.features.end(), name) > 1)
      refuse(spec, "features= and label= name " + in_quotes(name) + " twice");
  return fields;
}

bool is_numbers(const DataSpec& spec) {
  return option(spec, "task") == "regression";
}

// --- reading -----------------------------------------------------------------

class FileSamples : public SampleSource {
public:
  /// `memory`: that may be held of the files.
  FileSamples(RecordFiles files, uint64_t memory)
    : files_(std::move(files)), memory_(memory) {}
  void read(uint64_t sample, void* row, const SampleDraw& draw) const override {
    files_.read(sample, row, draw);
  }
  uint64_t stored_bytes(uint64_t sample) const override {
    return files_.stored_bytes(sample);
  }
  /// Where what a window reaches into can be held, it is read at once.
  void check_mix(const Dataset& train, const MixRule& mix) const override {
    const auto window =
      largest_window(train, mix, [&](uint64_t first, uint64_t last) {
        return files_.stretch_bytes(mix.block, first, last);
      });
    if (mix.block > 0 && window <= memory_)
      files_.read_stretches(mix.block, memory_);
  }
  void expect(uint64_t sample) const override { files_.expect(sample); }
  bool is_elsewhere() const override { return files_.is_elsewhere(); }

private:
  mutable RecordFiles files_; ///< changed by check_mix() alone
  uint64_t memory_;
};

/// The samples of many files: held while they fit, else found alone.
class RecordReader {
public:
  RecordReader(const DataSpec& spec, std::vector<DataFile> files,
               std::unique_ptr<RecordFormat> format, const ReadLimits& limits)
    : spec_(spec),
      files_(std::move(files)),
      format_(std::move(format)),
      index_folder_(limits.index_folder),
      memory_(limits.memory ? *limits.memory : free_memory() / usual_share),
      numbers_(is_numbers(spec)),
      rule_(rule_of(spec)),
      augmented_(option(spec, "augment").has_value()),
      held_(!augmented_) {
    for (const auto& file : files_)
      if (augmented_ && is_packed_name(file.name()))
        throw InputError(file.name()
                         + ": is compressed, and images to augment are read "
                           "again in each epoch; unpack it");
  }

  Dataset read() {
    if (!read_indexes())
      read_files();
    if (samples_ == 0)
      throw InputError(spec_.where
                       + ": holds no samples; is it the right file?");
    out_.name = spec_.kind + ":" + spec_.where;
    out_.shape.features = layout_.shape;
    out_.shape.label = numbers_ ? LabelKind::number : LabelKind::classes;
    out_.scale = layout_.scale;
    out_.bytes = std::move(bytes_);
    out_.values = std::move(values_);
    if (!held_)
      leave_in_files();
    return std::move(out_);
  }

private:
  /// What an index depends on besides its file.
  static std::string rule_of(const DataSpec& spec) {
    std::string rule = spec.kind;
    for (const char* key : {"features", "label", "task"})
      rule += '&' + option(spec, key).value_or("");
    return rule;
  }

  uint64_t row_limit() const {
    return memory_ / std::max<uint64_t>(1, layout_.bytes());
  }

  /// Takes the indexes that an earlier run kept, where all are there and the
  /// samples do not fit into memory.
  bool read_indexes() {
    if (format_->whole_files())
      return false;
    for (const auto& file : files_) {
      auto index = is_packed_name(file.name())
                     ? std::nullopt
                     : load_index(index_folder_, file, rule_);
      if (!index || index->size() == 0) {
        indexes_.clear();
        return false;
      }
      indexes_.push_back(std::move(*index));
      samples_ += indexes_.back().size();
    }
    const auto first = files_.front().open();
    std::vector<uint8_t> buffer;
    layout_ =
      format_->begin(read_record(*format_, *first, indexes_[0][0], buffer));
    held_ = !augmented_ && samples_ <= row_limit();
    if (held_) {
      indexes_.clear();
      samples_ = 0;
      return false;
    }
    for (const auto& index : indexes_)
      for (uint64_t i = 0; i < index.size(); ++i)
        add_label(index[i].label);
    return true;
  }

  void read_files() {
    for (const auto& file : files_) {
      const auto state = state_of(file);
      const auto name = file.name();
      std::vector<IndexedRecord> places;
      if (!held_ && format_->whole_files() && !layout_.shape.empty()
          && state.bytes <= longest_record)
        find({name, 0, {}, {}}, state.bytes, places);
      else
        scan(file, places);
      indexes_.emplace_back(state, std::move(places));
      if (state_of(file) != state)
        throw InputError(name + ": changed while it was read; try again");
    }
    if (held_ || format_->whole_files())
      return;
    for (size_t i = 0; i < files_.size(); ++i)
      indexes_[i] = keep_index(index_folder_, files_[i], rule_,
                               std::move(indexes_[i]));
  }

  void scan(const DataFile& file, std::vector<IndexedRecord>& places) {
    const auto scan = format_->scan(file);
    Record record;
    while (scan->next(record)) {
      if (layout_.shape.empty())
        layout_ = format_->begin(record);
      find(record, record.bytes.size(), places);
      hold(record);
    }
  }

  void find(const Record& record, uint64_t bytes,
            std::vector<IndexedRecord>& places) {
    const auto label = checked_label(record);
    add_label(label);
    ++samples_;
    make_room(places, 1, spec_.where);
    places.push_back({record.offset, static_cast<uint32_t>(bytes), label});
  }

  /// Decodes a sample into memory, or gives all of them back once there are
  /// too many. Those that stay in their files are decoded when they are
  /// wanted.
  void hold(const Record& record) {
    if (!held_)
      return;
    if (samples_ > row_limit()) {
      held_ = false;
      bytes_ = {};
      values_ = {};
      for (const auto& file : files_)
        if (is_packed_name(file.name()))
          throw InputError(
            file.name()
            + ": does not fit into the memory for data, and compressed "
            + "files can only be read whole; unpack them, or raise "
            + "--data-memory");
      return;
    }
    const auto width = layout_.values();
    if (layout_.is_bytes) {
      make_room(bytes_, width, std::string{record.path});
      bytes_.resize(bytes_.size() + width);
      format_->decode(record, bytes_.data() + bytes_.size() - width, {});
    } else {
      make_room(values_, width, std::string{record.path});
      values_.resize(values_.size() + width);
      format_->decode(record, values_.data() + values_.size() - width, {});
    }
  }

  uint32_t checked_label(const Record& record) const {
    const auto label = format_->label(record);
    if (numbers_) {
      if (!(std::fabs(label) <= std::numeric_limits<float>::max()))
        record.refuse("its label is not a finite float32 number", "mend it");
      return std::bit_cast<uint32_t>(static_cast<float>(label));
    }
    if (!(label >= 0 && label <= largest_class) || label != std::floor(label))
      record.refuse("its label is not a class from 0 to "
                      + std::to_string(largest_class),
                    "number the classes from 0, or add task=regression");
    return static_cast<uint32_t>(label);
  }

  void add_label(uint32_t label) {
    if (numbers_) {
      make_room(out_.targets, 1, spec_.where);
      out_.targets.push_back(std::bit_cast<float>(label));
    } else {
      make_room(out_.labels, 1, spec_.where);
      out_.labels.push_back(static_cast<int32_t>(label));
    }
  }

  void leave_in_files() {
    // Not all files have samples.
    std::vector<DataFile> files;
    std::vector<FileIndex> indexes;
    for (size_t i = 0; i < files_.size(); ++i)
      if (indexes_[i].size() > 0) {
        files.push_back(std::move(files_[i]));
        indexes.push_back(std::move(indexes_[i]));
      }
    out_.in_files = std::make_shared<FileSamples>(
      RecordFiles{std::move(format_), layout_, std::move(files),
                  std::move(indexes)},
      memory_);
    out_.files_hold_bytes = layout_.is_bytes;
  }

  const DataSpec& spec_;
  std::vector<DataFile> files_;
  std::shared_ptr<RecordFormat> format_;
  std::string index_folder_;
  uint64_t memory_; ///< that rows may take
  bool numbers_;
  std::string rule_;
  bool augmented_; ///< samples are decoded anew in each epoch
  bool held_;
  RowLayout layout_;
  uint64_t samples_ = 0;
  std::vector<FileIndex> indexes_;
  std::vector<uint8_t> bytes_;
  std::vector<float> values_;
  Dataset out_;
};

/// What macOS puts into archives beside the folders that were packed.
constexpr const char* of_another_system = "__MACOSX";

/// The names of a folder's entries of one type, by their bytes.
std::vector<std::string> entries_of(const fs::path& folder, bool folders) {
  std::vector<std::string> result;
  std::error_code failed;
  fs::directory_iterator entries{folder, failed};
  for (; !failed && entries != fs::directory_iterator{};
       entries.increment(failed)) {
    auto name = entries->path().filename().string();
    std::error_code unknown;
    if (name.starts_with('.') || name == of_another_system
        || entries->is_directory(unknown) != folders)
      continue;
    result.push_back(std::move(name));
  }
  if (failed)
    throw InputError(folder.string() + ": cannot be read (" + failed.message()
                     + "); name a folder with a folder a class");
  std::sort(result.begin(), result.end());
  return result;
}

bool is_image_name(std::string name) {
  for (auto& c : name)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name.ends_with(".jpg") || name.ends_with(".jpeg")
         || name.ends_with(".png");
}

/// The folders of a store that hold an image, and the images, in the order of
/// their names' bytes, folder by folder.
std::vector<DataFile> stored_images(const DataFile& folder,
                                    std::vector<std::string>& classes) {
  if (!folder.store() || !folder.place().starts_with("s3://"))
    throw InputError(folder.name() + ": a folder of images is read from this "
                     + "machine or from s3://, which can list it; name one of "
                       "those");
  std::map<std::string, std::vector<DataFile>> found;
  for (const auto& url : folder.store()->list(in_folder(folder, "*/*").place()))
    if (is_image_name(url)) {
      const fs::path place{url};
      found[place.parent_path().filename().string()].emplace_back(
        url, folder.store());
    }
  std::vector<DataFile> files;
  for (auto& [name, images] : found) {
    classes.push_back(name);
    files.insert(files.end(), images.begin(), images.end());
  }
  return files;
}

std::vector<DataFile> local_images(const fs::path& folder,
                                   std::vector<std::string>& classes) {
  classes = entries_of(folder, true);
  std::vector<DataFile> files;
  for (const auto& name : classes)
    for (const auto& file : entries_of(folder / name, false))
      if (is_image_name(file))
        files.emplace_back((folder / name / file).string());
  return files;
}

} // namespace

void check_records(const DataSpec& spec) {
  wishes_of(spec);
  fields_of(spec, "label");
  if (option(spec, "task"))
    choice_option(spec, "task", record_tasks);
}

Dataset read_tfrecord(const DataSpec& spec, const ReadLimits& limits) {
  return RecordReader{spec, list_files(spec.where, limits.store),
                      example_format(fields_of(spec, "label"), wishes_of(spec)),
                      limits}
    .read();
}

Dataset read_tar(const DataSpec& spec, const ReadLimits& limits) {
  return RecordReader{spec, list_files(spec.where, limits.store),
                      tar_format(fields_of(spec, "cls"), wishes_of(spec)),
                      limits}
    .read();
}

Dataset read_json_lines(const DataSpec& spec, const ReadLimits& limits) {
  return RecordReader{
    spec, list_files(spec.where, limits.store),
    json_lines_format(fields_of(spec, "label"), wishes_of(spec)), limits}
    .read();
}

Dataset read_image_folder(const DataSpec& spec, const ReadLimits& limits) {
  std::vector<std::string> classes;
  auto files = is_url(spec.where)
                 ? stored_images({spec.where, limits.store}, classes)
                 : local_images(spec.where, classes);
  if (classes.size() > static_cast<size_t>(largest_class) + 1)
    throw InputError(spec.where + ": holds " + std::to_string(classes.size())
                     + " folders, more than 65536 classes; name the folder "
                     + "above those of the classes");
  if (files.empty())
    throw InputError(spec.where + ": holds no folder with a .jpg, .jpeg or "
                     + ".png; put each class's images into a folder of its "
                     + "own");
  return RecordReader{spec, std::move(files),
                      image_files_format(classes, wishes_of(spec)), limits}
    .read();
}

void fit_records(const DataSpec& spec, Dataset& train, Dataset* eval) {
  if (eval != nullptr && eval->shape.features != train.shape.features)
    throw InputError(eval->name + ": has features "
                     + to_string(eval->shape.features) + ", the training part "
                     + to_string(train.shape.features)
                     + "; take both from one set, or give size=");
  if (!is_numbers(spec))
    fit_classes(train, eval);
}

} // namespace troupe
