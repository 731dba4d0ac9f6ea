// What this process holds, as the kernel counts it.
#pragma once

#include <dirent.h>

#include "expect.h"

namespace test {

// Counts the entries of a directory of /proc/self, "." and ".." among them.
inline int entries(const char* folder) {
  DIR* dir = opendir(folder);
  EXPECT(dir != nullptr, folder);
  int count = 0;
  while (readdir(dir)) ++count;
  closedir(dir);
  return count;
}

}  // namespace test
