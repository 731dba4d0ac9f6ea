// A tree of directories and links as in /sys, for the time of a scope.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "expect.h"

namespace test {

class Sysfs {
 public:
  Sysfs() {
    char pattern[] = "/tmp/ccore-sysfs-XXXXXX";
    EXPECT(mkdtemp(pattern) != nullptr, "mkdtemp");
    root_ = pattern;
  }
  ~Sysfs() { std::filesystem::remove_all(root_); }

  // path: below devices, from the host bridge to the device.
  void add(const std::string& path, int numa_node, const std::string& kind = "", const std::string& name = "") {
    const std::filesystem::path device = root_ + "/devices/" + path;
    std::filesystem::create_directories(device);
    std::ofstream(device / "numa_node") << numa_node << "\n";
    std::filesystem::create_directories(root_ + "/bus/pci/devices");
    const std::string address = device.filename();
    if (address.size() == 12) std::filesystem::create_symlink(device, root_ + "/bus/pci/devices/" + address);
    if (kind.empty()) return;
    std::filesystem::create_directories(root_ + "/class/" + kind + "/" + name);
    std::filesystem::create_symlink(device, root_ + "/class/" + kind + "/" + name + "/device");
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace test
