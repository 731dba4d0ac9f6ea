// The file in which choices outlive a job. Its text is checked line by line: whatever is not as it was
// written makes the whole file worthless, and never more than that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tuner/tuner.h"

namespace ccore {

constexpr int kDtypeClassCount = 4;  // engine/tuning.cc has their meaning

struct CacheEntry {
  std::string collective;
  uint8_t size_class;
  uint8_t dtype_class;
  std::string algorithm;
  double us;  // 0: not known

  bool same_key(const CacheEntry& other) const;
};

// All that makes two jobs comparable: ACSpeed's machine, model, size and scale. One line of text each.
struct CacheIdentity {
  std::string machine;  // see machine_text()
  std::string model;    // what the user calls it
  std::string size;     // of the model, as the user says
  std::string scale;    // ranks on each node, and how they are joined

  std::string text() const;
  // Of the file: one for each identity.
  std::string file_name() const;
};

// A file of this title and identity with these lines, each with its end.
std::string format_lines(const std::string& title, const CacheIdentity& identity, const std::string& lines);
// The lines, without their ends. Throws std::invalid_argument, which says what is wrong.
std::vector<std::string> parse_lines(const std::string& title, const CacheIdentity& identity, const std::string& text,
                                     size_t most_lines);

constexpr size_t kMostCacheBytes = size_t{1} << 20;

std::string format_cache(const CacheIdentity& identity, const std::vector<CacheEntry>& entries);
// Throws std::invalid_argument, which says what is wrong.
std::vector<CacheEntry> parse_cache(const CacheIdentity& identity, const std::string& text);

// CCORE_CACHE_DIR, else $XDG_CACHE_HOME/collective_core, else ~/.cache/collective_core. Empty: there is no
// home.
std::string cache_directory();
// Empty if there is no file. Throws CC_ERROR_SYSTEM if it cannot be read.
std::string read_cache(const std::string& path);
// Into a temporary file beside it, flushed to the disk, and renamed: a reader sees the old file or the new
// one. Makes the directory. Throws CC_ERROR_SYSTEM.
void write_cache(const std::string& path, const std::string& text);

}  // namespace ccore
