#include "engine/settings_text.h"

#include "common/env.h"
#include "common/error.h"

namespace ccore {
namespace {

constexpr char kFromRank0[] = "rank 0, whose value counts for all";

std::string seconds(int64_t ms) {
  std::string text = format("%.3f", static_cast<double>(ms) / 1000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string forced_text(const Overrides& overrides) {
  std::string list;
  for (int number = 0; number < kKinds; ++number) {
    const Algorithm algorithm = overrides.forced[number];
    if (algorithm == Algorithm::none) continue;
    list += (list.empty() ? "" : ",") + std::string(name_of(static_cast<Kind>(number))) + ":" + name_of(algorithm);
  }
  return list.empty() ? "the cost model's" : list;
}

std::string between_text(Algorithm between) {
  switch (between) {
    case Algorithm::ring:
      return "ring";
    case Algorithm::direct:
      return "ps";
    case Algorithm::double_tree:
      return "tree";
    case Algorithm::halving:
      return "butterfly";
    default:
      return "ring in 2d, else the cost model's";
  }
}

ToldSettings of_rank_0(const Connections& connections) {
  const auto number = [](int64_t value) { return ToldSetting{std::to_string(value), kFromRank0}; };
  const Overrides& overrides = connections.overrides;
  const TunerSettings& tuner = connections.tuner;
  const std::string links = connections.link_matrix ? "a file on the host of rank 0" : "none";
  return {
      {"CCORE_INTRA_SIZE", number(overrides.intra_size)},
      {"CCORE_2D", number(overrides.hierarchical)},
      {"CCORE_2D_BETWEEN", {between_text(overrides.between), kFromRank0}},
      {"CCORE_HIERARCHICAL_THRESHOLD", number(overrides.hierarchical_threshold)},
      {"CCORE_2D_LIMIT", overrides.hierarchical_limit == INT64_MAX ? ToldSetting{"none", kFromRank0}
                                                                   : number(overrides.hierarchical_limit)},
      {"CCORE_ALGO", {forced_text(overrides), kFromRank0}},
      {"CCORE_LINK_MATRIX", {links, kFromRank0}},
      {"CCORE_MEASURE", number(tuner.measure)},
      {"CCORE_MEASURE_CACHE", number(tuner.keep_timings)},
      {"CCORE_AUTOTUNE", number(tuner.enabled)},
      {"CCORE_AUTOTUNE_PERF_MODE", {name_of(tuner.mode), kFromRank0}},
      {"CCORE_AUTOTUNE_WARMUP_CALLS", number(tuner.warmup_calls)},
      {"CCORE_AUTOTUNE_PROFILE_CALLS", number(tuner.profile_calls)},
      {"CCORE_AUTOTUNE_WINDOW_CALLS", number(tuner.window_calls)},
      {"CCORE_CACHE_DISABLE", number(tuner.cache_disabled)},
      {"CCORE_CACHE_UPDATE_DISABLE", number(tuner.cache_update_disabled)},
      {"CCORE_TCP_STREAMS", number(connections.streams.streams)},
      {"CCORE_TCP_FRAME_BYTES", number(connections.streams.frame_bytes)},
  };
}

// Both ways: a setting says what is wished, and this is what came of it.
ToldSetting cross_memory_text(const std::string& obstacle) {
  if (!obstacle.empty()) return {"0", "not used: " + obstacle};
  return {"1", std::string(env_text("CCORE_CMA").empty() ? "default" : "environment") + ", in use"};
}

ToldSetting net_text(const Connections& connections) {
  if (!connections.rdma_obstacle.empty()) return {"tcp", "RDMA is not used: " + connections.rdma_obstacle};
  if (!connections.rdma.empty()) return {"rdma", "of rank 0, proven over " + connections.rdma};
  return {connections.net == Net::tcp ? "tcp" : "rdma", kFromRank0};
}

std::string transport_text(cc_transport transport) {
  if (transport == CC_TRANSPORT_SHM) return "shm";
  return transport == CC_TRANSPORT_TCP ? "tcp" : "auto";
}

}  // namespace

ToldSettings told_settings(int rank, const Settings& settings, const Connections& connections) {
  ToldSettings told = rank == 0 ? ToldSettings() : of_rank_0(connections);
  told["CCORE_NET"] = net_text(connections);
  told["CCORE_CMA"] = cross_memory_text(connections.cross_memory_obstacle);
  for (const std::string& name : settings.given) {
    ToldSetting& setting = told[name];
    setting.source = "cc_config";
    if (name == "CCORE_TIMEOUT_S") setting.value = seconds(settings.timeout_ms);
    if (name == "CCORE_INIT_TIMEOUT_S") setting.value = seconds(settings.init_timeout_ms);
    if (name == "CCORE_TRANSPORT") setting.value = transport_text(settings.transport);
    if (name == "CCORE_NODE_ID") setting.value = settings.node_id;
    if (name == "CCORE_SOCKET_IFNAME") setting.value = settings.interface_name;
    if (name == "CCORE_SOCKET_ADDR") setting.value = settings.address;
  }
  return told;
}

std::string settings_text(const ToldSettings& told) {
  std::string text;
  for (const EnvVariable& variable : env_variables()) {
    ToldSetting setting{variable.fallback, "default"};
    const EnvSetting found = env_setting(variable.name);
    const auto better = told.find(variable.name);
    if (better != told.end()) {
      setting = better->second;
    } else if (!found.text.empty()) {
      // The secret authenticates the ranks, and this text goes into logs.
      const bool secret = std::string(variable.name) == "CCORE_JOB_SECRET";
      setting = {secret ? "***" : found.text,
                 found.name == variable.name ? "environment" : "environment, as " + found.name};
    }
    text += std::string(variable.name) + "=" + setting.value + " (" + setting.source + ")\n";
  }
  return text;
}

}  // namespace ccore
