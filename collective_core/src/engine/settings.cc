#include "engine/settings.h"

#include <algorithm>
#include <cstring>

#include "common/env.h"
#include "common/error.h"
#include "common/log.h"
#include "common/simd.h"
#include "transport/tcp/socket.h"

namespace ccore {
namespace {

constexpr int64_t kRingBytes = 256 * 1024;
constexpr int64_t kSlotBytes = 1024 * 1024;

cc_transport transport_from_env() {
  const std::string text = env_text("CCORE_TRANSPORT");
  if (text.empty() || text == "auto") return CC_TRANSPORT_AUTO;
  if (text == "shm") return CC_TRANSPORT_SHM;
  if (text == "tcp") return CC_TRANSPORT_TCP;
  throw Error(CC_ERROR_INVALID_ARGUMENT, "CCORE_TRANSPORT=" + text + ": expected auto, shm or tcp");
}

Net net_from_env() {
  const std::string text = env_text("CCORE_NET");
  if (text.empty() || text == "tcp") return Net::tcp;
  if (text == "rdma") return Net::rdma;
  if (text == "auto") return Net::best;
  throw Error(CC_ERROR_INVALID_ARGUMENT, "CCORE_NET=" + text + ": expected tcp, rdma or auto");
}

Settings settings_from_env() {
  Settings settings;
  settings.timeout_ms = env_seconds_as_ms("CCORE_TIMEOUT_S", 300000);
  settings.init_timeout_ms = env_seconds_as_ms("CCORE_INIT_TIMEOUT_S", 120000);
  settings.transport = transport_from_env();
  settings.node_id = env_text("CCORE_NODE_ID");
  settings.interface_name = env_text("CCORE_SOCKET_IFNAME");
  settings.address = env_text("CCORE_SOCKET_ADDR");
  settings.overrides = overrides_from_env();
  settings.link_matrix_path = env_text("CCORE_LINK_MATRIX");
  settings.tuner = tuner_settings_from_env();
  settings.streams = stream_wish_from_env();
  settings.net = net_from_env();
  settings.rdma = rdma_wish_from_env();
  settings.fault_seed = env_integer("CCORE_FAULT_SEED", 0, 0, INT64_MAX);
  // Links that move bytes in random pieces say nothing of the machine.
  if (settings.fault_seed != 0) settings.tuner.measure = 0;
  settings.ring_bytes = env_integer("CCORE_SHM_RING_BYTES", kRingBytes, 4096, int64_t{1} << 30);
  settings.slot_bytes = env_integer("CCORE_SHM_SLOT_BYTES", kSlotBytes, 0, int64_t{1} << 30);
  settings.cross_memory = env_integer("CCORE_CMA", 1, 0, 1) != 0;
  // A wrong one is refused here, not by the first reduction or connection: a rank that ends before the others meet it
  // leaves them waiting, unless they see the same.
  check_log_level();
  simd_level();
  user_timeout_ms_from_env();
  return settings;
}

}  // namespace

Settings settings_from(const cc_config* config, const Settings* base) {
  cc_config given{};
  if (config) {
    if (config->size < sizeof(size_t) || config->size > 4096) {
      throw Error(CC_ERROR_INVALID_ARGUMENT, "cc_config.size is not set");
    }
    std::memcpy(&given, config, std::min(config->size, sizeof given));
  }
  if (given.timeout_ms < 0 || given.init_timeout_ms < 0) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "a timeout in cc_config is negative");
  }
  if (given.transport < CC_TRANSPORT_AUTO || given.transport > CC_TRANSPORT_TCP) {
    throw Error(CC_ERROR_INVALID_ARGUMENT, "cc_config.transport is not one of cc_transport");
  }
  Settings settings = base ? *base : settings_from_env();
  const auto note = [&](const char* name) {
    if (std::find(settings.given.begin(), settings.given.end(), name) == settings.given.end()) {
      settings.given.emplace_back(name);
    }
  };
  const auto take = [&](auto* setting, auto value, const char* name) {
    *setting = value;
    note(name);
  };
  const auto take_text = [&](std::string* setting, const char* value, const char* name) {
    if (value && *value) take(setting, value, name);
  };
  if (given.timeout_ms) take(&settings.timeout_ms, given.timeout_ms, "CCORE_TIMEOUT_S");
  if (given.init_timeout_ms) take(&settings.init_timeout_ms, given.init_timeout_ms, "CCORE_INIT_TIMEOUT_S");
  if (given.transport != CC_TRANSPORT_AUTO) {
    take(&settings.transport, static_cast<cc_transport>(given.transport), "CCORE_TRANSPORT");
  }
  take_text(&settings.node_id, given.node_id, "CCORE_NODE_ID");
  take_text(&settings.interface_name, given.interface_name, "CCORE_SOCKET_IFNAME");
  take_text(&settings.address, given.address, "CCORE_SOCKET_ADDR");
  return settings;
}

}  // namespace ccore
