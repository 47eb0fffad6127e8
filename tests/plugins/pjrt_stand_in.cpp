// A PJRT plugin whose compiler is an interpreter: tests of devices of plugins
// run without one. The environment says how it is:
//   STAND_IN_DEVICES  how many, 2
//   STAND_IN_VERSION  major.minor, 0.60
//   STAND_IN_TABLE    functions in its table, 71
//   STAND_IN_FAULTY   a device whose numbers come out otherwise
//   STAND_IN_FAILS    client, compile, or N:FILE: the process's Nth run fails,
//                     if there is no such file, which is made then; late
//                     N:FILE: its results are said to have failed when they are
//                     read

#include "kernels/pjrt/c_api.hpp"
#include "tests/plugins/stablehlo_interpreter.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// The objects that the API leaves to the plugin.
namespace troupe::kernels::pjrt::abi {

struct Error {
  std::string message;
};
struct Event {
  std::string failure; // of what it stands for; empty: none
};
struct Device {
  int id;
};
struct DeviceDescription {
  int id;
};
struct Client {
  std::vector<Device> devices;
  std::vector<Device*> pointers;
};
struct LoadedExecutable {
  stand_in::Interpreter program;
  std::vector<int> devices; // by replica
};
struct Buffer {
  stand_in::Value value;
  int device;
  std::string failure; // of the run that made it; empty: none
  bool given_away = false;
};

} // namespace troupe::kernels::pjrt::abi

