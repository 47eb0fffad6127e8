#pragma once

#include <cstddef>
#include <cstdint>

/// What this program uses of the PJRT C API, version 0.33 and later ones of
/// major version 0: the order of the table's functions and the layouts of what
/// they take. Source: xla/pjrt/c/pjrt_c_api.h of OpenXLA, whose layouts only
/// grow at their ends; tests/peers/pjrt_layouts.cpp compares them.
namespace troupe::kernels::pjrt::abi {

constexpr int major_version = 0;
constexpr int min_minor_version = 33;

// Objects of the plugin.
struct Error;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct LoadedExecutable;
struct Buffer;

/// Where a function stands in the table.
enum class Function : size_t {
  error_destroy = 0,
  error_message = 1,
  error_get_code = 2,
  plugin_initialize = 3,
  event_destroy = 5,
  event_await = 8,
  client_create = 10,
  client_destroy = 11,
  client_platform_name = 12,
  client_platform_version = 14,
  client_addressable_devices = 16,
  client_compile = 20,
  client_buffer_from_host_buffer = 22,
  device_description_id = 23,
  device_description_kind = 26,
  device_get_description = 29,
  loaded_executable_destroy = 50,
  loaded_executable_execute = 55,
  buffer_destroy = 58,
  buffer_to_host_buffer = 70,
};

struct Version {
  size_t struct_size;
  void* extension;
  int major;
  int minor;
};

struct Api {
  size_t struct_size;
  void* extension;
  Version version;
  void* functions[1]; ///< struct_size says how many
};

/// What every argument begins with. Later versions add fields at the ends of
/// what is declared below, and zero stands for "not given" in them: so each
/// structure is followed by zeros, and its size is given with those. A plugin
/// of an older version looks at the fields it knows.
template <class Fields>
struct Args : Fields {
  uint64_t later[12] = {};

  Args() { this->struct_size = sizeof(Args); }
};

struct Head {
  size_t struct_size = 0;
  void* extension = nullptr;
};

struct ErrorDestroy : Head {
  Error* error = nullptr;
};
struct ErrorMessage : Head {
  const Error* error = nullptr;
  const char* message = nullptr; ///< out, as what follows
  size_t message_size = 0;
};
struct ErrorGetCode : Head {
  const Error* error = nullptr;
  int code = 0; ///< out
};
struct PluginInitialize : Head {};
struct EventUse : Head { ///< destroy, await
  Event* event = nullptr;
};
struct ClientCreate : Head {
  const void* create_options = nullptr;
  size_t num_options = 0;
  void* kv_get_callback = nullptr;
  void* kv_get_user_arg = nullptr;
  void* kv_put_callback = nullptr;
  void* kv_put_user_arg = nullptr;
  Client* client = nullptr; ///< out
};
struct ClientDestroy : Head {
  Client* client = nullptr;
};
struct ClientText : Head { ///< platform name, platform version
  Client* client = nullptr;
  const char* text = nullptr; ///< out, as what follows
  size_t text_size = 0;
};
struct ClientDevices : Head {
  Client* client = nullptr;
  Device** devices = nullptr; ///< out, as what follows
  size_t num_devices = 0;
};
struct DeviceGetDescription : Head {
  Device* device = nullptr;
  DeviceDescription* description = nullptr; ///< out
};
struct DeviceDescriptionId : Head {
  DeviceDescription* description = nullptr;
  int id = 0; ///< out
};
struct DeviceDescriptionText : Head { ///< kind
  DeviceDescription* description = nullptr;
  const char* text = nullptr; ///< out, as what follows
  size_t text_size = 0;
};

struct Program : Head {
  const char* code = nullptr;
  size_t code_size = 0;
  const char* format = nullptr; ///< "mlir": text or bytecode
  size_t format_size = 0;
};
struct ClientCompile : Head {
  Client* client = nullptr;
  const Program* program = nullptr;
  const char* options = nullptr; ///< a serialized CompileOptionsProto
  size_t options_size = 0;
  LoadedExecutable* executable = nullptr; ///< out
};
struct LoadedExecutableDestroy : Head {
  LoadedExecutable* executable = nullptr;
};

enum class BufferType : int {
  pred = 1,
  s32 = 4,
  u64 = 9,
  f32 = 11,
};
enum class HostBufferSemantics : int { immutable_only_during_call = 0 };

struct TiledLayout : Head {
  const int64_t* minor_to_major = nullptr;
  size_t minor_to_major_size = 0;
  const int64_t* tile_dims = nullptr;
  const size_t* tile_dim_sizes = nullptr;
  size_t num_tiles = 0;
};
/// Of the union's two layouts the tiled one, the larger.
struct MemoryLayout : Head {
  TiledLayout tiled;
  int type = 0; ///< 0: tiled
};

struct BufferFromHostBuffer : Head {
  Client* client = nullptr;
  const void* data = nullptr;
  BufferType type = BufferType::f32;
  const int64_t* dims = nullptr;
  size_t num_dims = 0;
  const int64_t* byte_strides = nullptr; ///< none: row-major
  size_t num_byte_strides = 0;
  HostBufferSemantics semantics =
    HostBufferSemantics::immutable_only_during_call;
  Device* device = nullptr;
  Memory* memory = nullptr;
  const MemoryLayout* device_layout = nullptr;
  Event* done_with_host_buffer = nullptr; ///< out, as what follows
  Buffer* buffer = nullptr;
};
struct BufferDestroy : Head {
  Buffer* buffer = nullptr;
};
struct BufferToHostBuffer : Head {
  Buffer* source = nullptr;
  const MemoryLayout* host_layout = nullptr;
  void* to = nullptr;
  size_t to_size = 0;     ///< bytes
  Event* event = nullptr; ///< out
};

struct ExecuteOptions : Head {
  void* send_callbacks = nullptr;
  void* recv_callbacks = nullptr;
  size_t num_send_ops = 0;
  size_t num_recv_ops = 0;
  int launch_id = 0;
};
struct LoadedExecutableExecute : Head {
  LoadedExecutable* executable = nullptr;
  const ExecuteOptions* options = nullptr;
  Buffer* const* const* argument_lists = nullptr; ///< [devices][arguments]
  size_t num_devices = 0;
  size_t num_args = 0;
  Buffer** const* output_lists = nullptr;   ///< [devices][results], filled in
  Event** device_complete_events = nullptr; ///< null: nobody asks
  Device* execute_device = nullptr;
};

} // namespace troupe::kernels::pjrt::abi
