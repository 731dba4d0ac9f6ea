// Point-to-point: what arrives, what cannot deadlock, what is counted, and how it fails.
#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "cases.h"
#include "collectives/links/transfers.h"
#include "common/unique_fd.h"
#include "expect.h"
#include "oracle.h"
#include "ranks.h"

namespace test {
namespace {

// More than any link holds, so that a send must wait for its receiver.
constexpr size_t kLarge = (size_t{12} << 20) + 5;

unsigned seed(int from, int to) { return static_cast<unsigned>(100 + 10 * from + to); }

void in_a_circle(const std::string& layout, int nranks) {
  run_ranks(nranks, layout_named(layout), [&](int rank, cc_comm* comm) {
    const int next = (rank + 1) % nranks;
    const int before = (rank + nranks - 1) % nranks;
    for (const cc_dtype dtype : kDtypes) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{1009}, size_t{300001}}) {
        const Data out = random_input(dtype, count, rank, seed(rank, next));
        Data in(out.size(), 0xa5);
        const auto send = [&] {
          EXPECT(cc_send(out.data(), count, dtype, next, comm, nullptr) == CC_SUCCESS, last_error(comm));
        };
        if (rank > 0) send();
        EXPECT(cc_recv(in.data(), count, dtype, before, comm, nullptr) == CC_SUCCESS, last_error(comm));
        if (rank == 0) send();
        EXPECT(in == random_input(dtype, count, before, seed(before, rank)), "rank ", rank, " count ", count);
      }
    }
  });
}

// All ranks put all their sends first: as blocking calls this would wait for ever.
void everyone_to_everyone(const std::string& layout, int nranks) {
  run_ranks(nranks, layout_named(layout), [&](int rank, cc_comm* comm) {
    std::vector<Data> out;
    std::vector<Data> in;
    const auto size = [](int from, int to) { return from == 0 && to == 1 ? kLarge : size_t{700001}; };
    for (int peer = 0; peer < nranks; ++peer) {
      out.push_back(random_input(CC_UINT8, size(rank, peer), rank, seed(rank, peer)));
      in.emplace_back(size(peer, rank), static_cast<unsigned char>(0xa5));
    }
    std::vector<int> marks(static_cast<size_t>(2 * nranks), -1);
    EXPECT(cc_group_start(comm) == CC_SUCCESS, last_error(comm));
    for (int peer = 0; peer < nranks; ++peer) {
      const auto p = static_cast<size_t>(peer);
      EXPECT(cc_send(out[p].data(), out[p].size(), CC_UINT8, peer, comm, nullptr) == CC_SUCCESS, "send");
      EXPECT(cc_send(&rank, 1, CC_INT32, peer, comm, nullptr) == CC_SUCCESS, "send");
      EXPECT(cc_send(&peer, 0, CC_INT32, peer, comm, nullptr) == CC_SUCCESS, "send nothing");
    }
    for (int peer = nranks - 1; peer >= 0; --peer) {
      const auto p = static_cast<size_t>(peer);
      EXPECT(cc_recv(in[p].data(), in[p].size(), CC_UINT8, peer, comm, nullptr) == CC_SUCCESS, "recv");
      EXPECT(cc_recv(&marks[p], 1, CC_INT32, peer, comm, nullptr) == CC_SUCCESS, "recv");
      EXPECT(cc_recv(nullptr, 0, CC_INT32, peer, comm, nullptr) == CC_SUCCESS, "recv nothing");
    }
    EXPECT(cc_group_end(comm) == CC_SUCCESS, last_error(comm));
    for (int peer = 0; peer < nranks; ++peer) {
      const auto p = static_cast<size_t>(peer);
      EXPECT(in[p] == random_input(CC_UINT8, size(peer, rank), peer, seed(peer, rank)), "from ", peer);
      EXPECT(marks[p] == peer, "mark ", marks[p]);
    }
    int sum = 1;
    EXPECT(cc_all_reduce(&sum, &sum, 1, CC_INT32, CC_SUM, comm, nullptr) == CC_SUCCESS, last_error(comm));
    EXPECT(sum == nranks, sum);
    cc_peer_info info{};
    info.size = sizeof info;
    EXPECT(cc_comm_peer_info(comm, rank == 0 ? 1 : rank, &info) == CC_SUCCESS, "info");
    if (rank == 0) EXPECT(info.payload_bytes_sent >= kLarge + 4, info.payload_bytes_sent);
    if (rank != 0) EXPECT(info.payload_bytes_sent == 0, "what a rank sends itself uses no link");
  });
}

