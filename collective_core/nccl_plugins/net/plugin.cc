// The functions that NCCL calls, in every version of its table.
#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "abi/net_tables.h"
#include "common/error.h"
#include "log.h"
#include "net/connector.h"
#include "net/devices.h"
#include "net/listener.h"
#include "net/plugin_state.h"

namespace ccore::nccl {
namespace {

constexpr const char* kName = "ccore";

struct Plugin {
  std::mutex mutex;
  int users = 0;
  Settings settings{};
  std::vector<Device> devices;
  // By the token of the handle: NCCL calls connect() with the same handle until it returns a connection.
  std::map<Digest, std::unique_ptr<Connector>> connecting;
};

Plugin& plugin() {
  static Plugin instance;
  return instance;
}

Result result_of(cc_result code) {
  switch (code) {
    case CC_ERROR_INVALID_ARGUMENT:
      return kInvalidUsage;
    case CC_ERROR_REMOTE:
    case CC_ERROR_TIMEOUT:
      return kRemoteError;
    default:
      return kSystemError;
  }
}

// No exception crosses the C interface.
template <typename Body>
Result guarded(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    warn("NET/ccore : %s", error.what());
    return result_of(error.code());
  } catch (const std::bad_alloc&) {
    warn("NET/ccore : out of memory");
    return kSystemError;
  } catch (const std::exception& error) {
    warn("NET/ccore : %s", error.what());
    return kInternalError;
  }
}

Result init(Logger logger) {
  return guarded([&] {
    set_logger(logger);
    Plugin& it = plugin();
    const std::lock_guard<std::mutex> lock(it.mutex);
    if (it.users == 0) {
      it.settings = settings_from_env();
      it.devices = find_devices(it.settings.speed_mbps);
      std::string line;
      for (size_t i = 0; i < it.devices.size(); ++i) {
        const Device& device = it.devices[i];
        line += format(" [%zu]%s:%s", i, device.name.c_str(), host_text(device.address).c_str());
      }
      info(kLogInit | kLogNet,
           "NET/ccore : Using%s; collective_core " CCORE_VERSION_TEXT
           ", %d+1 sockets a connection, %d threads, chunks of %zu KiB",
           line.c_str(), it.settings.streams, it.settings.workers, it.settings.chunk_bytes >> 10);
    }
    ++it.users;
    net_is_used().store(true);
    return kSuccess;
  });
}

Result init_profiled(Logger logger, ProfilerCallback /*profiler*/) { return init(logger); }

Result init_in(void** context, uint64_t /*comm_id*/, void* /*config*/, Logger logger, ProfilerCallback /*profiler*/) {
  *context = nullptr;
  return init(logger);
}

Result finalize(void* /*context*/) {
  Plugin& it = plugin();
  const std::lock_guard<std::mutex> lock(it.mutex);
  if (it.users > 0 && --it.users == 0) {
    it.connecting.clear();
    net_is_used().store(false);
  }
  return kSuccess;
}

Result devices(int* count) {
  *count = static_cast<int>(plugin().devices.size());
  return kSuccess;
}

const Device* device_at(int device) {
  const auto& all = plugin().devices;
  if (device >= 0 && static_cast<size_t>(device) < all.size()) return &all[static_cast<size_t>(device)];
  warn("NET/ccore : NCCL asked for device %d of %zu", device, all.size());
  return nullptr;
}

// What all versions of the structure have.
template <typename Properties>
Result common_properties(int device, Properties* properties) {
  const Device* found = device_at(device);
  if (!found) return kInvalidArgument;
  *properties = Properties{};
  // NCCL only reads them.
  properties->name = const_cast<char*>(found->name.c_str());
  properties->pci_path = found->pci_path.empty() ? nullptr : const_cast<char*>(found->pci_path.c_str());
  properties->guid = static_cast<uint64_t>(device);
  properties->pointer_support = kPointerHost;
  properties->speed_mbps = found->speed_mbps;
  properties->most_comms = 65536;
  properties->most_receives = 1;
  return kSuccess;
}

Result properties_v6(int device, PropertiesV6* properties) { return common_properties(device, properties); }

template <typename Properties>
Result properties_v7(int device, Properties* properties) {
  const Result result = common_properties(device, properties);
  properties->device_type = kNetDeviceHost;
  properties->device_version = kNetDeviceNoVersion;
  return result;
}

template <typename Properties>
Result properties_v9(int device, Properties* properties) {
  const Result result = properties_v7(device, properties);
  properties->virtual_device.count = 1;
  properties->virtual_device.devices[0] = device;
  properties->most_p2p_bytes = kMostTransferBytes;
  properties->most_collective_bytes = kMostCollNetBytes;
  return result;
}

template <typename Properties>
Result properties_v11(int device, Properties* properties) {
  const Result result = properties_v9(device, properties);
  properties->most_requests_at_once = 1;
  return result;
}

Result properties_v12(int device, PropertiesV12* properties) {
  const Result result = properties_v11(device, properties);
  properties->rail = kNetIdUndefined;
  properties->plane = kNetIdUndefined;
  return result;
}

Result listen(int device, void* handle, void** listener) {
  *listener = nullptr;
  const Device* found = device_at(device);
  if (!found) return kInvalidArgument;
  return guarded([&] {
    Handle made;
    *listener = new Listener(*found, plugin().settings, &made);
    std::memset(handle, 0, kHandleBytes);
    std::memcpy(handle, &made, sizeof made);
    return kSuccess;
  });
}

Result listen_in(void* /*context*/, int device, void* handle, void** listener) {
  return listen(device, handle, listener);
}

Result connect_v6(int device, void* handle, void** send_comm) {
  *send_comm = nullptr;
  const Device* own = device_at(device);
  if (!own) return kInvalidArgument;
  return guarded([&] {
    Handle made;
    std::memcpy(&made, handle, sizeof made);
    made.address.scope = own->address.scope;  // of a link-local address: the interface of this host
    Plugin& it = plugin();
    const std::lock_guard<std::mutex> lock(it.mutex);
    auto found = it.connecting.find(made.secret);
    if (found == it.connecting.end()) {
      found = it.connecting.emplace(made.secret, std::make_unique<Connector>(made, it.settings)).first;
    }
    try {
      std::unique_ptr<SendComm> comm = found->second->progress();
      if (!comm) return kSuccess;
      *send_comm = static_cast<Comm*>(comm.release());
    } catch (...) {
      it.connecting.erase(found);
      throw;
    }
    it.connecting.erase(found);
    return kSuccess;
  });
}

Result connect(int device, void* handle, void** send_comm, void** /*device_handle*/) {
  return connect_v6(device, handle, send_comm);
}

Result connect_v10(int device, void* /*config*/, void* handle, void** send_comm, void** /*device_handle*/) {
  return connect_v6(device, handle, send_comm);
}

Result connect_in(void* /*context*/, int device, void* handle, void** send_comm, void** /*device_handle*/) {
  return connect_v6(device, handle, send_comm);
}

Result accept_v6(void* listener, void** receive_comm) {
  *receive_comm = nullptr;
  return guarded([&] {
    std::unique_ptr<ReceiveComm> comm = static_cast<Listener*>(listener)->accept();
    if (comm) *receive_comm = static_cast<Comm*>(comm.release());
    return kSuccess;
  });
}

Result accept(void* listener, void** receive_comm, void** /*device_handle*/) {
  return accept_v6(listener, receive_comm);
}

// Host memory needs no registration.
template <typename Size>
Result register_memory(void* /*comm*/, void* /*data*/, Size /*size*/, int type, void** registration) {
  *registration = nullptr;
  return type == kPointerHost ? kSuccess : kInternalError;
}

Result deregister(void* /*comm*/, void* /*registration*/) { return kSuccess; }

Result send_any(void* comm, const void* data, size_t size, void** request) {
  *request = nullptr;
  return guarded([&] {
    Request* made = nullptr;
    const Result result = static_cast<SendComm*>(static_cast<Comm*>(comm))->send(data, size, &made);
    *request = made;
    return result;
  });
}

Result receive_any(void* comm, int count, void* data, size_t size, void** request) {
  *request = nullptr;
  if (count != 1) return kInternalError;
  return guarded([&] {
    Request* made = nullptr;
    const Result result = static_cast<ReceiveComm*>(static_cast<Comm*>(comm))->receive(data, size, &made);
    *request = made;
    return result;
  });
}

template <typename Size>
Result send(void* comm, void* data, Size size, int /*tag*/, void* /*registration*/, void** request) {
  return send_any(comm, data, static_cast<size_t>(size), request);
}

template <typename Size>
Result receive(void* comm, int count, void** data, Size* sizes, int* /*tags*/, void** /*registrations*/,
               void** request) {
  return receive_any(comm, count, data[0], static_cast<size_t>(sizes[0]), request);
}

Result send_profiled(void* comm, void* data, size_t size, int /*tag*/, void* /*registration*/, void* /*profile*/,
                     void** request) {
  return send_any(comm, data, size, request);
}

Result receive_profiled(void* comm, int count, void** data, size_t* sizes, int* /*tags*/, void** /*registrations*/,
                        void** /*profiles*/, void** request) {
  return receive_any(comm, count, data[0], sizes[0], request);
}

// Received data is in host memory, which needs no flush: NCCL does not ask for one.
Result flush(void* /*comm*/, int /*count*/, void** /*data*/, int* /*sizes*/, void** /*registrations*/, void** request) {
  *request = nullptr;
  return kSuccess;
}

Result test(void* request, int* done, int* sizes) {
  return guarded([&] {
    auto* it = static_cast<Request*>(request);
    return it->comm->test(it, done, sizes);
  });
}

Result close_comm(void* comm) {
  return guarded([&] {
    delete static_cast<Comm*>(comm);
    return kSuccess;
  });
}

Result close_listener(void* listener) {
  delete static_cast<Listener*>(listener);
  return kSuccess;
}

template <typename Table>
constexpr void fill_shared(Table* table) {
  table->name = kName;
  table->devices = devices;
  table->register_dma_buf = nullptr;
  table->deregister = deregister;
  table->flush = flush;
  table->test = test;
  table->close_send = close_comm;
  table->close_receive = close_comm;
  table->close_listener = close_listener;
}

constexpr NetV6 table_v6() {
  NetV6 table{};
  fill_shared(&table);
  table.init = init;
  table.properties = properties_v6;
  table.listen = listen;
  table.connect = connect_v6;
  table.accept = accept_v6;
  table.register_memory = register_memory<int>;
  table.send = send<int>;
  table.receive = receive<int>;
  return table;
}

constexpr NetV7 table_v7() {
  NetV7 table{};
  fill_shared(&table);
  table.init = init;
  table.properties = properties_v7<PropertiesV7>;
  table.listen = listen;
  table.connect = connect;
  table.accept = accept;
  table.register_memory = register_memory<int>;
  table.send = send<int>;
  table.receive = receive<int>;
  return table;
}

constexpr NetV8 table_v8() {
  NetV8 table{};
  fill_shared(&table);
  table.init = init;
  table.properties = properties_v7<PropertiesV8>;
  table.listen = listen;
  table.connect = connect;
  table.accept = accept;
  table.register_memory = register_memory<size_t>;
  table.send = send<int>;
  table.receive = receive<int>;
  return table;
}

constexpr NetV9 table_v9() {
  NetV9 table{};
  fill_shared(&table);
  table.init = init;
  table.properties = properties_v9<PropertiesV9>;
  table.listen = listen;
  table.connect = connect;
  table.accept = accept;
  table.register_memory = register_memory<size_t>;
  table.send = send<size_t>;
  table.receive = receive<size_t>;
  return table;
}

constexpr NetV10 table_v10() {
  NetV10 table{};
  fill_shared(&table);
  table.init = init_profiled;
  table.properties = properties_v9<PropertiesV9>;
  table.listen = listen;
  table.connect = connect_v10;
  table.accept = accept;
  table.register_memory = register_memory<size_t>;
  table.send = send_profiled;
  table.receive = receive_profiled;
  return table;
}

template <typename Table>
constexpr void fill_v11(Table* table) {
  fill_shared(table);
  table->init = init_in;
  table->listen = listen_in;
  table->connect = connect_in;
  table->accept = accept;
  table->register_memory = register_memory<size_t>;
  table->send = send_profiled;
  table->receive = receive_profiled;
  table->finalize = finalize;
}

constexpr NetV11 table_v11() {
  NetV11 table{};
  fill_v11(&table);
  table.properties = properties_v11<PropertiesV11>;
  return table;
}

constexpr NetV12 table_v12() {
  NetV12 table{};
  fill_v11(&table);
  table.properties = properties_v12;
  return table;
}

}  // namespace

std::atomic<bool>& net_is_used() {
  static std::atomic<bool> used{false};
  return used;
}

}  // namespace ccore::nccl

#define CCORE_EXPORT extern "C" __attribute__((visibility("default")))

CCORE_EXPORT const ccore::nccl::NetV6 ncclNetPlugin_v6 = ccore::nccl::table_v6();
CCORE_EXPORT const ccore::nccl::NetV7 ncclNetPlugin_v7 = ccore::nccl::table_v7();
CCORE_EXPORT const ccore::nccl::NetV8 ncclNetPlugin_v8 = ccore::nccl::table_v8();
CCORE_EXPORT const ccore::nccl::NetV9 ncclNetPlugin_v9 = ccore::nccl::table_v9();
CCORE_EXPORT const ccore::nccl::NetV10 ncclNetPlugin_v10 = ccore::nccl::table_v10();
CCORE_EXPORT const ccore::nccl::NetV11 ncclNetPlugin_v11 = ccore::nccl::table_v11();
CCORE_EXPORT const ccore::nccl::NetV12 ncclNetPlugin_v12 = ccore::nccl::table_v12();