namespace {

namespace abi = troupe::kernels::pjrt::abi;
using stand_in::Kind;
using stand_in::Type;
using stand_in::Value;

constexpr int first_number = 40; // they are the plugin's own

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

abi::Error* error(const std::string& message) {
  return new abi::Error{message};
}

/// Runs a function whose exceptions are the plugin's errors.
template <class Body>
abi::Error* guarded(const Body& body) {
  try {
    body();
    return nullptr;
  } catch (const std::exception& failure) {
    return error(failure.what());
  }
}

void need(bool holds, const char* what) {
  if (!holds)
    throw std::runtime_error(what);
}

Kind kind_of(abi::BufferType type) {
  switch (type) {
    case abi::BufferType::f32:
      return Kind::f32;
    case abi::BufferType::s32:
      return Kind::i32;
    case abi::BufferType::u64:
      return Kind::ui64;
    case abi::BufferType::pred:
      return Kind::i1;
  }
  throw std::runtime_error("a type of a buffer");
}

template <class T>
void take(const void* data, Value& value) {
  for (size_t i = 0; i < value.numbers.size(); ++i)
    value.numbers[i] = static_cast<double>(static_cast<const T*>(data)[i]);
}

template <class T>
void give(const Value& value, void* data) {
  for (size_t i = 0; i < value.numbers.size(); ++i)
    static_cast<T*>(data)[i] = static_cast<T>(value.numbers[i]);
}

// -- functions ----------------------------------------------------------------

abi::Error* error_destroy(abi::ErrorDestroy* args) {
  delete args->error;
  return nullptr;
}

abi::Error* error_message(abi::ErrorMessage* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
  return nullptr;
}

abi::Error* initialize(abi::PluginInitialize*) {
  return nullptr;
}

abi::Error* event_await(abi::EventUse* args) {
  return args->event->failure.empty() ? nullptr : error(args->event->failure);
}

abi::Error* event_destroy(abi::EventUse* args) {
  delete args->event;
  return nullptr;
}

abi::Error* client_create(abi::ClientCreate* args) {
  if (setting("STAND_IN_FAILS", "") == "client")
    return error("no chip is free");
  auto client = std::make_unique<abi::Client>();
  const auto count = std::stoi(setting("STAND_IN_DEVICES", "2"));
  for (int i = 0; i < count; ++i)
    client->devices.push_back({first_number + i});
  for (auto& device : client->devices)
    client->pointers.push_back(&device);
  args->client = client.release();
  return nullptr;
}

abi::Error* client_destroy(abi::ClientDestroy* args) {
  delete args->client;
  return nullptr;
}

abi::Error* platform_name(abi::ClientText* args) {
  args->text = "interpreter";
  args->text_size = std::strlen(args->text);
  return nullptr;
}

abi::Error* platform_version(abi::ClientText* args) {
  args->text = "1";
  args->text_size = 1;
  return nullptr;
}

abi::Error* devices(abi::ClientDevices* args) {
  args->devices = args->client->pointers.data();
  args->num_devices = args->client->pointers.size();
  return nullptr;
}

abi::Error* description(abi::DeviceGetDescription* args) {
  args->description = reinterpret_cast<abi::DeviceDescription*>(args->device);
  return nullptr;
}

abi::Error* description_id(abi::DeviceDescriptionId* args) {
  args->id = args->description->id;
  return nullptr;
}

abi::Error* description_kind(abi::DeviceDescriptionText* args) {
  args->text = "loops";
  args->text_size = std::strlen(args->text);
  return nullptr;
}

/// The devices of an assignment in serialized options: field 1 of what ends
/// them, as often as there are replicas.
std::vector<int> assigned_devices(const abi::ClientCompile& args) {
  std::vector<int> out;
  auto at = args.options_size;
  for (; at >= 2 && args.options[at - 2] == 1 << 3; at -= 2)
    out.insert(out.begin(), static_cast<unsigned char>(args.options[at - 1]));
  need(at > 0 && static_cast<size_t>(args.options[at - 1]) == 2 * out.size(),
       "compile options that end with devices");
  return out;
}

abi::Error* compile(abi::ClientCompile* args) {
  if (setting("STAND_IN_FAILS", "") == "compile")
    return error("the program is too large\nwith details on a second line");
  return guarded([&] {
    const auto& program = *args->program;
    need(std::string_view(program.format, program.format_size) == "mlir",
         "a program as MLIR");
    args->executable = new abi::LoadedExecutable{
      stand_in::Interpreter{{program.code, program.code_size}},
      assigned_devices(*args)};
  });
}

abi::Error* executable_destroy(abi::LoadedExecutableDestroy* args) {
  delete args->executable;
  return nullptr;
}

abi::Error* from_host(abi::BufferFromHostBuffer* args) {
  return guarded([&] {
    Value value{
      {{args->dims, args->dims + args->num_dims}, kind_of(args->type)}, {}, {}};
    const auto size = value.type.size();
    if (value.type.kind == Kind::ui64) {
      value.words.resize(size);
      std::memcpy(value.words.data(), args->data, size * sizeof(uint64_t));
    } else {
      value.numbers.resize(size);
      args->type == abi::BufferType::f32 ? take<float>(args->data, value)
                                         : take<int32_t>(args->data, value);
    }
    args->buffer = new abi::Buffer{std::move(value), args->device->id, {}};
    args->done_with_host_buffer = new abi::Event;
  });
}

abi::Error* buffer_destroy(abi::BufferDestroy* args) {
  delete args->buffer;
  return nullptr;
}

abi::Error* to_host(abi::BufferToHostBuffer* args) {
  return guarded([&] {
    const auto& buffer = *args->source;
    need(!buffer.given_away, "a download of what was given away");
    need(args->host_layout != nullptr
           && args->host_layout->tiled.minor_to_major_size
                == buffer.value.type.shape.size(),
         "a row-major layout");
    need(args->to_size >= buffer.value.numbers.size() * 4, "room");
    buffer.value.type.kind == Kind::f32 ? give<float>(buffer.value, args->to)
                                        : give<int32_t>(buffer.value, args->to);
    args->event = new abi::Event{buffer.failure};
  });
}

/// Whether a device is the one whose numbers come out otherwise.
bool is_faulty(int device) {
  return setting("STAND_IN_FAULTY", "")
         == std::to_string(device - first_number);
}

constexpr const char* uncorrectable = "uncorrectable memory error";

/// Whether the process's run of this number is the one that fails so.
bool fails(int run, const std::string& how) {
  const auto number = how + std::to_string(run) + ':';
  const auto when = setting("STAND_IN_FAILS", "");
  if (!when.starts_with(number))
    return false;
  auto* file = std::fopen(when.c_str() + number.size(), "wx");
  if (file != nullptr)
    std::fclose(file);
  return file != nullptr;
}

abi::Error* execute(abi::LoadedExecutableExecute* args) {
  static std::atomic<int> runs{0};
  const auto run = ++runs;
  if (fails(run, ""))
    return error(uncorrectable);
  return guarded([&] {
    std::string failure = fails(run, "late ") ? uncorrectable : "";
    const auto& program = args->executable->program;
    const auto& devices = args->executable->devices;
    need(args->num_devices == devices.size()
           && args->num_args == program.arguments().size(),
         "as many arguments of each device");
    std::vector<stand_in::Interpreter::Arguments> arguments(devices.size());
    for (size_t replica = 0; replica < devices.size(); ++replica)
      for (size_t i = 0; i < args->num_args; ++i) {
        auto& buffer = *args->argument_lists[replica][i];
        need(!buffer.given_away, "an argument that was given away");
        need(buffer.device == devices[replica],
             "an argument on the program's device");
        if (failure.empty()) // what is made of it has failed as well
          failure = buffer.failure;
        arguments[replica].push_back(&buffer.value);
      }
    auto results = program.run(arguments);
    for (size_t replica = 0; replica < devices.size(); ++replica) {
      auto& own = results[replica];
      for (size_t i = 0; i < args->num_args; ++i)
        if (program.donated()[i] >= 0) {
          auto& buffer = *args->argument_lists[replica][i];
          need(buffer.value.type == own.at(program.donated()[i]).type,
               "memory of the same size");
          buffer.given_away = true;
        }
      if (is_faulty(devices[replica]))
        for (auto& result : own)
          if (result.type.kind == Kind::f32)
            result.numbers.front() += 0.125;
      for (size_t i = 0; i < own.size(); ++i)
        args->output_lists[replica][i] =
          new abi::Buffer{std::move(own[i]), devices[replica], failure, false};
    }
  });
}

// -- the table ----------------------------------------------------------------

constexpr size_t max_functions = 120;

struct Table {
  size_t struct_size;
  void* extension;
  abi::Version version;
  void* functions[max_functions];
};

template <class Function>
void put(Table& table, abi::Function which, Function* function) {
  table.functions[static_cast<size_t>(which)] =
    reinterpret_cast<void*>(function);
}

Table make_table() {
  Table table{};
  const auto version = setting("STAND_IN_VERSION", "0.60");
  table.version.struct_size = sizeof table.version;
  std::sscanf(version.c_str(), "%d.%d", &table.version.major,
              &table.version.minor);
  table.struct_size = offsetof(Table, functions)
                      + std::stoul(setting("STAND_IN_TABLE", "71"))
                          * sizeof(void*);
  using abi::Function;
  put(table, Function::error_destroy, error_destroy);
  put(table, Function::error_message, error_message);
  put(table, Function::plugin_initialize, initialize);
  put(table, Function::event_destroy, event_destroy);
  put(table, Function::event_await, event_await);
  put(table, Function::client_create, client_create);
  put(table, Function::client_destroy, client_destroy);
  put(table, Function::client_platform_name, platform_name);
  put(table, Function::client_platform_version, platform_version);
  put(table, Function::client_addressable_devices, devices);
  put(table, Function::client_compile, compile);
  put(table, Function::client_buffer_from_host_buffer, from_host);
  put(table, Function::device_description_id, description_id);
  put(table, Function::device_description_kind, description_kind);
  put(table, Function::device_get_description, description);
  put(table, Function::loaded_executable_destroy, executable_destroy);
  put(table, Function::loaded_executable_execute, execute);
  put(table, Function::buffer_destroy, buffer_destroy);
  put(table, Function::buffer_to_host_buffer, to_host);
  return table;
}

} // namespace

extern "C" const void* GetPjrtApi() {
  static Table table;
  table = make_table(); // the environment may have changed
  return &table;
}
