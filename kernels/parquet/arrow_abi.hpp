#pragma once

#include <cstddef>
#include <cstdint>

// What the program and the module that reads Parquet with Apache Arrow's C++
// libraries know of one another: C alone, so that neither needs to have been
// built by the other's compiler, and the program starts without Arrow.

// Source: Apache Arrow's specification "The Arrow C data interface", which has
// whoever uses it repeat these under this guard.
#ifndef ARROW_C_DATA_INTERFACE
#  define ARROW_C_DATA_INTERFACE

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

} // extern "C"

#endif

namespace troupe::parquet {

/// Where an error leaves its text, cut where there is no room.
struct ErrorText {
  char* text;
  size_t room;
};

/// A file as the module reads it. `read` fills all of `out`; false: it failed,
/// and who gave it knows why.
struct FileBytes {
  void* file;
  uint64_t size;
  bool (*read)(void* file, uint64_t offset, void* out, uint64_t bytes);
};

/// What a row group has, as the end of the file says.
struct GroupSize {
  uint64_t rows;
  uint64_t bytes; ///< packed, of all columns
};

/// The functions of the module. A reader is used by one thread at a time.
struct ModuleTable {
  uint64_t version;
  /// A reader that takes `memory` bytes at most; null: see `error`.
  void* (*open)(const FileBytes& file, uint64_t memory, ErrorText error);
  void (*close)(void* reader);
  /// The columns, one a child. False: see `error`.
  bool (*schema)(void* reader, ArrowSchema* out, ErrorText error);
  uint32_t (*row_groups)(void* reader);
  /// Of one below row_groups(). False: see `error`.
  bool (*group_size)(void* reader, uint32_t group, GroupSize* out,
                     ErrorText error);
  /// Goes to a row group, of which some columns are wanted, by their indices
  /// in the schema. False: see `error`.
  bool (*begin)(void* reader, uint32_t group, const uint32_t* columns,
                size_t count, ErrorText error);
  /// The next rows of the row group, its columns one a child. 1: there are
  /// some, 0: there are none left, -1: see `error`.
  int (*next)(void* reader, ArrowArray* out, ErrorText error);
};

constexpr uint64_t module_version = 2;

/// The module's one symbol: const ModuleTable* troupe_parquet_module().
constexpr const char* module_symbol = "troupe_parquet_module";

} // namespace troupe::parquet
