#include "kernels/parquet/arrow_abi.hpp"

#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/type.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// A module of its own, which the program loads when it meets a Parquet file:
// Apache Arrow's libraries behind the functions of arrow_abi.hpp.

namespace troupe::parquet {

namespace {

/// Rows that are decoded at a time, of so many values at most.
constexpr int64_t max_rows = 65'536;
constexpr int64_t max_values = int64_t{1} << 21;
/// Of each column that is read, the packed bytes that are held.
constexpr int64_t read_bytes = int64_t{1} << 20;

void say(ErrorText error, const std::string& what) {
  if (error.room == 0)
    return;
  const auto length = std::min(what.size(), error.room - 1);
  std::memcpy(error.text, what.data(), length);
  error.text[length] = '\0';
}

/// The file of the program as Arrow reads files.
class ProgramFile : public arrow::io::RandomAccessFile {
public:
  ProgramFile(const FileBytes& file, arrow::MemoryPool* pool)
    : file_(file), pool_(pool) {}

  arrow::Result<int64_t> GetSize() override {
    return static_cast<int64_t>(file_.size);
  }

  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes,
                                void* out) override {
    const auto size = static_cast<int64_t>(file_.size);
    if (position < 0 || bytes < 0 || position > size)
      return arrow::Status::IOError("looks for bytes outside of the file");
    const auto count = std::min(bytes, size - position);
    if (count > 0
        && !file_.read(file_.file, static_cast<uint64_t>(position), out,
                       static_cast<uint64_t>(count)))
      return arrow::Status::IOError("cannot be read");
    return count;
  }

  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position,
                                                       int64_t bytes) override {
    const auto size = static_cast<int64_t>(file_.size);
    const auto most = std::clamp<int64_t>(size - position, 0, bytes);
    ARROW_ASSIGN_OR_RAISE(auto buffer,
                          arrow::AllocateResizableBuffer(most, pool_));
    ARROW_ASSIGN_OR_RAISE(const auto count,
                          ReadAt(position, most, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(count));
    return std::shared_ptr<arrow::Buffer>{std::move(buffer)};
  }

  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const auto count, ReadAt(position_, bytes, out));
    position_ += count;
    return count;
  }

  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, bytes));
    position_ += buffer->size();
    return buffer;
  }

  arrow::Status Seek(int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }

private:
  FileBytes file_;
  arrow::MemoryPool* pool_;
  int64_t position_ = 0;
  bool closed_ = false;
};

class Reader {
public:
  Reader(const FileBytes& file, uint64_t memory)
    : pool_(arrow::system_memory_pool(), static_cast<int64_t>(memory)),
      file_(std::make_shared<ProgramFile>(file, &pool_)) {}

  arrow::Status open() {
    ::parquet::ReaderProperties how{&pool_};
    how.enable_buffered_stream();
    how.set_buffer_size(read_bytes);
    how.set_page_checksum_verification(true);
    ::parquet::arrow::FileReaderBuilder builder;
    ARROW_RETURN_NOT_OK(builder.Open(file_, how));
    ::parquet::ArrowReaderProperties arrow_how{false}; // no threads
    arrow_how.set_pre_buffer(false);
    ARROW_RETURN_NOT_OK(
      builder.memory_pool(&pool_)->properties(arrow_how)->Build(&reader_));
    return reader_->GetSchema(&schema_);
  }

  arrow::Status schema(ArrowSchema* out) const {
    return arrow::ExportSchema(*schema_, out);
  }

  uint32_t row_groups() const {
    return static_cast<uint32_t>(reader_->num_row_groups());
  }

  arrow::Status group_size(uint32_t group, GroupSize& out) const {
    const auto metadata = reader_->parquet_reader()->metadata();
    const auto known = metadata->RowGroup(static_cast<int>(group));
    const auto rows = known->num_rows();
    const auto bytes = known->total_compressed_size();
    if (rows < 0 || bytes < 0)
      return arrow::Status::Invalid("says that it has less than nothing");
    out = {static_cast<uint64_t>(rows), static_cast<uint64_t>(bytes)};
    return arrow::Status::OK();
  }

  arrow::Status begin(uint32_t group, const uint32_t* columns, size_t count) {
    std::vector<int> leaves;
    for (size_t i = 0; i < count; ++i) {
      const auto& field = reader_->manifest().schema_fields.at(columns[i]);
      if (field.column_index < 0)
        return arrow::Status::Invalid("a column holds columns");
      leaves.push_back(field.column_index);
    }
    const auto wide = static_cast<int64_t>(std::max<size_t>(1, count));
    reader_->set_batch_size(
      std::clamp<int64_t>(max_values / wide, 1, max_rows));
    ARROW_ASSIGN_OR_RAISE(batches_, reader_->GetRecordBatchReader(
                                      {static_cast<int>(group)}, leaves));
    return arrow::Status::OK();
  }

  arrow::Result<bool> next(ArrowArray* out) {
    while (true) {
      ARROW_ASSIGN_OR_RAISE(const auto batch, batches_->Next());
      if (!batch)
        return false;
      if (batch->num_rows() == 0)
        continue;
      ARROW_RETURN_NOT_OK(batch->Validate());
      ARROW_RETURN_NOT_OK(arrow::ExportRecordBatch(*batch, out));
      return true;
    }
  }

private:
  arrow::CappedMemoryPool pool_;
  std::shared_ptr<ProgramFile> file_;
  std::unique_ptr<::parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
};

/// What Arrow throws or returns, in words.
template <class Call>
bool succeeds(ErrorText error, const Call& call) noexcept {
  try {
    const arrow::Status status = call();
    if (status.ok())
      return true;
    say(error, status.message());
  } catch (const std::exception& failure) {
    say(error, failure.what());
  }
  return false;
}

void* open(const FileBytes& file, uint64_t memory, ErrorText error) {
  std::unique_ptr<Reader> reader;
  const bool opened = succeeds(error, [&] {
    reader = std::make_unique<Reader>(file, memory);
    return reader->open();
  });
  return opened ? reader.release() : nullptr;
}

void close(void* reader) {
  delete static_cast<Reader*>(reader);
}

bool schema(void* reader, ArrowSchema* out, ErrorText error) {
  return succeeds(error,
                  [&] { return static_cast<Reader*>(reader)->schema(out); });
}

uint32_t row_groups(void* reader) {
  return static_cast<Reader*>(reader)->row_groups();
}

bool group_size(void* reader, uint32_t group, GroupSize* out, ErrorText error) {
  return succeeds(error, [&] {
    return static_cast<Reader*>(reader)->group_size(group, *out);
  });
}

bool begin(void* reader, uint32_t group, const uint32_t* columns, size_t count,
           ErrorText error) {
  return succeeds(error, [&] {
    return static_cast<Reader*>(reader)->begin(group, columns, count);
  });
}

int next(void* reader, ArrowArray* out, ErrorText error) {
  bool some = false;
  const bool read = succeeds(error, [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(some, static_cast<Reader*>(reader)->next(out));
    return arrow::Status::OK();
  });
  return !read ? -1 : some ? 1 : 0;
}

} // namespace

} // namespace troupe::parquet

extern "C" __attribute__((visibility("default")))
const troupe::parquet::ModuleTable*
troupe_parquet_module() {
  using namespace troupe::parquet;
  static constexpr ModuleTable table{module_version, open,       close, schema,
                                     row_groups,     group_size, begin, next};
  return &table;
}
