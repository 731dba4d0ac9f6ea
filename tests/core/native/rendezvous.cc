// How ranks find each other, and what strangers on the port can do: nothing.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "cases.h"
#include "common/error.h"
#include "common/unique_fd.h"
#include "expect.h"
#include "ranks.h"
#include "rendezvous/client.h"
#include "rendezvous/unique_id.h"

namespace test {
namespace {

cc_unique_id new_id() {
  cc_unique_id id;
  EXPECT(cc_get_unique_id(&id) == CC_SUCCESS, cc_last_error(nullptr));
  return id;
}

cc_config quick(int64_t init_timeout_ms) {
  cc_config config{};
  config.size = sizeof config;
  config.init_timeout_ms = init_timeout_ms;
  return config;
}

cc_result try_join(const cc_unique_id& id, int rank, int nranks, int64_t timeout_ms, std::string* error) {
  const cc_config config = quick(timeout_ms);
  cc_comm* comm = nullptr;
  const cc_result result = cc_comm_init_rank(&comm, nranks, &id, rank, &config);
  *error = cc_last_error(nullptr);
  if (result == CC_SUCCESS) EXPECT(cc_comm_destroy(comm) == CC_SUCCESS, "destroy");
  if (result != CC_SUCCESS) EXPECT(comm == nullptr, "a failed init must leave null");
  return result;
}

ccore::UniqueFd stranger(const cc_unique_id& id) {
  return ccore::connect_to(ccore::decode(id).address, ccore::Deadline::in_ms(2000));
}

void garbage_does_no_harm() {
  const cc_unique_id id = new_id();
  std::vector<ccore::UniqueFd> strangers;
  const std::string noise = "GET / HTTP/1.1\r\nHost: nobody\r\n\r\n" + std::string(200, 'x');
  for (int i = 0; i < 8; ++i) {
    strangers.push_back(stranger(id));
    if (i % 2 == 0) EXPECT(send(strangers.back().get(), noise.data(), noise.size(), MSG_NOSIGNAL) > 0, "send");
  }
  run_threads(3, [&](int rank) {
    std::string error;
    EXPECT(try_join(id, rank, 3, 15000, &error) == CC_SUCCESS, error);
  });
}

void a_wrong_secret_is_refused() {
  const cc_unique_id id = new_id();
  ccore::UniqueId forged = ccore::decode(id);
  forged.secret[5] = static_cast<unsigned char>(forged.secret[5] ^ 1);
  const cc_unique_id forged_id = ccore::encode(forged);
  std::string error;
  EXPECT(try_join(forged_id, 1, 2, 15000, &error) == CC_ERROR_REMOTE, error);
  EXPECT(contains(error, "secret"), error);
  run_threads(2, [&](int rank) {
    std::string text;
    EXPECT(try_join(id, rank, 2, 15000, &text) == CC_SUCCESS, text);
  });
}

// By the least patient one's time, be it the first to come or not; a rank that lost patience before the root did would
// only know that it got no answer. The first is there before the second comes, whose time is long enough to come in.
void missing_ranks_are_named() {
  for (const bool first_is_hasty : {false, true}) {
    const cc_unique_id id = new_id();
    ccore::RendezvousClient first(ccore::decode(id), 0, 4, first_is_hasty ? 5000 : 60000);
    std::string error;
    EXPECT(try_join(id, 2, 4, first_is_hasty ? 60000 : 1500, &error) == CC_ERROR_TIMEOUT, error);
    EXPECT(contains(error, "rank 1, 3 of 4"), error);
    try {
      first.all_gather(0);
      fail(__FILE__, __LINE__, "an answer, though two ranks are missing");
    } catch (const ccore::Error& told) {
      EXPECT(told.code() == CC_ERROR_TIMEOUT && contains(told.what(), "rank 1, 3 of 4"), told.what());
    }
  }
}

// The error names the missing rank, and no other rank waits until its own timeout.
void a_rank_that_is_gone_is_named() {
  const cc_unique_id id = new_id();
  run_threads(3, [&](int rank) {
    if (rank == 1) {
      ccore::RendezvousClient(ccore::decode(id), 1, 3, 60000);
      return;
    }
    std::string error;
    EXPECT(try_join(id, rank, 3, 60000, &error) == CC_ERROR_REMOTE, error);
    EXPECT(contains(error, "rank 1 (from ") && contains(error, ") died during initialisation"), error);
  });
}

// It is not news to the rank that has just heard of it.
void news_come_once() {
  const cc_unique_id id = new_id();
  run_threads(2, [&](int rank) {
    ccore::RendezvousClient client(ccore::decode(id), rank, 2, 60000);
    EXPECT(client.all_gather(rank) == (std::vector<int>{0, 1}), "a round");
    if (rank == 1) return client.give_up(ccore::Error(CC_ERROR_SYSTEM, "the disk is full"));
    for (int i = 0; i < 2; ++i) {
      try {
        client.await_news(60000);
        EXPECT(i == 1, "no news");
      } catch (const ccore::Error& error) {
        EXPECT(i == 0 && error.code() == CC_ERROR_SYSTEM, error.what());
        EXPECT(contains(error.what(), "rank 1: the disk is full"), error.what());
      }
    }
  });
}

void a_rank_taken_twice_is_named() {
  const cc_unique_id id = new_id();
  run_threads(2, [&](int) {
    std::string error;
    EXPECT(try_join(id, 0, 3, 10000, &error) == CC_ERROR_INVALID_USAGE, error);
    EXPECT(contains(error, "two processes say they are rank 0"), error);
  });
}

void different_sizes_are_named() {
  const cc_unique_id id = new_id();
  run_threads(2, [&](int rank) {
    std::string error;
    EXPECT(try_join(id, rank, 2 + rank, 10000, &error) == CC_ERROR_INVALID_ARGUMENT, error);
    EXPECT(contains(error, "ranks, the first to arrive said"), error);
  });
}

// What ranks tell each other has another size in another version.
void different_versions_are_named() {
  const cc_unique_id id = new_id();
  run_threads(2, [&](int rank) {
    ccore::RendezvousClient client(ccore::decode(id), rank, 2, 60000);
    try {
      rank == 0 ? static_cast<void>(client.all_gather(1)) : static_cast<void>(client.all_gather(1.0));
      fail(__FILE__, __LINE__, "a round of two versions");
    } catch (const ccore::Error& error) {
      EXPECT(error.code() == CC_ERROR_INVALID_USAGE, error.what());
      EXPECT(contains(error.what(), "different builds of collective_core; install one"), error.what());
    }
  });
}

void nobody_listens() {
  cc_unique_id id;
  EXPECT(cc_unique_id_from_address(&id, "127.0.0.1", 1, "secret", 0) == CC_SUCCESS, cc_last_error(nullptr));
  std::string error;
  EXPECT(try_join(id, 1, 2, 300, &error) == CC_ERROR_TIMEOUT, error);
  EXPECT(contains(error, "127.0.0.1:1"), error);
}

// Reserves a port while it lives: the kernel gives it to no other socket. A root may listen on it by SO_REUSEADDR.
class OwnPort {
 public:
  OwnPort() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    EXPECT(setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0, "SO_REUSEADDR");
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0, "bind");
  }
  int number() const { return ccore::local_address(fd_.get()).port; }

