// The tables of functions that NCCL looks for as ncclNetPlugin_v6 to ncclNetPlugin_v12.
#pragma once

#include "abi/nccl.h"

namespace ccore::nccl {

struct PropertiesV6 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int speed_mbps;
  int port;
  float latency_us;
  int most_comms;
  int most_receives;
};

struct PropertiesV7 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int speed_mbps;
  int port;
  float latency_us;
  int most_comms;
  int most_receives;
  int device_type;
  int device_version;
};

struct PropertiesV8 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int speed_mbps;
  int port;
  float latency_us;
  int most_comms;
  int most_receives;
  int device_type;
  int device_version;
};

template <size_t kMost>
struct VirtualDevice {
  int count;
  int devices[kMost];
};

// The same for v10.
struct PropertiesV9 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed_mbps;
  int port;
  float latency_us;
  int most_comms;
  int most_receives;
  int device_type;
  int device_version;
  VirtualDevice<4> virtual_device;
  size_t most_p2p_bytes;
  size_t most_collective_bytes;
};

struct PropertiesV11 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed_mbps;
  int port;
  float latency_us;
  int most_comms;
  int most_receives;
  int device_type;
  int device_version;
  VirtualDevice<4> virtual_device;
  size_t most_p2p_bytes;
  size_t most_collective_bytes;
  int most_requests_at_once;
};

struct PropertiesV12 {
  char* name;
  char* pci_path;
  uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed_mbps;
  int port;
  float latency_us;
  int most_comms;
  int most_receives;
  int device_type;
  int device_version;
  VirtualDevice<8> virtual_device;
  size_t most_p2p_bytes;
  size_t most_collective_bytes;
  int most_requests_at_once;
  int16_t rail;
  int16_t plane;
};

// Functions that are the same in several versions.
using Devices = Result (*)(int* count);
template <typename Properties>
using GetProperties = Result (*)(int device, Properties* properties);
using Listen = Result (*)(int device, void* handle, void** listener);
using ListenIn = Result (*)(void* context, int device, void* handle, void** listener);
using Connect = Result (*)(int device, void* handle, void** send_comm, void** device_handle);
using ConnectIn = Result (*)(void* context, int device, void* handle, void** send_comm, void** device_handle);
using Accept = Result (*)(void* listener, void** receive_comm, void** device_handle);
template <typename Size>
using Register = Result (*)(void* comm, void* data, Size size, int type, void** registration);
using RegisterDmaBuf = Result (*)(void* comm, void* data, size_t size, int type, uint64_t offset, int fd,
                                  void** registration);
using Deregister = Result (*)(void* comm, void* registration);
template <typename Size>
using Send = Result (*)(void* comm, void* data, Size size, int tag, void* registration, void** request);
template <typename Size>
using Receive = Result (*)(void* comm, int count, void** data, Size* sizes, int* tags, void** registrations,
                           void** request);
using SendProfiled = Result (*)(void* comm, void* data, size_t size, int tag, void* registration, void* profile,
                                void** request);
using ReceiveProfiled = Result (*)(void* comm, int count, void** data, size_t* sizes, int* tags, void** registrations,
                                   void** profiles, void** request);
using Flush = Result (*)(void* comm, int count, void** data, int* sizes, void** registrations, void** request);
using Test = Result (*)(void* request, int* done, int* sizes);
using Close = Result (*)(void* comm);
using DeviceRegistration = Result (*)(void* comm, void* registration, void** device_registration);
using Consumed = Result (*)(void* comm, int count, void* request);
using MakeVirtualDevice = Result (*)(int* device, void* virtual_device);
using Finalize = Result (*)(void* context);
using SetAttributes = Result (*)(void* context, void* attributes);

struct NetV6 {
  const char* name;
  Result (*init)(Logger logger);
  Devices devices;
  GetProperties<PropertiesV6> properties;
  Listen listen;
  Result (*connect)(int device, void* handle, void** send_comm);
  Result (*accept)(void* listener, void** receive_comm);
  Register<int> register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  Send<int> send;
  Receive<int> receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listener;
};

template <typename Properties, typename RegisterSize>
struct NetV7V8 {
  const char* name;
  Result (*init)(Logger logger);
  Devices devices;
  GetProperties<Properties> properties;
  Listen listen;
  Connect connect;
  Accept accept;
  Register<RegisterSize> register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  Send<int> send;
  Receive<int> receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listener;
  DeviceRegistration device_registration;
  Consumed consumed;
};
using NetV7 = NetV7V8<PropertiesV7, int>;
using NetV8 = NetV7V8<PropertiesV8, size_t>;

struct NetV9 {
  const char* name;
  Result (*init)(Logger logger);
  Devices devices;
  GetProperties<PropertiesV9> properties;
  Listen listen;
  Connect connect;
  Accept accept;
  Register<size_t> register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  Send<size_t> send;
  Receive<size_t> receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listener;
  DeviceRegistration device_registration;
  Consumed consumed;
  MakeVirtualDevice make_virtual_device;
};

struct NetV10 {
  const char* name;
  Result (*init)(Logger logger, ProfilerCallback profiler);
  Devices devices;
  GetProperties<PropertiesV9> properties;
  Listen listen;
  Result (*connect)(int device, void* config, void* handle, void** send_comm, void** device_handle);
  Accept accept;
  Register<size_t> register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  SendProfiled send;
  ReceiveProfiled receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listener;
  DeviceRegistration device_registration;
  Consumed consumed;
  MakeVirtualDevice make_virtual_device;
};

template <typename Properties>
struct NetV11V12 {
  const char* name;
  Result (*init)(void** context, uint64_t comm_id, void* config, Logger logger, ProfilerCallback profiler);
  Devices devices;
  GetProperties<Properties> properties;
  ListenIn listen;
  ConnectIn connect;
  Accept accept;
  Register<size_t> register_memory;
  RegisterDmaBuf register_dma_buf;
  Deregister deregister;
  SendProfiled send;
  ReceiveProfiled receive;
  Flush flush;
  Test test;
  Close close_send;
  Close close_receive;
  Close close_listener;
  DeviceRegistration device_registration;
  Consumed consumed;
  MakeVirtualDevice make_virtual_device;
  Finalize finalize;
  SetAttributes set_attributes;
};
using NetV11 = NetV11V12<PropertiesV11>;
using NetV12 = NetV11V12<PropertiesV12>;

// Sizes on the 64-bit ABI, where NCCL exists.
static_assert(sizeof(PropertiesV6) == 48 && sizeof(PropertiesV7) == 56 && sizeof(PropertiesV8) == 64);
static_assert(sizeof(PropertiesV9) == 104 && sizeof(PropertiesV11) == 112 && sizeof(PropertiesV12) == 128);
static_assert(offsetof(PropertiesV12, virtual_device) == 64 && offsetof(PropertiesV12, rail) == 124);
static_assert(sizeof(NetV6) == 17 * 8 && sizeof(NetV7) == 19 * 8 && sizeof(NetV8) == 19 * 8);
static_assert(sizeof(NetV9) == 20 * 8 && sizeof(NetV10) == 20 * 8);
static_assert(sizeof(NetV11) == 22 * 8 && sizeof(NetV12) == 22 * 8);

}  // namespace ccore::nccl