// A send that no rank can take yet does not hold up what is called after it.
void later_calls_join_an_open_group(const std::string& layout) {
  Meeting meeting(2);
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    const Data out = random_input(CC_UINT8, kLarge, rank, 7);
    Data in(kLarge, 0xa5);
    unsigned char finished[2] = {0, 0};
    EXPECT(cc_group_start(comm) == CC_SUCCESS, last_error(comm));
    EXPECT(cc_send(out.data(), kLarge, CC_UINT8, 1 - rank, comm, nullptr) == CC_SUCCESS, "send");
    EXPECT(cc_group_progress(comm, 50, finished, 1) == CC_SUCCESS, last_error(comm));
    EXPECT(finished[0] == 0, "nobody has received it");
    meeting.wait();
    EXPECT(cc_group_progress(comm, 50, finished, 2) == CC_ERROR_INVALID_ARGUMENT, "there is one transfer");
    EXPECT(cc_recv(in.data(), kLarge, CC_UINT8, 1 - rank, comm, nullptr) == CC_SUCCESS, "recv");
    EXPECT(cc_barrier(comm, nullptr) == CC_ERROR_INVALID_USAGE, "a collective in a group");
    EXPECT(cc_group_start(comm) == CC_ERROR_INVALID_USAGE, "a group in a group");
    std::thread other([&] { EXPECT(cc_group_end(comm) == CC_ERROR_INVALID_USAGE, "the group of another thread"); });
    other.join();
    while (finished[0] == 0 || finished[1] == 0) {
      EXPECT(cc_group_progress(comm, 1000, finished, 2) == CC_SUCCESS, last_error(comm));
    }
    EXPECT(cc_group_end(comm) == CC_SUCCESS, last_error(comm));
    EXPECT(in == random_input(CC_UINT8, kLarge, 1 - rank, 7), "rank ", rank);
    EXPECT(cc_group_end(comm) == CC_ERROR_INVALID_USAGE, "no group is open");
    EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
  });
}

void only_two_of_three_take_part(const std::string& layout) {
  run_ranks(3, layout_named(layout), [&](int rank, cc_comm* comm) {
    for (int i = 0; i < 20; ++i) {
      int value = rank == 0 ? i : -1;
      if (rank == 0) EXPECT(cc_send(&value, 1, CC_INT32, 2, comm, nullptr) == CC_SUCCESS, last_error(comm));
      if (rank == 2) EXPECT(cc_recv(&value, 1, CC_INT32, 0, comm, nullptr) == CC_SUCCESS, last_error(comm));
      if (rank == 2) EXPECT(value == i, value);
      EXPECT(cc_barrier(comm, nullptr) == CC_SUCCESS, last_error(comm));
    }
  });
}

void bytes_on_the_wire(const std::string& layout) {
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    std::vector<float> data(1001);
    const cc_result result = rank == 0 ? cc_send(data.data(), 1001, CC_FLOAT32, 1, comm, nullptr)
                                       : cc_recv(data.data(), 1001, CC_FLOAT32, 0, comm, nullptr);
    EXPECT(result == CC_SUCCESS, last_error(comm));
    cc_peer_info info{};
    info.size = sizeof info;
    EXPECT(cc_comm_peer_info(comm, 1 - rank, &info) == CC_SUCCESS, "info");
    EXPECT(info.payload_bytes_sent == (rank == 0 ? 4004 : 0), info.payload_bytes_sent);
    EXPECT(info.payload_bytes_received == (rank == 1 ? 4004 : 0), info.payload_bytes_received);
  });
}