 private:
  ccore::UniqueFd fd_;
};

void an_address_makes_the_same_id() {
  const OwnPort own;
  const int port = own.number();
  run_threads(2, [&](int rank) {
    cc_unique_id id;
    const char* secret = "job 17";
    EXPECT(cc_unique_id_from_address(&id, "127.0.0.1", port, secret, rank == 0) == CC_SUCCESS, cc_last_error(nullptr));
    if (rank == 0) {
      cc_unique_id second;
      EXPECT(cc_unique_id_from_address(&second, "127.0.0.1", port, secret, 1) == CC_ERROR_SYSTEM, "a second root");
      EXPECT(contains(cc_last_error(nullptr), "a second rank 0"), cc_last_error(nullptr));
    }
    std::string error;
    EXPECT(try_join(id, rank, 2, 15000, &error) == CC_SUCCESS, error);
  });
}

// A job that ends its communicator and makes the next one meets at the same address. Ranks are not together then: one
// may be back before another has left, and find the rendezvous that is just ending.
void the_same_address_serves_again_and_again() {
  const OwnPort own;
  const int port = own.number();
  run_threads(3, [&](int rank) {
    for (int cycle = 0; cycle < 100; ++cycle) {
      cc_unique_id id;
      EXPECT(cc_unique_id_from_address(&id, "127.0.0.1", port, "job 18", rank == 0) == CC_SUCCESS, cycle, ": ",
             cc_last_error(nullptr));
      std::string error;
      EXPECT(try_join(id, rank, 3, 30000, &error) == CC_SUCCESS, cycle, ": rank ", rank, ": ", error);
    }
  });
}

void bad_arguments_are_refused() {
  cc_comm* comm = nullptr;
  cc_unique_id nonsense{};
  EXPECT(cc_comm_init_rank(&comm, 2, &nonsense, 0, nullptr) == CC_ERROR_INVALID_ARGUMENT, "a zero id");
  const cc_unique_id id = new_id();
  EXPECT(cc_comm_init_rank(&comm, 2, &id, 2, nullptr) == CC_ERROR_INVALID_ARGUMENT, "rank too large");
  EXPECT(cc_comm_init_rank(&comm, 0, &id, 0, nullptr) == CC_ERROR_INVALID_ARGUMENT, "no ranks");
  EXPECT(cc_comm_init_rank(nullptr, 1, &id, 0, nullptr) == CC_ERROR_INVALID_ARGUMENT, "nowhere to store");
  cc_config config{};
  EXPECT(cc_comm_init_rank(&comm, 1, &id, 0, &config) == CC_ERROR_INVALID_ARGUMENT, "config.size not set");
  run_threads(1, [&](int) {
    std::string error;
    EXPECT(try_join(id, 0, 1, 5000, &error) == CC_SUCCESS, error);
  });
}

}  // namespace

void rendezvous() {
  bad_arguments_are_refused();
  garbage_does_no_harm();
  a_wrong_secret_is_refused();
  missing_ranks_are_named();
  a_rank_that_is_gone_is_named();
  news_come_once();
  a_rank_taken_twice_is_named();
  different_sizes_are_named();
  different_versions_are_named();
  nobody_listens();
  an_address_makes_the_same_id();
  the_same_address_serves_again_and_again();
  strangers();
}

}  // namespace test
