#include "kernels/pjrt/plugin.hpp"

#include "kernels/base/error.hpp"
#include "kernels/pjrt/plugin_file.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <utility>

namespace troupe::kernels::pjrt {

namespace {

/// Where the table ends that has all functions of Function.
constexpr size_t min_table_size =
  offsetof(abi::Api, functions)
  + (static_cast<size_t>(abi::Function::buffer_to_host_buffer) + 1)
      * sizeof(void*);

std::string text_of(const abi::Version& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw InputError("pjrt:" + file + ": " + what);
}

} // namespace

std::string version_mistake(const abi::Version& version, size_t table_size) {
  const auto known = std::to_string(abi::major_version) + "."
                     + std::to_string(abi::min_minor_version);
  if (version.major != abi::major_version
      || version.minor < abi::min_minor_version)
    return "speaks version " + text_of(version)
           + " of the PJRT C API, and this program " + known
           + " and later ones of major version "
           + std::to_string(abi::major_version) + ": take another plugin";
  if (table_size < min_table_size)
    return "has a table of " + std::to_string(table_size)
           + " bytes, too small for its version " + text_of(version)
           + " of the PJRT C API: take another plugin";
  return {};
}

Plugin Plugin::load(const std::string& file) {
  if (const auto mistake = plugin_file_mistake(file); !mistake.empty())
    refuse(file, mistake);
  // A name without a slash would be looked for elsewhere.
  const auto path = std::filesystem::absolute(file).string();
  auto* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    refuse(file, std::string{"cannot be loaded: "} + dlerror());
  using GetApi = const abi::Api* (*)();
  const auto get = reinterpret_cast<GetApi>(dlsym(library, plugin_entry));
  if (get == nullptr)
    refuse(file, lacks_entry());
  return {file, get()};
}

Plugin::Plugin(std::string file, const abi::Api* api)
  : file_(std::move(file)), api_(api) {
  if (api_ == nullptr)
    refuse(file_, "gives no table of functions: take another plugin");
  if (const auto mistake = version_mistake(api_->version, api_->struct_size);
      !mistake.empty())
    refuse(file_, mistake);
  abi::Args<abi::PluginInitialize> args;
  if (const auto failure = call(abi::Function::plugin_initialize, args);
      !failure.empty())
    refuse(file_, "does not start: " + failure);
}

std::string Plugin::version() const {
  return text_of(api_->version);
}

Plugin::Entry Plugin::entry(abi::Function function) const {
  const auto* first = reinterpret_cast<void* const*>(
    reinterpret_cast<const char*>(api_) + offsetof(abi::Api, functions));
  return reinterpret_cast<Entry>(first[static_cast<size_t>(function)]);
}

std::string Plugin::message_of(abi::Error* error) const {
  if (error == nullptr)
    return {};
  abi::Args<abi::ErrorMessage> message;
  message.error = error;
  entry(abi::Function::error_message)(&message);
  // Of what may be a compiler's report the first line.
  std::string text{message.message, message.message_size};
  text = text.substr(0, text.find('\n'));
  abi::Args<abi::ErrorDestroy> destroy;
  destroy.error = error;
  entry(abi::Function::error_destroy)(&destroy);
  return text.empty() ? "an error without a message" : text;
}

} // namespace troupe::kernels::pjrt
