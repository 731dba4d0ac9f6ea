// All settings and where each came from, as text for a bug report.
#pragma once

#include <map>
#include <string>

#include "engine/connect.h"

namespace ccore {

struct ToldSetting {
  std::string value;
  std::string source;
};
// By the name of the variable. Those that a communicator has from another place than the environment of its rank:
// from cc_config, or from rank 0.
using ToldSettings = std::map<std::string, ToldSetting>;
ToldSettings told_settings(int rank, const Settings& settings, const Connections& connections);

// A line for each variable that the library reads: "CCORE_TIMEOUT_S=300 (default)".
std::string settings_text(const ToldSettings& told);

}  // namespace ccore
