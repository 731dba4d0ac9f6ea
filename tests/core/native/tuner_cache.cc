// The cache file: what was written is read, and nothing else is.
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <stdexcept>

#include "cases.h"
#include "common/error.h"
#include "common/sha256.h"
#include "engine/timing_store.h"
#include "expect.h"
#include "ranks.h"
#include "topology/cpus.h"
#include "tuner/cache.h"
#include "tuner/timings.h"

namespace test {
namespace {

using ccore::CacheEntry;
using ccore::CacheIdentity;

const CacheIdentity kIdentity{"Some CPU, 8 cores", "a library\nof ours", "2 nodes, 4 ranks"};
const std::vector<CacheEntry> kEntries = {{"all_reduce", 20, 1, "ring", 812.5},
                                          {"all_reduce", 12, 2, "doubling", 0, "0123456789abcdef"},
                                          {"broadcast", 30, 0, "chain", 100000}};

ccore::CacheLines lines_of(const std::vector<CacheEntry>& entries) {
  ccore::CacheLines lines;
  for (const CacheEntry& one : entries) lines.insert(line_of(one));
  return lines;
}

bool refused(const std::string& text) {
  try {
    ccore::parse_cache(kIdentity, text);
    return false;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

template <typename Parse>
bool refuses(Parse parse, const std::string& name, const std::string& value) {
  try {
    parse(name, value);
    return false;
  } catch (const std::invalid_argument&) {
    return true;
  }
}

void reads_what_was_written() {
  const auto lines = ccore::parse_cache(kIdentity, ccore::format_cache(kIdentity, lines_of(kEntries)));
  EXPECT(lines.size() == kEntries.size(), lines.size());
  for (const CacheEntry& one : kEntries) {
    const auto [name, value] = line_of(one);
    const CacheEntry read = ccore::entry_of(name, lines.at(name));
    EXPECT(read.collective == one.collective && read.size_class == one.size_class && read.model == one.model &&
               read.dtype_class == one.dtype_class && read.algorithm == one.algorithm && read.us == one.us,
           name);
  }
  EXPECT(ccore::parse_cache(kIdentity, ccore::format_cache(kIdentity, {})).empty(), "");
}

void tells_identities_apart() {
  for (int part = 0; part < 3; ++part) {
    CacheIdentity other = kIdentity;
    (part == 0 ? other.machine : part == 1 ? other.library : other.scale) += "x";
    EXPECT(other.file_name() != kIdentity.file_name(), "part ", part);
    EXPECT(refused(ccore::format_cache(other, lines_of(kEntries))), "part ", part);
  }
  EXPECT(kIdentity.file_name().find('/') == std::string::npos, kIdentity.file_name());
  const std::set<std::string> models = {ccore::model_key("", ""), ccore::model_key("a", ""), ccore::model_key("", "a"),
                                        ccore::model_key("a", "1 bytes"), ccore::model_key("a 1", "bytes")};
  EXPECT(models.size() == 5 && models.count("-") == 1, models.size(), " of 5 models");
  for (const std::string& one : models) EXPECT(one.find(' ') == std::string::npos, one);
}

// No part and no changed bit of a file passes for one.
void refuses_damage() {
  const std::string whole = ccore::format_cache(kIdentity, lines_of(kEntries));
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

std::string signed_text(const std::string& text) { return text + "sha256 " + ccore::hex_sha256(text) + "\n"; }

// Behind a right checksum: refused, or entries that are in their ranges.
void survives_anything_signed() {
  const std::string head = "collective_core table 2\n" + kIdentity.text();
  const std::string good = "choice - all_reduce 20 1 = ring 812500\n";
  EXPECT(!refused(signed_text(head + good)), "the pattern of this test is no file");
  EXPECT(refused(signed_text(head + "choice - all_reduce 20 1\n")), "no value");
  EXPECT(refused(signed_text(head + "\n")), "an empty line");
  const std::pair<const char*, const char*> bad[] = {{"choice - all_reduce 64 1", "ring 1"},
                                                     {"choice - all_reduce -1 1", "ring 1"},
                                                     {"choice - all_reduce 20 4", "ring 1"},
                                                     {"choice - all_reduce 20 1", "ring"},
                                                     {"choice - all_reduce 20 1", "ring 1 1"},
                                                     {"choice - ../x 20 1", "ring 1"},
                                                     {"choice - all_reduce 20 1", "ring 99999999999999999999"},
                                                     {"choice - all_reduce 20 1", "ring nan"},
                                                     {"choice all_reduce 20 1", "ring 1"},
                                                     {"choice", ""}};
  for (const auto& [name, value] : bad) EXPECT(refuses(ccore::entry_of, name, value), name, value);
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
      for (const auto& [name, value] : ccore::parse_cache(kIdentity, signed_text(head + text))) {
        const CacheEntry one = ccore::entry_of(name, value);
        EXPECT(
            one.size_class < 64 && one.dtype_class < ccore::kDtypeClassCount && one.us >= 0 && !one.algorithm.empty(),
            text);
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
  // Several jobs end at once; a job that reads meanwhile sees one of their files, whole.
  run_threads(4, [&](int writer) {
    for (int round = 0; round < 25; ++round) {
      const std::vector<CacheEntry> own(kEntries.begin(), kEntries.begin() + writer % 3);
      ccore::write_cache(path, ccore::format_cache(kIdentity, lines_of(own)));
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

void reads_timings_that_were_written() {
  const auto all_reduce = static_cast<uint8_t>(ccore::Kind::all_reduce);
  const auto twoshot = static_cast<int8_t>(ccore::Algorithm::twoshot);
  for (const ccore::Timing& timing :
       {ccore::Timing{all_reduce, twoshot, ccore::Way::ordinary, 0, 65536, 6.25F},
        ccore::Timing{all_reduce, twoshot, ccore::Way::past_caches, 0, 4u << 20, 301.5F}}) {
    const auto [name, value] = line_of(timing);
    const ccore::Timing read = ccore::timing_of(name, value);
    EXPECT(read.same_point(timing) && read.us == timing.us, name, value);
  }
  EXPECT(!refuses(ccore::timing_of, "timing all_reduce twoshot ordinary 65536", "6250"), "the pattern");
  const std::pair<const char*, const char*> bad[] = {{"timing all_reduce twoshot ordinary 65536", "0"},
                                                     {"timing all_reduce twoshot ordinary 65536", "nan"},
                                                     {"timing all_reduce twoshot ordinary 65536", "-1"},
                                                     {"timing all_reduce twoshot ordinary 65536", "20000000000000"},
                                                     {"timing all_reduce twoshot ordinary 4294967296", "6250"},
                                                     {"timing all_reduce guess ordinary 65536", "6250"},
                                                     {"timing guess twoshot ordinary 65536", "6250"},
                                                     {"timing all_reduce twoshot other 65536", "6250"},
                                                     {"timing all_reduce twoshot ordinary 65536", ""},
                                                     {"timing all_reduce twoshot ordinary 65536", "6250 1"},
                                                     {"choice all_reduce twoshot ordinary 65536", "6250"},
                                                     {"", ""}};
  for (const auto& [name, value] : bad) EXPECT(refuses(ccore::timing_of, name, value), name, value);
}

// Two writers of one file keep each other's lines; a reader gets those of its word that it can read.
void lines_of_several_are_kept() {
  char folder[] = "/tmp/ccore-table-XXXXXX";
  EXPECT(mkdtemp(folder) != nullptr && setenv("CCORE_CACHE_DIR", folder, 1) == 0, "");
  ccore::KeptLines choices("choices", kIdentity), times("measured times", kIdentity), nowhere;
  choices.keep(lines_of(kEntries));
  times.keep({{"timing all_reduce twoshot ordinary 65536", "6250"}, {"timing all_reduce guess ordinary 1", "5"}});
  choices.keep({{"choice - all_reduce 20 1", "doubling 5"}});
  nowhere.keep(lines_of(kEntries));
  EXPECT(times.read("timing", ccore::timing_of).size() == 1, "of an algorithm that is unknown");
  EXPECT(times.read("choice", ccore::entry_of).size() == 3 && nowhere.read("choice", ccore::entry_of).empty(), "");
  const auto of_one = times.read("choice 0123456789abcdef", ccore::entry_of);
  EXPECT(of_one.size() == 1 && of_one.front().algorithm == "doubling", "of one model");
  const auto of_none = times.read("choice -", ccore::entry_of);
  EXPECT(of_none.size() == 2 && of_none.front().algorithm == "doubling", "replaced: ", of_none.front().algorithm);
  EXPECT(unsetenv("CCORE_CACHE_DIR") == 0, "");
  std::filesystem::remove_all(folder);
}

std::vector<std::filesystem::path> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

// Two ranks measure before an operation, and leave a file, whatever was in its place.
void measured_times_are_kept() {
  if (ccore::usable_cpus().count() < 2) return;  // on one core there is nothing to measure
  char folder[] = "/tmp/ccore-timings-XXXXXX";
  EXPECT(mkdtemp(folder) != nullptr, "");
  EXPECT(setenv("CCORE_CACHE_DIR", folder, 1) == 0 && setenv("CCORE_MEASURE_CACHE", "1", 1) == 0, "");
  const auto reduce = [] {
    ccore::TimingStore::instance().forget();
    run_ranks(2, layout_named("shm"), [](int, cc_comm* comm) {
      std::vector<float> data(16384, 1);
      EXPECT(cc_all_reduce(data.data(), data.data(), data.size(), CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS, "");
      EXPECT(data.front() == 2 && data.back() == 2, data.front());
    });
  };
  reduce();
  const auto files = files_in(folder);
  EXPECT(files.size() == 1, files.size(), " files");
  const std::string good = ccore::read_cache(files.front());
  EXPECT(contains(good, "timing all_reduce twoshot ordinary 65536 = "), good);
  for (const std::string& bad : {std::string("collective_core table 2\n"), good.substr(0, good.size() / 2),
                                 ccore::format_cache(kIdentity, {}), std::string(5000, 'x')}) {
    ccore::write_cache(files.front(), bad);
    reduce();
    const std::string now = ccore::read_cache(files.front());
    EXPECT(contains(now, "timing all_reduce twoshot ordinary 65536 = ") && files_in(folder).size() == 1, now);
  }
  EXPECT(setenv("CCORE_MEASURE_CACHE", "0", 1) == 0 && unsetenv("CCORE_CACHE_DIR") == 0, "");
  ccore::TimingStore::instance().forget();
  std::filesystem::remove_all(folder);
}

// Four ranks on two nodes measure the two algorithms that make the same sums, and choose alike.
void ranks_of_several_nodes_measure() {
  char folder[] = "/tmp/ccore-nodes-XXXXXX";
  EXPECT(mkdtemp(folder) != nullptr, "");
  EXPECT(setenv("CCORE_CACHE_DIR", folder, 1) == 0 && setenv("CCORE_MEASURE_CACHE", "1", 1) == 0, "");
  ccore::TimingStore::instance().forget();
  std::vector<std::string> taken(4);
  run_ranks(4, layout_named("mixed"), [&](int rank, cc_comm* comm) {
    std::vector<float> data(4096, 1);
    EXPECT(cc_all_reduce(data.data(), data.data(), data.size(), CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS, "");
    EXPECT(data.front() == 4 && data.back() == 4, data.front());
    for (const size_t count : {data.size(), size_t{1} << 20}) {
      cc_description now{};
      now.size = sizeof now;
      EXPECT(cc_describe(comm, CC_OPERATION_ALL_REDUCE, count, CC_FLOAT32, CC_MEMORY_HOST, &now) == CC_SUCCESS, "");
      EXPECT((now.reason == CC_REASON_MEASURED) == (count == data.size()), now.algorithm, " for ", count);
      taken[static_cast<size_t>(rank)] += std::string(now.algorithm) + " ";
    }
  });
  EXPECT(taken[0] == "doubling 2d " || taken[0] == "halving 2d ", taken[0]);
  for (const std::string& one : taken) EXPECT(one == taken[0], one, " is not ", taken[0]);
  const std::string kept = ccore::read_cache(files_in(folder).front());
  for (const char* algorithm : {"doubling", "halving"}) {
    for (const char* bytes : {"2048", "8192", "32768"}) {
      const std::string line = std::string("timing all_reduce ") + algorithm + " ordinary " + bytes + " = ";
      EXPECT(contains(kept, line), line, " is not in ", kept);
    }
  }
  EXPECT(setenv("CCORE_MEASURE_CACHE", "0", 1) == 0 && unsetenv("CCORE_CACHE_DIR") == 0, "");
  ccore::TimingStore::instance().forget();
  std::filesystem::remove_all(folder);
}

// Of two communicators of the same ranks, the second takes what the first has measured since the second's first call.
void nothing_is_measured_twice() {
  if (ccore::usable_cpus().count() < 2) {
    std::printf("not tested: nothing_is_measured_twice needs two CPUs, because ranks that share one measure nothing\n");
    return;
  }
  char folder[] = "/tmp/ccore-twice-XXXXXX";
  EXPECT(mkdtemp(folder) != nullptr, "");
  EXPECT(setenv("CCORE_CACHE_DIR", folder, 1) == 0 && setenv("CCORE_MEASURE_CACHE", "1", 1) == 0, "");
  ccore::TimingStore::instance().forget();
  cc_unique_id ids[2];
  for (cc_unique_id& id : ids) EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, "");
  std::string kept;
  run_threads(2, [&](int rank) {
    cc_comm* first = nullptr;
    cc_comm* second = nullptr;
    EXPECT(cc_comm_init_rank(&first, 2, &ids[0], rank, nullptr) == CC_SUCCESS, "");
    EXPECT(cc_comm_init_rank(&second, 2, &ids[1], rank, nullptr) == CC_SUCCESS, "");
    const auto add = [](size_t count, cc_comm* comm) {
      std::vector<float> data(count, 1);
      EXPECT(cc_all_reduce(data.data(), data.data(), count, CC_FLOAT32, CC_SUM, comm, nullptr) == CC_SUCCESS, "");
      EXPECT(data.front() == 2 && data.back() == 2, data.front());
    };
    add(16384, first);
    add(16384, second);
    add(size_t{1} << 20, first);
    EXPECT(cc_comm_destroy(first) == CC_SUCCESS, "");
    if (rank == 0) kept = ccore::read_cache(files_in(folder).front());
    add(size_t{1} << 20, second);
    EXPECT(cc_comm_destroy(second) == CC_SUCCESS, "");
  });
  EXPECT(contains(kept, "timing all_reduce twoshot ordinary 4194304 = "), kept);
  EXPECT(ccore::read_cache(files_in(folder).front()) == kept, "the second has measured again");
  EXPECT(setenv("CCORE_MEASURE_CACHE", "0", 1) == 0 && unsetenv("CCORE_CACHE_DIR") == 0, "");
  ccore::TimingStore::instance().forget();
  std::filesystem::remove_all(folder);
}

}  // namespace

void tuner_cache() {
  reads_what_was_written();
  tells_identities_apart();
  refuses_damage();
  survives_anything_signed();
  writes_whole_files();
  reads_timings_that_were_written();
  lines_of_several_are_kept();
  measured_times_are_kept();
  ranks_of_several_nodes_measure();
  nothing_is_measured_twice();
}

}  // namespace test
