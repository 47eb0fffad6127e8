#pragma once

#include "apps/settings/flags.hpp"
#include "apps/terminal/numbers.hpp"
#include "kernels/base/error.hpp"

#include <limits>
#include <type_traits>
#include <utility>

/// Ties flags to fields of Settings. An Access takes Settings& and returns a
/// reference to the field.
namespace troupe::binding {

/// The access to one field.
#define FIELD(path) ([](Settings & s) -> auto& { return s.path; })

/// Of a run, or of a schedule.
inline constexpr uint64_t max_steps = 1'000'000'000'000'000;

using Choices = std::vector<std::string>;

/// What a flag does with its text, and how it prints what holds.
struct Binding {
  std::function<void(Settings&, const std::string&)> set;
  std::function<std::string(const Settings&)> get;
};

template <class Access>
Binding text(Access access) {
  return {[=](Settings& s, const std::string& value) { access(s) = value; },
          [=](Settings s) { return access(s); }};
}

template <class Access>
Binding whole(Access access, uint64_t lowest, uint64_t highest) {
  return {[=](Settings& s, const std::string& value) {
            using Number = std::remove_reference_t<decltype(access(s))>;
            access(s) =
              static_cast<Number>(parse_whole(value, lowest, highest));
          },
          [=](Settings s) { return std::to_string(access(s)); }};
}

template <class Access>
Binding real(Access access, RealRange range) {
  return {[=](Settings& s, const std::string& value) {
            using Number = std::remove_reference_t<decltype(access(s))>;
            auto number = static_cast<Number>(parse_real(value, range));
            if (!range.has(number)) // float: 0.9999999999 is 1
              throw UsageError("expected " + range.words());
            access(s) = number;
          },
          [=](Settings s) { return print_real(access(s)); }};
}

/// A toggle that stores `value` when it is given.
template <class Access, class Value>
Binding toggle(Access access, Value value) {
  return {[=](Settings& s, const std::string&) { access(s) = value; },
          [=](Settings s) {
            return access(s) == value ? std::string{"true"} : std::string{};
          }};
}

/// "use a, b or c"
std::string one_of(const Choices& choices);

/// Checks `value` against what there is.
/// Errors: UsageError "unknown; use …".
void require_choice(const std::string& value, const Choices& choices);
/// Takes a list with commas apart, each word one of what there is.
/// Errors: UsageError "unknown; use …".
std::vector<std::string> some_of(const std::string& text, const Choices& known);

template <class Access>
Binding choice(Access access, const Choices& choices) {
  return {[=](Settings& s, const std::string& value) {
            require_choice(value, choices);
            access(s) = value;
          },
          [=](Settings s) { return access(s); }};
}

template <class Access>
Binding address(Access access) {
  return {[=](Settings& s, const std::string& value) {
            parse_address(value);
            access(s) = value;
          },
          [=](Settings s) { return access(s); }};
}

/// HOST:PORT, or several with commas.
template <class Access>
Binding addresses(Access access) {
  return {[=](Settings& s, const std::string& value) {
            parse_addresses(value);
            access(s) = value;
          },
          [=](Settings s) { return access(s); }};
}

} // namespace troupe::binding
