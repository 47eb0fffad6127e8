#pragma once

#include "kernels/records/row_plan.hpp"

#include <memory>
#include <string>
#include <vector>

// The formats of records there are. Adding one is a factory here.

namespace troupe {

/// Features and label by their names.
struct NamedFields {
  std::vector<std::string> features; ///< empty: found in the first sample
  std::string label = "label";
};

/// TFRecord files of tf.train.Example. Features are all numbers of the named
/// ones in a row; or the bytes of the only one, an image file or the values.
std::unique_ptr<RecordFormat> example_format(const NamedFields& fields,
                                             const RowWishes& wishes);

/// JSON objects, one a line; features are numbers, booleans and lists of them.
std::unique_ptr<RecordFormat> json_lines_format(const NamedFields& fields,
                                                const RowWishes& wishes);

/// Tar files with a member of features and one of the label a sample:
/// `fields.features` and `fields.label` are their endings.
std::unique_ptr<RecordFormat> tar_format(const NamedFields& fields,
                                         const RowWishes& wishes);

/// Files that are an image each; the label is the place of the folder's name
/// among `classes`.
std::unique_ptr<RecordFormat>
image_files_format(std::vector<std::string> classes, const RowWishes& wishes);

} // namespace troupe
