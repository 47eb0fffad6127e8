// Compares kernels/pjrt/c_api.hpp with OpenXLA's header, which PJRT_HEADER
// names: tests/peers/pjrt.py compiles and runs it. Prints what differs.

#include "kernels/pjrt/c_api.hpp"

#include PJRT_HEADER

#include <cstdio>

namespace abi = troupe::kernels::pjrt::abi;

namespace {

int differences = 0;

void compare(const char* what, size_t ours, size_t theirs) {
  if (ours == theirs)
    return;
  std::printf("%s: %zu rather than %zu\n", what, ours, theirs);
  ++differences;
}

} // namespace

#define FIELD(ours, field, theirs, their_field) \
  compare(#theirs "." #their_field, offsetof(abi::ours, field), \
          offsetof(theirs, their_field))

#define FUNCTION(ours, theirs) \
  compare(#theirs, \
          offsetof(abi::Api, functions) \
            + static_cast<size_t>(abi::Function::ours) * sizeof(void*), \
          offsetof(PJRT_Api, theirs))

int main() {
  FUNCTION(error_destroy, PJRT_Error_Destroy);
  FUNCTION(error_message, PJRT_Error_Message);
  FUNCTION(error_get_code, PJRT_Error_GetCode);
  FUNCTION(plugin_initialize, PJRT_Plugin_Initialize);
  FUNCTION(event_destroy, PJRT_Event_Destroy);
  FUNCTION(event_await, PJRT_Event_Await);
  FUNCTION(client_create, PJRT_Client_Create);
  FUNCTION(client_destroy, PJRT_Client_Destroy);
  FUNCTION(client_platform_name, PJRT_Client_PlatformName);
  FUNCTION(client_platform_version, PJRT_Client_PlatformVersion);
  FUNCTION(client_addressable_devices, PJRT_Client_AddressableDevices);
  FUNCTION(client_compile, PJRT_Client_Compile);
  FUNCTION(client_buffer_from_host_buffer, PJRT_Client_BufferFromHostBuffer);
  FUNCTION(device_description_id, PJRT_DeviceDescription_Id);
  FUNCTION(device_description_kind, PJRT_DeviceDescription_Kind);
  FUNCTION(device_get_description, PJRT_Device_GetDescription);
  FUNCTION(loaded_executable_destroy, PJRT_LoadedExecutable_Destroy);
  FUNCTION(loaded_executable_execute, PJRT_LoadedExecutable_Execute);
  FUNCTION(buffer_destroy, PJRT_Buffer_Destroy);
  FUNCTION(buffer_to_host_buffer, PJRT_Buffer_ToHostBuffer);

  FIELD(Api, version, PJRT_Api, pjrt_api_version);
  FIELD(Version, minor, PJRT_Api_Version, minor_version);
  FIELD(ErrorMessage, message_size, PJRT_Error_Message_Args, message_size);
  FIELD(ErrorGetCode, code, PJRT_Error_GetCode_Args, code);
  FIELD(EventUse, event, PJRT_Event_Await_Args, event);
  FIELD(ClientCreate, client, PJRT_Client_Create_Args, client);
  FIELD(ClientText, text_size, PJRT_Client_PlatformName_Args,
        platform_name_size);
  FIELD(ClientDevices, num_devices, PJRT_Client_AddressableDevices_Args,
        num_addressable_devices);
  FIELD(DeviceGetDescription, description, PJRT_Device_GetDescription_Args,
        device_description);
  FIELD(DeviceDescriptionId, id, PJRT_DeviceDescription_Id_Args, id);
  FIELD(DeviceDescriptionText, text_size, PJRT_DeviceDescription_Kind_Args,
        device_kind_size);
  FIELD(Program, code_size, PJRT_Program, code_size);
  FIELD(Program, format_size, PJRT_Program, format_size);
  FIELD(ClientCompile, options_size, PJRT_Client_Compile_Args,
        compile_options_size);
  FIELD(ClientCompile, executable, PJRT_Client_Compile_Args, executable);
  FIELD(TiledLayout, num_tiles, PJRT_Buffer_MemoryLayout_Tiled, num_tiles);
  FIELD(MemoryLayout, tiled, PJRT_Buffer_MemoryLayout, tiled);
  FIELD(MemoryLayout, type, PJRT_Buffer_MemoryLayout, type);
  FIELD(BufferFromHostBuffer, type, PJRT_Client_BufferFromHostBuffer_Args,
        type);
  FIELD(BufferFromHostBuffer, semantics, PJRT_Client_BufferFromHostBuffer_Args,
        host_buffer_semantics);
  FIELD(BufferFromHostBuffer, device, PJRT_Client_BufferFromHostBuffer_Args,
        device);
  FIELD(BufferFromHostBuffer, buffer, PJRT_Client_BufferFromHostBuffer_Args,
        buffer);
  FIELD(BufferToHostBuffer, host_layout, PJRT_Buffer_ToHostBuffer_Args,
        host_layout);
  FIELD(BufferToHostBuffer, event, PJRT_Buffer_ToHostBuffer_Args, event);
  FIELD(ExecuteOptions, launch_id, PJRT_ExecuteOptions, launch_id);
  FIELD(LoadedExecutableExecute, output_lists,
        PJRT_LoadedExecutable_Execute_Args, output_lists);
  FIELD(LoadedExecutableExecute, execute_device,
        PJRT_LoadedExecutable_Execute_Args, execute_device);

  compare("f32", static_cast<size_t>(abi::BufferType::f32),
          PJRT_Buffer_Type_F32);
  compare("s32", static_cast<size_t>(abi::BufferType::s32),
          PJRT_Buffer_Type_S32);
  compare("u64", static_cast<size_t>(abi::BufferType::u64),
          PJRT_Buffer_Type_U64);
  compare("pred", static_cast<size_t>(abi::BufferType::pred),
          PJRT_Buffer_Type_PRED);
  compare(
    "copied during the call",
    static_cast<size_t>(abi::HostBufferSemantics::immutable_only_during_call),
    PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  if (differences == 0)
    std::printf("all layouts are those of version %d.%d\n", PJRT_API_MAJOR,
                PJRT_API_MINOR);
  return differences == 0 ? 0 : 1;
}