void desync(const std::string& layout, const char* first, const char* second,
            const std::function<cc_result(cc_comm*)>& sender, const std::function<cc_result(cc_comm*)>& receiver) {
  Meeting meeting(2);
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    // A send may be over before anybody looks at it; the next call has the news then.
    const cc_result result = rank == 0 ? sender(comm) : receiver(comm);
    EXPECT(rank == 0 || result == CC_ERROR_DESYNC, "got ", result, " ", last_error(comm));
    meeting.wait();
    cc_result state = CC_SUCCESS;
    for (int i = 0; i < 2000 && state != CC_ERROR_DESYNC; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      EXPECT(cc_comm_get_async_error(comm, &state) == CC_SUCCESS, "async error");
    }
    EXPECT(state == CC_ERROR_DESYNC, "rank ", rank, ": ", state);
    EXPECT(contains(last_error(comm), first) && contains(last_error(comm), second), last_error(comm));
    meeting.wait();
  });
}

void differences_are_named(const std::string& layout) {
  static unsigned char data[64] = {};
  const auto send = [](size_t count, cc_dtype dtype, int tag) {
    return [=](cc_comm* comm) {
      const cc_op_options options{sizeof options, 0, tag, 0, nullptr};
      return cc_send(data, count, dtype, 1, comm, &options);
    };
  };
  const auto recv = [](size_t count, cc_dtype dtype, int tag) {
    return [=](cc_comm* comm) {
      const cc_op_options options{sizeof options, 0, tag, 0, nullptr};
      static thread_local unsigned char into[64];
      return cc_recv(into, count, dtype, 0, comm, &options);
    };
  };
  desync(layout, "from rank 0 to rank 1 (count=4, f32", "(count=5, f32", send(4, CC_FLOAT32, 0),
         recv(5, CC_FLOAT32, 0));
  desync(layout, "(count=4, f32", "(count=4, i32", send(4, CC_FLOAT32, 0), recv(4, CC_INT32, 0));
  desync(layout, "tag=1)", "tag=2)", send(4, CC_FLOAT32, 1), recv(4, CC_FLOAT32, 2));
  desync(
      layout, "barrier()", "transfer 1 from rank 0", [](cc_comm* comm) { return cc_barrier(comm, nullptr); },
      recv(4, CC_FLOAT32, 0));
}

void failures_end_it(const std::string& layout) {
  Meeting meeting(2);
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    if (rank == 0) {
      const cc_op_options options{sizeof options, 200, 0, 0, nullptr};
      unsigned char byte = 0;
      EXPECT(cc_recv(&byte, 1, CC_UINT8, 1, comm, &options) == CC_ERROR_TIMEOUT, last_error(comm));
      EXPECT(contains(last_error(comm), "it waits for data from rank 1"), last_error(comm));
    }
    meeting.wait();
  });
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    std::thread aborter;
    if (rank == 0) {
      aborter = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        cc_comm_abort(comm);
      });
    }
    Data data(kLarge);
    const cc_result result = cc_send(data.data(), kLarge, CC_UINT8, 1 - rank, comm, nullptr);
    if (aborter.joinable()) aborter.join();
    EXPECT(result == (rank == 0 ? CC_ERROR_ABORTED : CC_ERROR_REMOTE), "rank ", rank, " got ", result);
    meeting.wait();
  });
  run_ranks(2, layout_named(layout), [&](int rank, cc_comm* comm) {
    int value = 5;
    EXPECT(cc_send(&value, 1, CC_INT32, rank, comm, nullptr) == CC_ERROR_INVALID_USAGE, "to itself");
    EXPECT(cc_send(&value, 1, CC_INT32, 2, comm, nullptr) == CC_ERROR_INVALID_ARGUMENT, "to nobody");
    if (rank == 1) {
      EXPECT(cc_send(&value, 1, CC_INT32, 0, comm, nullptr) == CC_SUCCESS, last_error(comm));
      return;  // leaves at once
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    value = 0;
    EXPECT(cc_recv(&value, 1, CC_INT32, 1, comm, nullptr) == CC_SUCCESS, last_error(comm));
    EXPECT(value == 5, "what was sent before it left still arrives");
    EXPECT(cc_recv(&value, 1, CC_INT32, 1, comm, nullptr) == CC_ERROR_REMOTE, last_error(comm));
    EXPECT(contains(last_error(comm), "rank 1"), last_error(comm));
  });
}

