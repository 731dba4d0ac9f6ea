#include "any_net.h"

#include <dlfcn.h>

#include <stdexcept>

namespace ccore::nccl {
namespace {

template <typename Table>
const Table* table_of(void* library, int version) {
  const std::string symbol = "ncclNetPlugin_v" + std::to_string(version);
  const auto* table = static_cast<const Table*>(dlsym(library, symbol.c_str()));
  if (!table) throw std::runtime_error("no " + symbol);
  return table;
}

template <typename From>
void copy_properties(const From& from, PropertiesV6* to) {
  *to = PropertiesV6{from.name, from.pci_path,   from.guid,       from.pointer_support, from.speed_mbps,
                     from.port, from.latency_us, from.most_comms, from.most_receives};
}

template <typename Properties, typename Table>
AnyNet shared_part(const Table* table) {
  AnyNet net;
  net.name = table->name;
  net.devices = table->devices;
  net.properties = [table](int device, PropertiesV6* to) {
    Properties from{};
    const Result result = table->properties(device, &from);
    copy_properties(from, to);
    return result;
  };
  net.test = table->test;
  net.close_send = table->close_send;
  net.close_receive = table->close_receive;
  net.close_listener = table->close_listener;
  return net;
}

template <typename Size, typename Table>
void plain_transfers(AnyNet* net, const Table* table) {
  net->init = table->init;
  net->listen = table->listen;
  net->send = [table](void* comm, void* data, size_t size, void** request) {
    return table->send(comm, data, static_cast<Size>(size), 0, nullptr, request);
  };
  net->receive = [table](void* comm, void* data, size_t size, void** request) {
    int tag = 0;
    void* registration = nullptr;
    auto narrow = static_cast<Size>(size);
    return table->receive(comm, 1, &data, &narrow, &tag, &registration, request);
  };
}

template <typename Table>
void profiled_transfers(AnyNet* net, const Table* table) {
  net->send = [table](void* comm, void* data, size_t size, void** request) {
    return table->send(comm, data, size, 0, nullptr, nullptr, request);
  };
  net->receive = [table](void* comm, void* data, size_t size, void** request) {
    int tag = 0;
    void* registration = nullptr;
    return table->receive(comm, 1, &data, &size, &tag, &registration, nullptr, request);
  };
}

template <typename Table>
void connections_with_device(AnyNet* net, const Table* table) {
  net->connect = [table](int device, void* handle, void** comm) {
    return table->connect(device, handle, comm, nullptr);
  };
  net->accept = [table](void* listener, void** comm) { return table->accept(listener, comm, nullptr); };
}

template <typename Properties, typename Table>
AnyNet net_in_context(const Table* table) {
  AnyNet net = shared_part<Properties>(table);
  profiled_transfers(&net, table);
  net.init = [table](Logger logger) {
    void* context = nullptr;
    int traffic_class = kUndefined;
    return table->init(&context, 1, &traffic_class, logger, nullptr);
  };
  net.listen = [table](int device, void* handle, void** listener) {
    return table->listen(nullptr, device, handle, listener);
  };
  net.connect = [table](int device, void* handle, void** comm) {
    return table->connect(nullptr, device, handle, comm, nullptr);
  };
  net.accept = [table](void* listener, void** comm) { return table->accept(listener, comm, nullptr); };
  return net;
}

AnyNet net_of(void* library, int version) {
  if (version == 6) {
    const auto* table = table_of<NetV6>(library, version);
    AnyNet net = shared_part<PropertiesV6>(table);
    plain_transfers<int>(&net, table);
    net.connect = table->connect;
    net.accept = table->accept;
    return net;
  }
  if (version == 7) {
    const auto* table = table_of<NetV7>(library, version);
    AnyNet net = shared_part<PropertiesV7>(table);
    plain_transfers<int>(&net, table);
    connections_with_device(&net, table);
    return net;
  }
  if (version == 8) {
    const auto* table = table_of<NetV8>(library, version);
    AnyNet net = shared_part<PropertiesV8>(table);
    plain_transfers<int>(&net, table);
    connections_with_device(&net, table);
    return net;
  }
  if (version == 9) {
    const auto* table = table_of<NetV9>(library, version);
    AnyNet net = shared_part<PropertiesV9>(table);
    plain_transfers<size_t>(&net, table);
    connections_with_device(&net, table);
    return net;
  }
  if (version == 10) {
    const auto* table = table_of<NetV10>(library, version);
    AnyNet net = shared_part<PropertiesV9>(table);
    profiled_transfers(&net, table);
    net.init = [table](Logger logger) { return table->init(logger, nullptr); };
    net.listen = table->listen;
    net.connect = [table](int device, void* handle, void** comm) {
      int traffic_class = kUndefined;
      return table->connect(device, &traffic_class, handle, comm, nullptr);
    };
    net.accept = [table](void* listener, void** comm) { return table->accept(listener, comm, nullptr); };
    return net;
  }
  if (version == 11) return net_in_context<PropertiesV11>(table_of<NetV11>(library, version));
  if (version == 12) return net_in_context<PropertiesV12>(table_of<NetV12>(library, version));
  throw std::runtime_error("no version " + std::to_string(version));
}

}  // namespace

AnyNet load_net(const std::string& path, int version) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  AnyNet net = net_of(library, version);
  // NCCL has no such call for older tables; here it lets the next case start with its own settings.
  const auto* newest = table_of<NetV12>(library, kNewestNet);
  net.finalize = [newest] { return newest->finalize(nullptr); };
  return net;
}

}  // namespace ccore::nccl
