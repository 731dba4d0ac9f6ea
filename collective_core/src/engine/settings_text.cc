#include "engine/settings_text.h"

#include <cstring>
#include <utility>

#include "common/env.h"
#include "common/error.h"

namespace ccore {
namespace {

constexpr char kSecret[] = "CCORE_JOB_SECRET";

ToldSetting of_rank_0(std::string value) { return {std::move(value), CC_SETTING_RANK_0, ""}; }

template <size_t kSize>
void copy(const std::string& text, char (*to)[kSize]) {
  std::strncpy(*to, text.c_str(), kSize - 1);
}

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
      return "the cost model's";
  }
}

ToldSettings of_rank_0(const Connections& connections) {
  const auto number = [](int64_t value) { return of_rank_0(std::to_string(value)); };
  const Overrides& overrides = connections.overrides;
  const TunerSettings& tuner = connections.tuner;
  const std::string links = connections.link_matrix ? "a file on the host of rank 0" : "none";
  return {
      {"CCORE_INTRA_SIZE", number(overrides.intra_size)},
      {"CCORE_2D", number(overrides.hierarchical)},
      {"CCORE_2D_BETWEEN", of_rank_0(between_text(overrides.between))},
      {"CCORE_HIERARCHICAL_THRESHOLD", number(overrides.hierarchical_threshold)},
      {"CCORE_2D_LIMIT",
       overrides.hierarchical_limit == INT64_MAX ? of_rank_0("none") : number(overrides.hierarchical_limit)},
      {"CCORE_ALGO", of_rank_0(forced_text(overrides))},
      {"CCORE_LINK_MATRIX", of_rank_0(links)},
      {"CCORE_MEASURE", number(tuner.measure)},
      {"CCORE_MEASURE_CACHE", number(tuner.keep_timings)},
      {"CCORE_AUTOTUNE", number(tuner.enabled)},
      {"CCORE_AUTOTUNE_PERF_MODE", of_rank_0(name_of(tuner.mode))},
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
  if (!obstacle.empty()) return {"0", CC_SETTING_NOT_USED, obstacle};
  return {"1", env_text("CCORE_CMA").empty() ? CC_SETTING_DEFAULT : CC_SETTING_ENVIRONMENT, "in use"};
}

ToldSetting net_text(const Connections& connections) {
  if (!connections.rdma_obstacle.empty()) return {"tcp", CC_SETTING_NOT_USED, connections.rdma_obstacle};
  if (!connections.rdma.empty()) return {"rdma", CC_SETTING_RANK_0, "proven over " + connections.rdma};
  return of_rank_0(connections.net == Net::tcp ? "tcp" : "rdma");
}

std::string transport_text(cc_transport transport) {
  if (transport == CC_TRANSPORT_SHM) return "shm";
  return transport == CC_TRANSPORT_TCP ? "tcp" : "auto";
}

std::string source_text(const cc_setting& setting) {
  const std::string note = setting.note;
  const std::string added = note.empty() ? "" : ", " + note;
  switch (static_cast<cc_setting_source>(setting.source)) {
    case CC_SETTING_ENVIRONMENT:
      return (std::strcmp(setting.spelled, setting.name) == 0 ? "environment"
                                                              : "environment, as " + std::string(setting.spelled)) +
             added;
    case CC_SETTING_CONFIG:
      return "cc_config";
    case CC_SETTING_RANK_0:
      return "rank 0, whose value counts for all" + added;
    case CC_SETTING_NOT_USED:
      return "not used: " + note;
    default:
      return "default" + added;
  }
}

}  // namespace

ToldSettings told_settings(int rank, const Settings& settings, const Connections& connections) {
  ToldSettings told = rank == 0 ? ToldSettings() : of_rank_0(connections);
  told["CCORE_NET"] = net_text(connections);
  told["CCORE_CMA"] = cross_memory_text(connections.cross_memory_obstacle);
  for (const std::string& name : settings.given) {
    ToldSetting& setting = told[name];
    setting.source = CC_SETTING_CONFIG;
    if (name == "CCORE_TIMEOUT_S") setting.value = seconds(settings.timeout_ms);
    if (name == "CCORE_INIT_TIMEOUT_S") setting.value = seconds(settings.init_timeout_ms);
    if (name == "CCORE_TRANSPORT") setting.value = transport_text(settings.transport);
    if (name == "CCORE_NODE_ID") setting.value = settings.node_id;
    if (name == "CCORE_SOCKET_IFNAME") setting.value = settings.interface_name;
    if (name == "CCORE_SOCKET_ADDR") setting.value = settings.address;
  }
  return told;
}

std::vector<cc_setting> all_settings(const ToldSettings& told) {
  std::vector<cc_setting> all;
  for (const EnvVariable& variable : env_variables()) {
    const EnvSetting found = env_setting(variable.name);
    const auto better = told.find(variable.name);
    ToldSetting setting{variable.fallback, CC_SETTING_DEFAULT, ""};
    if (better != told.end()) {
      setting = better->second;
    } else if (!found.text.empty()) {
      setting = {found.text, CC_SETTING_ENVIRONMENT, ""};
    }
    cc_setting out{};
    out.size = sizeof out;
    out.source = setting.source;
    // The secret authenticates the ranks, and settings go into logs.
    if (setting.source != CC_SETTING_DEFAULT && std::strcmp(variable.name, kSecret) == 0) out.secret = 1;
    copy(variable.name, &out.name);
    if (!found.text.empty()) copy(found.name, &out.spelled);
    copy(out.secret != 0 ? "***" : setting.value, &out.value);
    copy(setting.note, &out.note);
    all.push_back(out);
  }
  return all;
}

std::string settings_text(const ToldSettings& told) {
  std::string text;
  for (const cc_setting& setting : all_settings(told)) {
    text += std::string(setting.name) + "=" + setting.value + " (" + source_text(setting) + ")\n";
  }
  return text;
}

}  // namespace ccore
