#pragma once

#include "kernels/records/record_format.hpp"

#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// What the samples of a tar shard consist of.
struct TarFields {
  std::vector<std::string> features; ///< endings of which a sample has one
  std::string label = "cls";         ///< the ending of the label's member
};

/// The samples of a tar file as WebDataset writes them: members one after
/// another whose names are alike up to the first dot of the last part. A
/// sample's bytes are those of the member whose ending is one of
/// `fields.features`, its label the text of that which ends like
/// `fields.label`. Formats: ustar, GNU's and pax's long names and sizes.
/// Nothing is written anywhere; names that leave the archive are refused.
/// Source: POSIX.1-2017, pax, "ustar Interchange Format"; the WebDataset
/// format's specification.
std::unique_ptr<RecordScan> scan_tar(const DataFile& file,
                                     const TarFields& fields);

} // namespace troupe
