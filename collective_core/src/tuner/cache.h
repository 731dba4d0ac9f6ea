// The table that outlives a job: one file with what was measured and what was chosen. Its text is checked as a whole: a
// file that is not as it was written is worthless, and never more than that.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace ccore {

constexpr int kDtypeClassCount = 4;  // engine/tuning.cc has their meaning

// A choice.
struct CacheEntry {
  std::string collective;
  uint8_t size_class;
  uint8_t dtype_class;
  std::string algorithm;
  double us;  // 0: not known
  std::string model = "-";  // what the job trains, see model_key(); one word
};

// What makes two jobs comparable, one line of text each.
struct CacheIdentity {
  std::string machine;  // see machine_text()
  std::string library;  // whose choices these are, with its version
  std::string scale;  // ranks on each node, and how they are joined

  std::string text() const;
  // Of the file: one for each identity.
  std::string file_name() const;
};

// A file of this title and head with these lines, each with its end.
std::string format_lines(const std::string& title, const std::string& head, const std::string& lines);
// The lines, without their ends. Throws std::invalid_argument, which says what is wrong.
std::vector<std::string> parse_lines(const std::string& title, const std::string& head, const std::string& text,
                                     size_t most_lines);
// All of the word. Throws std::invalid_argument if it is not a number up to that.
uint64_t parse_number(const std::string& word, uint64_t most);

constexpr size_t kMostCacheBytes = size_t{1} << 20;

// By the words that name an entry: the words that are its value.
using CacheLines = std::map<std::string, std::string>;
std::string format_cache(const CacheIdentity& identity, const CacheLines& lines);
// Throws std::invalid_argument, which says what is wrong.
CacheLines parse_cache(const CacheIdentity& identity, const std::string& text);

std::pair<std::string, std::string> line_of(const CacheEntry& choice);
// Throws std::invalid_argument if the line is not a choice.
CacheEntry entry_of(const std::string& name, const std::string& value);
// The word that tells the choices of one model from those of others; both empty: "-".
std::string model_key(const std::string& model, const std::string& size);

// CCORE_CACHE_DIR, else $XDG_CACHE_HOME/collective_core, else ~/.cache/collective_core. Empty: there is no
// home.
std::string cache_directory();
// Empty if there is no file. Throws CC_ERROR_SYSTEM if it cannot be read.
std::string read_cache(const std::string& path);
// Into a temporary file beside it, flushed to the disk, and renamed: a reader sees the old file or the new
// one. Makes the directory. Throws CC_ERROR_SYSTEM.
void write_cache(const std::string& path, const std::string& text);

// The file of an identity, used by rank 0. Whatever is wrong with it is a warning, and it counts as missing.
class KeptLines {
 public:
  KeptLines() = default;  // nowhere: reads nothing, keeps nothing
  // what: the name of the content in log lines, such as "choices". prefix: of the file's name.
  KeptLines(std::string what, const CacheIdentity& identity, const std::string& prefix = "");

  // Of the lines whose names begin with a word, those that `parse` takes; it throws std::invalid_argument for others, such
  // as those of another version.
  template <typename Parse>
  auto read(const std::string& word, Parse parse) const {
    std::vector<decltype(parse(std::string(), std::string()))> all;
    for (const auto& [name, value] : lines(true)) {
      if (name.compare(0, word.size() + 1, word + " ") != 0) continue;
      try {
        all.push_back(parse(name, value));
      } catch (const std::invalid_argument&) {
        continue;
      }
    }
    return all;
  }
  // Puts these beside what is there by now. After a failure there is nowhere to keep more.
  void keep(CacheLines own);

 private:
  CacheLines lines(bool warns) const;

  std::string what_;
  CacheIdentity identity_;
  std::string path_;  // empty: nowhere
};

}  // namespace ccore
