// Every type that travels between processes by CAF:
//   number of the type (2 bytes), then what is taken for one of it

#include "actors/wire/messages.hpp"

#include "actors/wire/messages/voting.hpp"
#include "tests/fuzz/input.hpp"

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/detail/meta_object.hpp>
#include <caf/init_global_meta_objects.hpp>

#include <cstddef>
#include <memory>
#include <vector>

using troupe::fuzz::holds;

namespace {

using caf::detail::meta_object;

std::vector<const meta_object*> wire_types() {
  caf::init_global_meta_objects<caf::id_block::troupe>();
  caf::init_global_meta_objects<caf::id_block::troupe_voting>();
  caf::core::init_global_meta_objects();
  std::vector<const meta_object*> found;
  auto add = [&]<class Block>() {
    for (auto id = Block::begin; id < Block::end; ++id)
      found.push_back(caf::detail::global_meta_object(id));
  };
  add.operator()<caf::id_block::troupe>();
  add.operator()<caf::id_block::troupe_voting>();
  return found;
}

/// A value of a type that is known by its functions alone.
class Value {
public:
  explicit Value(const meta_object& type)
    : type_(type),
      memory_(std::make_unique<std::max_align_t[]>(
        type.padded_size / sizeof(std::max_align_t) + 1)) {
    type_.default_construct(memory_.get());
  }
  ~Value() { type_.destroy(memory_.get()); }
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  bool load(caf::span<const caf::byte> bytes) {
    caf::binary_deserializer source{nullptr, bytes};
    return type_.load_binary(source, memory_.get());
  }
  bool save(caf::byte_buffer& bytes) const {
    caf::binary_serializer sink{nullptr, bytes};
    return type_.save_binary(sink, memory_.get());
  }
  /// As logs do.
  std::string shown() const {
    std::string text;
    type_.stringify(text, memory_.get());
    return text;
  }

private:
  const meta_object& type_;
  std::unique_ptr<std::max_align_t[]> memory_;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto types = wire_types();
  troupe::fuzz::Input input{data, size};
  const auto& type = *types[input.number(2) % types.size()];
  const auto bytes = input.rest();
  Value got{type};
  if (!got.load(
        {reinterpret_cast<const caf::byte*>(bytes.data()), bytes.size()}))
    return 0;
  caf::byte_buffer once;
  holds(got.save(once), "what was read can be written");
  Value again{type};
  holds(again.load(once), "what was written can be read");
  caf::byte_buffer twice;
  holds(again.save(twice) && once == twice, "a value comes back as it went");
  holds(!got.shown().empty(), "a value can be shown");
  return 0;
}
