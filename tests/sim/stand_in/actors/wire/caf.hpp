#pragma once

#include "tests/sim/stand_in/caf/system.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

/// Stands in for CAF's core when the roles of actors/ are compiled for the
/// simulator: the same names, as far as they are used, carried out by
/// sim::Runtime in one thread and in virtual time. A handle is an address; a
/// message is a shared value and its type.
namespace caf {

// --- what serialisation names -----------------------------------------------

using std::byte;
template <class T>
using span = std::span<T>;
template <class T>
std::span<T> make_span(T* data, size_t count) {
  return {data, count};
}
class binary_serializer;
class binary_deserializer;

} // namespace caf

#define CAF_BEGIN_TYPE_ID_BLOCK(name, first)
#define CAF_ADD_TYPE_ID(name, type)
#define CAF_END_TYPE_ID_BLOCK(name)
#define CAF_ALLOW_UNSAFE_MESSAGE_TYPE(type) static_assert(true);
