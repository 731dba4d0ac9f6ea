#include "tuning/kept_choices.h"

namespace ccore_cuda {

KeptChoices::KeptChoices(const ccore::CacheIdentity& identity, bool updates) : file_("choices", identity, "cuda-") {
  const std::vector<ccore::CacheEntry> entries = file_.read("choice", ccore::entry_of);
  for (const ccore::CacheEntry& entry : entries) {
    const int collective = collective_of(entry.collective);
    if (collective < 0 || entry.dtype_class >= kTypeClasses || entry.size_class >= kSizeClasses) continue;
    found_.push_back({{collective, entry.dtype_class, entry.size_class}, entry.algorithm, entry.us});
  }
  if (!entries.empty() && !updates) file_ = ccore::KeptLines();
}

void KeptChoices::keep(const KeptChoice& choice) {
  const auto [name, value] =
      line_of(ccore::CacheEntry{name_of_collective(choice.of.collective), static_cast<uint8_t>(choice.of.size),
                                static_cast<uint8_t>(choice.of.type), choice.by, choice.us});
  own_[name] = value;
  file_.keep(own_);
}

}  // namespace ccore_cuda
