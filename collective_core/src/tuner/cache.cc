#include "tuner/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "common/env.h"
#include "common/error.h"
#include "common/log.h"
#include "common/sha256.h"
#include "common/unique_fd.h"

namespace ccore {
namespace {

constexpr const char* kTitle = "collective_core table 2";
constexpr size_t kMostEntries = 4096;
const std::string kEquals = " = ";

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

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(CC_ERROR_SYSTEM, format("%s %s: %s", what, path.c_str(), std::strerror(errno)));
}

void make_directories(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    if (mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) fail("cannot make", path.substr(0, at));
  }
}

}  // namespace

std::string CacheIdentity::text() const {
  return "machine " + one_line(machine) + "\nlibrary " + one_line(library) + "\nscale " + one_line(scale) + "\n";
}

std::string CacheIdentity::file_name() const { return hex_sha256(text()).substr(0, 32) + ".txt"; }

std::string format_lines(const std::string& title, const std::string& head, const std::string& lines) {
  const std::string text = title + "\n" + head + lines;
  return text + "sha256 " + hex_sha256(text) + "\n";
}

std::vector<std::string> parse_lines(const std::string& title, const std::string& head, const std::string& text,
                                     size_t most_lines) {
  if (text.size() > kMostCacheBytes) throw std::invalid_argument("it is too large");
  const std::string begin_of_it = title + "\n" + head;
  if (text.compare(0, title.size(), title) != 0) throw std::invalid_argument("it is of another version");
  const size_t sum = text.rfind("sha256 ");
  if (sum == std::string::npos || text.substr(sum) != "sha256 " + hex_sha256(text.substr(0, sum)) + "\n") {
    throw std::invalid_argument("its checksum is wrong");
  }
  if (text.compare(0, begin_of_it.size(), begin_of_it) != 0) {
    throw std::invalid_argument("it is for another machine or job");
  }
  std::vector<std::string> lines;
  for (size_t begin = begin_of_it.size(); begin < sum;) {
    const size_t end = text.find('\n', begin);
    if (lines.size() == most_lines) throw std::invalid_argument("it has too many lines");
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

uint64_t parse_number(const std::string& word, uint64_t most) {
  uint64_t value = 0;
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || at != end || value > most) {
    throw std::invalid_argument("'" + word.substr(0, 40) + "' is not a number in its range");
  }
  return value;
}

std::string format_cache(const CacheIdentity& identity, const CacheLines& lines) {
  std::string text;
  for (const auto& [name, value] : lines) text += name + kEquals + value + "\n";
  return format_lines(kTitle, identity.text(), text);
}

CacheLines parse_cache(const CacheIdentity& identity, const std::string& text) {
  CacheLines all;
  for (const std::string& line : parse_lines(kTitle, identity.text(), text, kMostEntries)) {
    const size_t equals = line.find(kEquals);
    if (equals == std::string::npos) throw std::invalid_argument("a line has no value");
    all[line.substr(0, equals)] = line.substr(equals + kEquals.size());
  }
  return all;
}

std::pair<std::string, std::string> line_of(const CacheEntry& choice) {
  return {format("choice %s %s %d %d", choice.model.c_str(), choice.collective.c_str(), choice.size_class,
                 choice.dtype_class),
          format("%s %lld", choice.algorithm.c_str(), static_cast<long long>(choice.us * 1000))};
}

CacheEntry entry_of(const std::string& name, const std::string& value) {
  std::istringstream words(name + " " + value);
  std::string title, size, dtype, us, more;
  CacheEntry entry;
  words >> title >> entry.model >> entry.collective >> size >> dtype >> entry.algorithm >> us;
  if (!words || words >> more || title != "choice" || !is_name(entry.collective) || !is_name(entry.algorithm)) {
    throw std::invalid_argument("a line is not a choice");
  }
  entry.size_class = static_cast<uint8_t>(parse_number(size, 63));
  entry.dtype_class = static_cast<uint8_t>(parse_number(dtype, kDtypeClassCount - 1));
  entry.us = static_cast<double>(parse_number(us, uint64_t{1} << 50)) / 1000;
  return entry;
}

std::string model_key(const std::string& model, const std::string& size) {
  return model.empty() && size.empty() ? "-" : hex_sha256(one_line(model) + "\n" + size).substr(0, 16);
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

KeptLines::KeptLines(std::string what, const CacheIdentity& identity, const std::string& prefix)
    : what_(std::move(what)), identity_(identity) {
  const std::string directory = cache_directory();
  if (!directory.empty()) {
    path_ = directory + "/" + prefix + identity.file_name();
  } else {
    log(LogLevel::warn, "%s are not kept: neither CCORE_CACHE_DIR, XDG_CACHE_HOME nor HOME is set", what_.c_str());
  }
}

CacheLines KeptLines::lines(bool warns) const {
  const LogLevel level = warns ? LogLevel::warn : LogLevel::info;
  try {
    const std::string text = path_.empty() ? "" : read_cache(path_);
    return text.empty() ? CacheLines() : parse_cache(identity_, text);
  } catch (const std::invalid_argument& error) {
    log(level, "%s is ignored and will be replaced: %s", path_.c_str(), error.what());
  } catch (const Error& error) {
    log(level, "%s are not read: %s", what_.c_str(), error.what());
  }
  return {};
}

void KeptLines::keep(CacheLines own) {
  if (path_.empty()) return;
  for (const auto& [name, value] : lines(false)) {
    if (own.size() < kMostEntries) own.emplace(name, value);  // another job may have put others there
  }
  try {
    write_cache(path_, format_cache(identity_, own));
    log(LogLevel::info, "%s are kept in %s", what_.c_str(), path_.c_str());
  } catch (const Error& error) {
    log(LogLevel::warn, "%s are not kept: %s", what_.c_str(), error.what());
    path_.clear();
  }
}

}  // namespace ccore
