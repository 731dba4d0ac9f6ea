// N ranks as N threads of this process.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "collective_core/collective_core.h"

namespace test {

struct Layout {
  cc_transport transport = CC_TRANSPORT_AUTO;
  std::function<std::string(int)> node_id;  // by rank; empty: all on one node
  int64_t timeout_ms = 30000;
};
// shm, tcp, mixed (ranks 0,1 | 2,3 on two nodes), cyclic (0,2 | 1,3). Throws Failed for any other name.
Layout layout_named(const std::string& name);

cc_comm* join(const cc_unique_id& id, int rank, int nranks, const Layout& layout);

// Runs body on every rank and destroys the communicators; throws the first failure.
void run_ranks(int nranks, const Layout& layout, const std::function<void(int, cc_comm*)>& body);
// The same for any function of a rank.
void run_threads(int count, const std::function<void(int)>& body);

std::string last_error(cc_comm* comm);

// A meeting point that is not the library's own.
class Meeting {
 public:
  explicit Meeting(int count) : count_(count) {}
  void wait();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_;
  int waiting_ = 0;
  int round_ = 0;
};

}  // namespace test
