#include "tuner/identity.h"

#include <dirent.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>

#include "common/error.h"

namespace ccore {
namespace {

// Only of the first processor: the others are the same, and with hundreds of them the whole takes long.
std::string first_of_cpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  std::string text;
  for (std::string line; std::getline(file, line) && !line.empty();) text += line + "\n";
  return text;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// The value of the first line "key : value".
std::string value_of(const std::string& cpuinfo, const std::string& key) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.compare(0, key.size(), key) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

// Megabits per second of those that say so, sorted: names differ between equal machines. Only of devices; the
// virtual ones come and go.
std::vector<long> interface_speeds() {
  std::vector<long> speeds;
  const std::string root = "/sys/class/net";
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(root.c_str()), closedir);
  if (!folder) return speeds;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string path = root + "/" + entry->d_name;
    if (!std::ifstream(path + "/device/uevent")) continue;
    long speed = 0;
    std::istringstream(text_of(path + "/speed")) >> speed;
    if (speed > 0) speeds.push_back(speed);
  }
  std::sort(speeds.begin(), speeds.end());
  return speeds;
}

}  // namespace

std::string processor_of(const std::string& cpuinfo) {
  const std::string model = value_of(cpuinfo, "model name");
  if (!model.empty()) return model;
  // Arm names its processors by numbers.
  const std::string part = value_of(cpuinfo, "CPU part");
  return part.empty() ? "unknown processor" : value_of(cpuinfo, "CPU implementer") + " " + part;
}

bool is_virtual(const std::string& cpuinfo) {
  return (" " + value_of(cpuinfo, "flags") + " ").find(" hypervisor ") != std::string::npos;
}

std::string machine_text(int cores) {
  const std::string cpuinfo = first_of_cpuinfo();
  std::string text = format("%s, %d cores, %s, interfaces", processor_of(cpuinfo).c_str(), cores,
                            is_virtual(cpuinfo) ? "virtual" : "bare");
  const std::vector<long> speeds = interface_speeds();
  if (speeds.empty()) text += " of unknown speed";
  for (const long speed : speeds) text += format(" %ld", speed);
  utsname system{};
  return text + ", kernel " + (uname(&system) == 0 ? system.release : "of unknown version");
}

std::string scale_text(const std::vector<Place>& places, const std::vector<std::string>& transports) {
  std::map<int, int> sizes;
  for (const Place& place : places) ++sizes[place.node];
  std::string text = format("%zu ranks on %zu nodes:", places.size(), sizes.size());
  for (const auto& [node, size] : sizes) text += format(" %d", size);
  text += ",";
  for (const std::string& transport : transports) text += " " + transport;
  return text;
}

}  // namespace ccore
