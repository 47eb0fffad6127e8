#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// A file, or an object of a store, of which any part can be read by any
/// thread.
class OpenedFile {
public:
  virtual ~OpenedFile() = default;

  /// As messages name it.
  virtual const std::string& name() const = 0;
  /// Bytes it held when it was opened.
  virtual uint64_t size() const = 0;
  /// Of a file when it was last written, in nanoseconds since 1970; of an
  /// object what follows from its tag.
  virtual int64_t version() const = 0;

  /// Fills `out` with what lies at `offset`; returns less than its size only
  /// at the end.
  /// Errors: InputError (not readable; an object that has changed since it was
  /// opened).
  virtual size_t read_at(uint64_t offset, std::span<std::byte> out) const = 0;

  /// Says that read_at(offset, so many bytes) follows soon. What has to come
  /// from elsewhere is fetched meanwhile, as far as there is room.
  virtual void expect(uint64_t /*offset*/, uint64_t /*bytes*/) const {}
};

/// Where objects lie that are no files of this machine. Any thread may ask.
class FileStore {
public:
  virtual ~FileStore() = default;

  /// Errors: FileError with the reason, whose code() is ENOENT where there is
  /// no such object; InputError for what cannot be an address.
  virtual std::shared_ptr<const OpenedFile>
  open(const std::string& url) const = 0;

  /// The URLs of a pattern with *, ? and […], none of which stands for a
  /// slash; of one that ends in a slash, all that begin with it. In the order
  /// of their bytes; none is an empty list.
  /// Errors: as open(); InputError where a store can list nothing.
  virtual std::vector<std::string> list(const std::string& pattern) const = 0;
};

} // namespace troupe
