// All settings and where each came from, one by one and as text for a bug report.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "collective_core/collective_core.h"
#include "engine/connect.h"

namespace ccore {

struct ToldSetting {
  std::string value;
  cc_setting_source source = CC_SETTING_DEFAULT;
  std::string note;  // as in cc_setting
};
// By the name of the variable. Those that a communicator has from another place than the environment of its rank:
// from cc_config, or from rank 0.
using ToldSettings = std::map<std::string, ToldSetting>;
ToldSettings told_settings(int rank, const Settings& settings, const Connections& connections);

// Each variable that the library reads, in the order of docs/environment.md.
std::vector<cc_setting> all_settings(const ToldSettings& told);
// The same, a line each: "CCORE_TIMEOUT_S=300 (default)".
std::string settings_text(const ToldSettings& told);

}  // namespace ccore
