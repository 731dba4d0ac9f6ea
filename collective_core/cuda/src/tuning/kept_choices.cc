#include "tuning/kept_choices.h"

#include <algorithm>
#include <stdexcept>

#include "common/error.h"
#include "common/log.h"

namespace ccore_cuda {
namespace {

using ccore::CacheEntry;
using ccore::LogLevel;

}  // namespace

KeptChoices::KeptChoices(const ccore::CacheIdentity& identity, bool updates) : identity_(identity) {
  const std::string directory = ccore::cache_directory();
  if (directory.empty()) {
    ccore::log(LogLevel::warn, "choices are not kept: neither CCORE_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
    return;
  }
  path_ = directory + "/cuda-" + identity_.file_name();
  const std::vector<CacheEntry> entries = read();
  for (const CacheEntry& entry : entries) {
    const int collective = collective_of(entry.collective);
    if (collective < 0 || entry.dtype_class >= kTypeClasses || entry.size_class >= kSizeClasses) continue;
    found_.push_back({{collective, entry.dtype_class, entry.size_class}, entry.algorithm, entry.us});
  }
  if (!entries.empty() && !updates) path_.clear();
}

std::vector<CacheEntry> KeptChoices::read() {
  try {
    const std::string text = ccore::read_cache(path_);
    return text.empty() ? std::vector<CacheEntry>() : ccore::parse_cache(identity_, text);
  } catch (const std::invalid_argument& error) {
    ccore::log(LogLevel::warn, "%s is ignored and will be replaced: %s", path_.c_str(), error.what());
  } catch (const ccore::Error& error) {
    ccore::log(LogLevel::warn, "choices are not read: %s", error.what());
  }
  return {};
}

void KeptChoices::keep(const KeptChoice& choice) {
  if (path_.empty()) return;
  own_.push_back({name_of_collective(choice.of.collective), static_cast<uint8_t>(choice.of.size),
                  static_cast<uint8_t>(choice.of.type), choice.by, choice.us});
  std::vector<CacheEntry> all = own_;
  for (const CacheEntry& old : read()) {
    const auto same = [&](const CacheEntry& one) { return one.same_key(old); };
    if (std::none_of(own_.begin(), own_.end(), same)) all.push_back(old);
  }
  try {
    ccore::write_cache(path_, ccore::format_cache(identity_, all));
  } catch (const ccore::Error& error) {
    ccore::log(LogLevel::warn, "choices are not kept: %s", error.what());
    path_.clear();  // said once
  }
}

}  // namespace ccore_cuda
