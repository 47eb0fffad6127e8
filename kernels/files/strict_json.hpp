#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::kernels {

/// Whether arrays and objects of a JSON text lie in one another deeper than
/// `most`. Whoever goes through a value by calling itself needs a stack as
/// deep: look first.
inline bool nested_deeper(std::string_view text, size_t most) {
  size_t depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = text[i];
    if (quoted && c == '\\')
      ++i;
    else if (c == '"')
      quoted = !quoted;
    else if (!quoted && (c == '[' || c == '{') && ++depth > most)
      return true;
    else if (!quoted && (c == ']' || c == '}') && depth > 0)
      --depth;
  }
  return false;
}

/// A number in a JSON text is not one that its reader takes.
class NotThatNumber : public std::runtime_error {
public:
  NotThatNumber() : std::runtime_error("a number is not whole or too large") {}
};

template <class Type, class Enable = void>
struct StrictNumbers : nlohmann::adl_serializer<Type, Enable> {};

/// The library casts whatever number there is: 1e300 to an integer, which is
/// undefined, and -1 to 2^64 - 1.
template <class Integer>
struct StrictNumbers<
  Integer, std::enable_if_t<
             std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>>>
  : nlohmann::adl_serializer<Integer> {
  template <class Json>
  static void from_json(const Json& json, Integer& out) {
    using Limits = std::numeric_limits<Integer>;
    if (json.is_number_unsigned()) {
      const auto& value =
        json.template get_ref<const typename Json::number_unsigned_t&>();
      if (std::cmp_greater(value, Limits::max()))
        throw NotThatNumber{};
      out = static_cast<Integer>(value);
    } else if (json.is_number_integer()) {
      const auto& value =
        json.template get_ref<const typename Json::number_integer_t&>();
      if (std::cmp_less(value, Limits::min())
          || std::cmp_greater(value, Limits::max()))
        throw NotThatNumber{};
      out = static_cast<Integer>(value);
    } else if (json.is_number()) {
      throw NotThatNumber{};
    } else {
      nlohmann::adl_serializer<Integer>::from_json(json, out); // refuses
    }
  }
};

/// JSON whose integers are read as they stand or not at all (NotThatNumber).
template <template <class, class, class...> class Object = std::map>
using StrictJson =
  nlohmann::basic_json<Object, std::vector, std::string, bool, int64_t,
                       uint64_t, double, std::allocator, StrictNumbers>;

} // namespace troupe::kernels
