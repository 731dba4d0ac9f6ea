#include "report.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "collective_core/collective_core.h"
#include "counters.h"
#include "nccl_abi.h"

namespace ccore_nccl {
namespace {

struct Entry {
  int ranks, rank;
  std::string path, why;
};

// A program may make thousands; the first ones show how it runs.
constexpr size_t kMostEntries = 32;

// Choices of all communicators; each is about 150 bytes of the line.
constexpr size_t kMostChoices = 256;

std::mutex mutex;
size_t attached = 0;
size_t alone = 0;
// A child that a rank forks has the rank's counts.
pid_t owner = 0;

// Never destroyed: the report is written after this library's own objects are.
std::vector<Entry>& entries() {
  static auto* const all = new std::vector<Entry>;
  return *all;
}

std::vector<std::string>& choices() {
  static auto* const all = new std::vector<std::string>;
  return *all;
}

std::string& without_tuner() {
  static auto* const why = new std::string;
  return *why;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string text_of(const Entry& entry) {
  return "{\"ranks\":" + std::to_string(entry.ranks) + ",\"rank\":" + std::to_string(entry.rank) +
         ",\"path\":" + (entry.path.empty() ? "null" : quoted(entry.path)) +
         ",\"why\":" + (entry.why.empty() ? "null" : quoted(entry.why)) + "}";
}

std::string text_of(Function function) {
  const Totals totals = totals_of(function);
  const auto field = [](const char* name, uint64_t value) {
    return "\"" + std::string(name) + "\":" + std::to_string(value);
  };
  return quoted(name_of(function)) + ":{" + field("taken", totals.taken) + "," +
         field("taken_bytes", totals.taken_bytes) + "," + field("passed", totals.passed) + "," +
         field("passed_bytes", totals.passed_bytes) + "}";
}

bool anything_to_report() {
  for (size_t i = 0; i < kFunctions; i++) {
    const Totals totals = totals_of(static_cast<Function>(i));
    if (totals.taken + totals.passed > 0) return true;
  }
  const std::lock_guard<std::mutex> lock(mutex);
  return attached + alone > 0;
}

// "fd:3", or a file that the ranks of a node may share: each adds its line in one write.
void write_report(const char* place, const std::string& line) {
  const bool is_fd = std::strncmp(place, "fd:", 3) == 0;
  const int fd = is_fd ? std::atoi(place + 3) : open(place, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0 || write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    std::fprintf(stderr, "collective_core: CCORE_NCCL_REPORT=%s cannot be written: %s\n", place, std::strerror(errno));
  }
  if (!is_fd && fd >= 0) close(fd);
}

__attribute__((destructor)) void report_at_exit() {
  const char* place = std::getenv("CCORE_NCCL_REPORT");
  if (place == nullptr || *place == '\0' || !anything_to_report()) return;
  if (owner == 0 || owner == getpid()) write_report(place, report() + "\n");
}

}  // namespace

void report_communicator(int ranks, int rank, const std::string& path, const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex);
  owner = getpid();
  ++(why.empty() ? attached : alone);
  if (entries().size() < kMostEntries) entries().push_back(Entry{ranks, rank, path, why});
}

void report_choice(const cc_cuda_choice& choice) {
  std::array<char, 64> times{};
  // Whole hundredths, so that no language of the program writes a comma.
  const auto hundredths = [](double us) { return static_cast<long long>(us * 100 + 0.5); };
  std::snprintf(times.data(), times.size(), "%lld.%02lld,\"first_us\":%lld.%02lld", hundredths(choice.us) / 100,
                hundredths(choice.us) % 100, hundredths(choice.first_us) / 100, hundredths(choice.first_us) % 100);
  const std::string text = "{\"collective\":" + quoted(choice.collective) + ",\"types\":" + quoted(choice.types) +
                           ",\"size_class\":" + std::to_string(choice.size_class) + ",\"by\":" + quoted(choice.by) +
                           ",\"us\":" + times.data() + ",\"kept\":" + (choice.kept != 0 ? "true" : "false") + "}";
  const std::lock_guard<std::mutex> lock(mutex);
  if (choices().size() < kMostChoices) choices().push_back(text);
}

void report_without_tuner(const std::string& why) {
  const std::lock_guard<std::mutex> lock(mutex);
  without_tuner() = why;
}

std::string report() {
  std::string functions, communicators, chosen;
  for (size_t i = 0; i < kFunctions; i++) functions += (i ? "," : "") + text_of(static_cast<Function>(i));
  const std::lock_guard<std::mutex> lock(mutex);
  for (const Entry& entry : entries()) communicators += (communicators.empty() ? "" : ",") + text_of(entry);
  for (const std::string& choice : choices()) chosen += (chosen.empty() ? "" : ",") + choice;
  return "{\"schema\":\"collective_core.nccl/1\",\"pid\":" + std::to_string(getpid()) +
         ",\"communicators_taken\":" + std::to_string(attached) + ",\"communicators_passed\":" + std::to_string(alone) +
         ",\"communicators\":[" + communicators + "],\"functions\":{" + functions + "},\"choices\":[" + chosen +
         "],\"without_tuner\":" + (without_tuner().empty() ? "null" : quoted(without_tuner())) + "}";
}

}  // namespace ccore_nccl

// Writes the report as text; *needed: the bytes of all of it with its zero byte. text may be NULL if size is 0.
extern "C" __attribute__((visibility("default"))) cc_result cc_nccl_report(char* text, size_t size, size_t* needed) {
  if (needed == nullptr || (text == nullptr && size > 0)) return CC_ERROR_INVALID_ARGUMENT;
  const std::string line = ccore_nccl::report();
  *needed = line.size() + 1;
  if (size > 0) std::snprintf(text, size, "%s", line.c_str());
  return CC_SUCCESS;
}
