#include "engine/not_inherited.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "common/error.h"

namespace ccore {
namespace {

struct Registry {
  std::mutex mutex;  // held over each fork, so that the child finds the list whole
  std::vector<const NotInherited*> all;
};

void hold();
void release();
void replace_all();

// Never destroyed: a fork may come while the process ends.
Registry& registry() {
  static auto* const one = [] {
    auto* made = new Registry;
    const int error = pthread_atfork(hold, release, replace_all);
    if (error != 0) throw Error(CC_ERROR_SYSTEM, "pthread_atfork: " + errno_text(error));
    return made;
  }();
  return *one;
}

void hold() { registry().mutex.lock(); }
void release() { registry().mutex.unlock(); }

void replace_all() {
  for (const NotInherited* one : registry().all) one->replace();
  // What the child does with these numbers is its own business, and no fork of its own may undo it.
  registry().all.clear();
  registry().mutex.unlock();
}

}  // namespace

NotInherited::NotInherited(int instead, std::vector<int> fds) : instead_(instead), fds_(std::move(fds)) {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().all.push_back(this);
}

NotInherited::~NotInherited() {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  auto& all = registry().all;
  all.erase(std::remove(all.begin(), all.end(), this), all.end());
}

void NotInherited::replace() const {
  for (const int fd : fds_) dup3(instead_, fd, O_CLOEXEC);
}

}  // namespace ccore
