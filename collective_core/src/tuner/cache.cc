#include "tuner/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "common/env.h"
#include "common/error.h"
#include "common/sha256.h"
#include "common/unique_fd.h"

namespace ccore {
namespace {

constexpr const char* kTitle = "collective_core choices 1";
constexpr size_t kMostEntries = 4096;

std::string hex_sha256(const std::string& text) {
  std::string hex;
  for (const unsigned char byte : sha256(text.data(), text.size())) hex += format("%02x", byte);
  return hex;
}

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

bool is_name(const std::string& text) {
  return !text.empty() && text.size() <= 32 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

// All of the word, or it is not a number.
template <typename Number>
Number number(const std::string& word, Number least, Number most) {
  Number value{};
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || at != end || !(value >= least && value <= most)) {
    throw std::invalid_argument("'" + word.substr(0, 40) + "' is not a number in its range");
  }
  return value;
}

CacheEntry entry_of(const std::string& line) {
  std::istringstream words(line);
  std::string title, size, dtype, us, more;
  CacheEntry entry;
  words >> title >> entry.collective >> size >> dtype >> entry.algorithm >> us;
  if (!words || words >> more || title != "choice" || !is_name(entry.collective) || !is_name(entry.algorithm)) {
    throw std::invalid_argument("a line is not a choice");
  }
  entry.size_class = number<uint8_t>(size, 0, 63);
  entry.dtype_class = number<uint8_t>(dtype, 0, kDtypeClassCount - 1);
  entry.us = static_cast<double>(number<uint64_t>(us, 0, uint64_t{1} << 50)) / 1000;
  return entry;
}

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(CC_ERROR_SYSTEM, format("%s %s: %s", what, path.c_str(), std::strerror(errno)));
}

void make_directories(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    if (mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) fail("cannot make", path.substr(0, at));
  }
}

}  // namespace

bool CacheEntry::same_key(const CacheEntry& other) const {
  return collective == other.collective && size_class == other.size_class && dtype_class == other.dtype_class;
}

std::string CacheIdentity::text() const {
  return "machine " + one_line(machine) + "\nmodel " + one_line(model) + "\nsize " + one_line(size) + "\nscale " +
         one_line(scale) + "\n";
}

std::string CacheIdentity::file_name() const { return hex_sha256(text()).substr(0, 32) + ".txt"; }

std::string format_lines(const std::string& title, const CacheIdentity& identity, const std::string& lines) {
  const std::string text = title + "\n" + identity.text() + lines;
  return text + "sha256 " + hex_sha256(text) + "\n";
}

std::vector<std::string> parse_lines(const std::string& title, const CacheIdentity& identity, const std::string& text,
                                     size_t most_lines) {
  if (text.size() > kMostCacheBytes) throw std::invalid_argument("it is too large");
  const std::string head = title + "\n" + identity.text();
  if (text.compare(0, title.size(), title) != 0) throw std::invalid_argument("it is of another version");
  const size_t sum = text.rfind("sha256 ");
  if (sum == std::string::npos || text.substr(sum) != "sha256 " + hex_sha256(text.substr(0, sum)) + "\n") {
    throw std::invalid_argument("its checksum is wrong");
  }
  if (text.compare(0, head.size(), head) != 0) throw std::invalid_argument("it is of another machine or model");
  std::vector<std::string> lines;
  for (size_t begin = head.size(); begin < sum;) {
    const size_t end = text.find('\n', begin);
    if (lines.size() == most_lines) throw std::invalid_argument("it has too many lines");
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string format_cache(const CacheIdentity& identity, const std::vector<CacheEntry>& entries) {
  std::string lines;
  for (const CacheEntry& one : entries) {
    lines += format("choice %s %d %d %s %lld\n", one.collective.c_str(), one.size_class, one.dtype_class,
                    one.algorithm.c_str(), static_cast<long long>(one.us * 1000));
  }
  return format_lines(kTitle, identity, lines);
}

std::vector<CacheEntry> parse_cache(const CacheIdentity& identity, const std::string& text) {
  std::vector<CacheEntry> entries;
  for (const std::string& line : parse_lines(kTitle, identity, text, kMostEntries)) entries.push_back(entry_of(line));
  return entries;
}

std::string cache_directory() {
  const std::string own = env_text("CCORE_CACHE_DIR");
  if (!own.empty()) return own;
  // The base directory specification wants relative paths ignored.
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base && *base == '/') return std::string(base) + "/collective_core";
  const char* home = std::getenv("HOME");
  return home && *home == '/' ? std::string(home) + "/.cache/collective_core" : "";
}

std::string read_cache(const std::string& path) {
  // Not blocking: what lies there may be a pipe.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return "";
    fail("cannot read", path);
  }
  std::string text;
  char part[4096];
  while (text.size() <= kMostCacheBytes) {
    const ssize_t n = read(fd.get(), part, sizeof part);
    if (n < 0) fail("cannot read", path);
    if (n == 0) break;
    text.append(part, static_cast<size_t>(n));
  }
  return text;
}

void write_cache(const std::string& path, const std::string& text) {
  make_directories(path);
  std::string temporary = path + ".XXXXXX";
  const UniqueFd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (fd.get() < 0) fail("cannot make", temporary);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<size_t>(n);
  }
  if (done < text.size() || fsync(fd.get()) != 0 || rename(temporary.c_str(), path.c_str()) != 0) {
    const int why = errno;
    unlink(temporary.c_str());
    errno = why;
    fail("cannot write", path);
  }
}

}  // namespace ccore
