#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

namespace troupe::sim {

/// Prints a message by the fields that its inspect() lists, for --trace.
class Printer {
public:
  static constexpr bool is_loading = false;

  explicit Printer(std::ostream& out) : out_(out) {}

  template <class T>
  struct Field {
    const char* name;
    T& value;
  };
  template <class T>
  Field<T> field(const char* name, T& value) {
    return {name, value};
  }
  template <class T>
  Printer& object(T&) {
    return *this;
  }
  template <class... T>
  bool fields(Field<T>... all) {
    out_ << '{';
    [[maybe_unused]] const char* gap = "";
    ((out_ << gap << all.name << '=', print(all.value), gap = " "), ...);
    out_ << '}';
    return true;
  }
  template <class T>
  bool value(T& x) {
    print(x);
    return true;
  }
  template <class T>
  bool apply(T& x) {
    print(x);
    return true;
  }
  template <class Get, class Set>
  bool apply(Get get, Set) {
    print(get());
    return true;
  }

  template <class T>
  void print(const T& x) {
    auto& value = const_cast<T&>(x); // inspect() is written for both ways
    if constexpr (std::is_same_v<T, bool>)
      out_ << (x ? "yes" : "no");
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 1)
      out_ << +x;
    else if constexpr (std::is_arithmetic_v<
                         T> || std::is_same_v<T, std::string>)
      out_ << x;
    else if constexpr (requires { inspect(*this, value); })
      inspect(*this, value);
    else
      out_ << "...";
  }
  template <class T>
  void print(const std::vector<T>& list) {
    out_ << '[';
    for (size_t i = 0; i < list.size(); ++i) {
      out_ << (i > 0 ? " " : "");
      print(static_cast<const T&>(list[i]));
    }
    out_ << ']';
  }

private:
  std::ostream& out_;
};

/// What kind of message a letter holds.
struct Type {
  std::string name;
  void (*print)(std::ostream& out, const void* value);
};

/// The T of a function's signature, without its namespace.
std::string type_name(const std::string& signature);

template <class T>
const Type* type_of() {
  static const Type type{type_name(__PRETTY_FUNCTION__),
                         [](std::ostream& out, const void* value) {
                           Printer{out}.print(*static_cast<const T*>(value));
                         }};
  return &type;
}

/// A message on its way: immutable and shared.
struct Letter {
  const Type* type = nullptr;
  std::shared_ptr<const void> value;
  uint64_t request = 0; ///< its sender's number of it; 0: it is none
  uint64_t answers = 0; ///< that request of its receiver's

  template <class T>
  const T* as() const {
    return type == type_of<T>() ? static_cast<const T*>(value.get()) : nullptr;
  }
};

template <class T>
Letter letter(T&& value) {
  using Value = std::remove_cvref_t<T>;
  return {type_of<Value>(), std::make_shared<Value>(std::forward<T>(value))};
}

} // namespace troupe::sim
