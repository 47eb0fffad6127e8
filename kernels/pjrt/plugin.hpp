#pragma once

#include "kernels/pjrt/c_api.hpp"

#include <string>

namespace troupe::kernels::pjrt {

/// The table of functions of a plugin. Errors of calls come back as text.
class Plugin {
public:
  /// Opens a shared library and asks it for its table; it stays open until the
  /// process ends, for its threads do.
  /// Errors: InputError "pjrt:FILE: …" for a file that is not there or is no
  /// plugin, or one whose version this program does not speak.
  static Plugin load(const std::string& file);
  /// Of a table that is there already.
  /// Errors: likewise.
  Plugin(std::string file, const abi::Api* api);

  /// Calls a function; empty: it went well.
  template <class Fields>
  std::string call(abi::Function function, abi::Args<Fields>& args) const {
    return message_of(entry(function)(&args));
  }
  /// The same of one that cannot fail, or whose failure changes nothing.
  template <class Fields>
  void quietly(abi::Function function, abi::Args<Fields>& args) const {
    message_of(entry(function)(&args));
  }

  const std::string& file() const { return file_; }
  std::string version() const; ///< "0.72"

private:
  using Entry = abi::Error* (*)(void*);
  Entry entry(abi::Function function) const;
  std::string message_of(abi::Error* error) const;

  std::string file_;
  const abi::Api* api_;
};

/// Why a program that knows min_minor_version cannot work with a table of
/// this version and size; empty: it can.
std::string version_mistake(const abi::Version& version, size_t table_size);

} // namespace troupe::kernels::pjrt