// The other end of a connection, whose last bytes come later than its goodbye on another one.
class LateLink : public ccore::Link {
 public:
  explicit LateLink(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  size_t try_send(const std::byte*, size_t) override { return 0; }
  ccore::Bytes peek(size_t) override { return late_.passed() ? rest() : ccore::Bytes{}; }
  void consume(size_t size) override { at_ += size; }
  size_t try_recv(std::byte* data, size_t size) override {
    const size_t count = late_.passed() ? std::min(size, rest().size) : 0;
    if (count > 0) std::memcpy(data, rest().data, count);
    consume(count);
    return count;
  }
  int fd() const override { return event_.get(); }
  const char* name() const override { return "late"; }

 private:
  ccore::Bytes rest() const { return {bytes_.data() + at_, bytes_.size() - at_}; }

  std::vector<std::byte> bytes_;
  size_t at_ = 0;
  ccore::Deadline late_ = ccore::Deadline::in_ms(600);
  ccore::UniqueFd event_{eventfd(0, EFD_CLOEXEC)};
};

// What was lost on its way is sent again after some tenths of a second, whatever has come since.
void what_is_late_is_received(bool from_any) {
  ccore::Transfers transfers(0, 2, [](const ccore::Transfer&) {});
  int value = 0;
  int source = -1;
  ccore::Transfer receive{};
  receive.peer = from_any ? ccore::kAnyPeer : 1;
  receive.data = reinterpret_cast<std::byte*>(&value);
  receive.bytes = sizeof value;
  receive.header.count = 1;
  receive.header.dtype = CC_INT32;
  receive.limit_ms = 30000;
  receive.source = from_any ? &source : nullptr;
  transfers.add(receive);
  ccore::Operation header = receive.header;
  header.kind = ccore::Kind::transfer;
  header.sequence = 1;
  header.root = 1;
  const int sent = 5;
  std::vector<std::byte> bytes(sizeof header + sizeof sent);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, &sent, sizeof sent);
  LateLink link(std::move(bytes));
  ccore::Doorbell doorbell;
  ccore::WaitLadder ladder(&doorbell, -1, false, [&] { transfers.check_deadlines([](int) { return ""; }); });
  int waits = -1;
  const ccore::Context context{0,
                               2,
                               [&](int) -> ccore::Link& { return link; },
                               &ladder,
                               &waits,
                               &waits,
                               {},
                               [](int) { return true; },
                               [](int) { return false; }};
  transfers.run(context, nullptr);
  EXPECT(value == 5 && (!from_any || source == 1), value, " from ", source);
}

}  // namespace

void transfers() {
  for (const bool from_any : {false, true}) what_is_late_is_received(from_any);
  for (const char* layout : {"shm", "tcp"}) {
    in_a_circle(layout, 3);
    everyone_to_everyone(layout, 2);
    later_calls_join_an_open_group(layout);
    only_two_of_three_take_part(layout);
    bytes_on_the_wire(layout);
    differences_are_named(layout);
    failures_end_it(layout);
  }
  everyone_to_everyone("mixed", 4);
}

}  // namespace test
