// The cache file: what was written is read, and nothing else is.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

#include "cases.h"
#include "common/error.h"
#include "common/sha256.h"
#include "expect.h"
#include "ranks.h"
#include "tuner/cache.h"

namespace test {
namespace {

using ccore::CacheEntry;
using ccore::CacheIdentity;

const CacheIdentity kIdentity{"Some CPU, 8 cores", "a model\nof ours", "97 bytes", "2 nodes, 4 ranks"};
const std::vector<CacheEntry> kEntries = {
    {"all_reduce", 20, 1, "ring", 812.5}, {"all_reduce", 12, 2, "doubling", 0}, {"broadcast", 30, 0, "chain", 100000}};

bool refused(const std::string& text) {
  try {
    ccore::parse_cache(kIdentity, text);
    return false;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

void reads_what_was_written() {
  const auto read = ccore::parse_cache(kIdentity, ccore::format_cache(kIdentity, kEntries));
  EXPECT(read.size() == kEntries.size(), read.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT(read[i].same_key(kEntries[i]) && read[i].algorithm == kEntries[i].algorithm && read[i].us == kEntries[i].us,
           "entry ", i);
  }
  EXPECT(ccore::parse_cache(kIdentity, ccore::format_cache(kIdentity, {})).empty(), "");
}

void tells_identities_apart() {
  const std::string text = ccore::format_cache(kIdentity, kEntries);
  for (int part = 0; part < 4; ++part) {
    CacheIdentity other = kIdentity;
    (part == 0 ? other.machine : part == 1 ? other.model : part == 2 ? other.size : other.scale) += "x";
    EXPECT(other.file_name() != kIdentity.file_name(), "part ", part);
    EXPECT(refused(ccore::format_cache(other, kEntries)), "part ", part);
  }
  EXPECT(kIdentity.file_name().find('/') == std::string::npos, kIdentity.file_name());
}

// No part and no changed bit of a file passes for one.
void refuses_damage() {
  const std::string whole = ccore::format_cache(kIdentity, kEntries);
  for (size_t length = 0; length < whole.size(); ++length) EXPECT(refused(whole.substr(0, length)), length);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      EXPECT(refused(changed), "bit ", bit, " of byte ", at);
    }
  }
  EXPECT(refused(whole + " "), "something after the end");
  EXPECT(refused(std::string(ccore::kMostCacheBytes + 1, 'x')), "too large");
}

std::string signed_text(const std::string& text) {
  std::string hex;
  for (const unsigned char byte : ccore::sha256(text.data(), text.size())) hex += ccore::format("%02x", byte);
  return text + "sha256 " + hex + "\n";
}

// Behind a right checksum: refused, or entries that are in their ranges.
void survives_anything_signed() {
  const std::string head = "collective_core choices 1\n" + kIdentity.text();
  const std::string good = "choice all_reduce 20 1 ring 812500\n";
  EXPECT(!refused(signed_text(head + good)), "the pattern of this test is no file");
  for (const char* line :
       {"choice all_reduce 64 1 ring 1\n", "choice all_reduce -1 1 ring 1\n", "choice all_reduce 20 16 ring 1\n",
        "choice all_reduce 20 1 ring\n", "choice all_reduce 20 1 ring 1 1\n", "choice ../x 20 1 ring 1\n",
        "choice all_reduce 20 1 ring 99999999999999999999\n", "choice all_reduce 20 1 ring nan\n", "\n", "choice"}) {
    EXPECT(refused(signed_text(head + line)), line);
  }
  std::mt19937 random(20261121);
  for (int round = 0; round < 20000; ++round) {
    std::string text = good + good;
    for (size_t changes = 1 + random() % 4; changes > 0; --changes) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        default:
          text.insert(at, 1, static_cast<char>(random()));
      }
      if (text.empty()) text = "x";
    }
    try {
      for (const CacheEntry& one : ccore::parse_cache(kIdentity, signed_text(head + text))) {
        EXPECT(one.size_class < 64 && one.dtype_class < 16 && one.us >= 0 && !one.algorithm.empty(), text);
      }
    } catch (const std::invalid_argument&) {
    }
  }
}

void writes_whole_files() {
  char folder[] = "/tmp/ccore-cache-XXXXXX";
  EXPECT(mkdtemp(folder) != nullptr, "");
  const std::string path = std::string(folder) + "/a/b/" + kIdentity.file_name();
  EXPECT(ccore::read_cache(path).empty(), "there is no file yet");
  // Several jobs end at once; whoever reads meanwhile sees one of their files, whole.
  run_threads(4, [&](int writer) {
    for (int round = 0; round < 25; ++round) {
      const std::vector<CacheEntry> own(static_cast<size_t>(1 + writer), kEntries[0]);
      ccore::write_cache(path, ccore::format_cache(kIdentity, own));
      EXPECT(!refused(ccore::read_cache(path)), "half a file");
    }
  });
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(path).parent_path())) {
    EXPECT(entry.is_regular_file(), entry.path().string());
    ++files;
  }
  EXPECT(files == 1, files, " files are left");
  for (const std::string& bad : {std::string(folder), std::string("/proc/none/x"), path + "/under-a-file"}) {
    bool failed = false;
    try {
      ccore::write_cache(bad, "x");
    } catch (const ccore::Error& error) {
      failed = error.code() == CC_ERROR_SYSTEM;
    }
    EXPECT(failed, bad);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace

void tuner_cache() {
  reads_what_was_written();
  tells_identities_apart();
  refuses_damage();
  survives_anything_signed();
  writes_whole_files();
}

}  // namespace test
