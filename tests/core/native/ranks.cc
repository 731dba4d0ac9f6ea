#include "ranks.h"

#include <exception>
#include <thread>
#include <vector>

#include "expect.h"

namespace test {

Layout layout_named(const std::string& name) {
  Layout layout;
  if (name == "shm") {
    layout.transport = CC_TRANSPORT_SHM;
  } else if (name == "tcp") {
    layout.transport = CC_TRANSPORT_TCP;
  } else if (name == "mixed") {
    layout.node_id = [](int rank) { return rank < 2 ? "a" : "b"; };
  } else if (name == "cyclic") {
    layout.node_id = [](int rank) { return rank % 2 == 0 ? "a" : "b"; };
  } else {
    throw Failed("no layout is called '" + name + "'; there are shm, tcp, mixed and cyclic");
  }
  return layout;
}

cc_comm* join(const cc_unique_id& id, int rank, int nranks, const Layout& layout) {
  const std::string node = layout.node_id ? layout.node_id(rank) : "";
  cc_config config{};
  config.size = sizeof config;
  config.timeout_ms = layout.timeout_ms;
  config.init_timeout_ms = 20000;
  config.transport = layout.transport;
  config.node_id = node.c_str();
  cc_comm* comm = nullptr;
  const cc_result result = cc_comm_init_rank(&comm, nranks, &id, rank, &config);
  EXPECT(result == CC_SUCCESS, "rank ", rank, ": ", cc_last_error(nullptr));
  return comm;
}

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (...) {
        errors[static_cast<size_t>(i)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void run_ranks(int nranks, const Layout& layout, const std::function<void(int, cc_comm*)>& body) {
  cc_unique_id id;
  EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
  run_threads(nranks, [&](int rank) {
    cc_comm* comm = join(id, rank, nranks, layout);
    try {
      body(rank, comm);
    } catch (...) {
      cc_comm_destroy(comm);
      throw;
    }
    EXPECT(cc_comm_destroy(comm) == CC_SUCCESS, cc_last_error(nullptr));
  });
}

std::string last_error(cc_comm* comm) { return cc_last_error(comm); }

void Meeting::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  const int round = round_;
  if (++waiting_ == count_) {
    waiting_ = 0;
    ++round_;
    changed_.notify_all();
    return;
  }
  changed_.wait(lock, [&] { return round_ != round; });
}

}  // namespace test
