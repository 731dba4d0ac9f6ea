// all_to_allv beside a rank that is late: the other pairs move on without it.
#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "collectives/all_to_all/all_to_all.h"
#include "common/error.h"
#include "expect.h"

namespace test {
namespace {

using ccore::Block;
using ccore::Operation;

constexpr size_t kMine = 300000;  // for each of the others
constexpr size_t kTheirs = 200000;
constexpr int kLateness = 50;  // looks at the deadline in which nothing moves any more

// To a rank that takes all it is sent and has sent its own part, as soon as it is there.
class Peer : public ccore::Link {
 public:
  Peer(const Operation& header, std::byte content, std::function<bool()> is_there)
      : incoming_(sizeof header + kTheirs, content), is_there_(std::move(is_there)) {
    std::memcpy(incoming_.data(), &header, sizeof header);
  }
  bool done() const { return sent_ == sizeof(Operation) + kMine && at_ == incoming_.size(); }

  size_t try_send(const std::byte*, size_t size) override {
    const size_t taken = is_there_() ? size : 0;
    sent_ += taken;
    return taken;
  }
  ccore::Bytes peek(size_t) override {
    return is_there_() ? ccore::Bytes{incoming_.data() + at_, incoming_.size() - at_} : ccore::Bytes{};
  }
  void consume(size_t size) override { at_ += size; }
  size_t try_recv(std::byte* data, size_t size) override {
    const ccore::Bytes ready = peek(1);
    const size_t count = std::min(ready.size, size);
    if (count > 0) std::memcpy(data, ready.data, count);
    consume(count);
    return count;
  }
  int fd() const override { return -1; }
  const char* name() const override { return "peer"; }

 private:
  std::vector<std::byte> incoming_;
  std::function<bool()> is_there_;
  size_t at_ = 0;
  size_t sent_ = 0;
};

// Rank 0 of three; `late` comes when the other two have exchanged all that they have for each other.
void a_rank_is_late(int late) {
  const int other = 3 - late;
  Operation operation;
  operation.kind = ccore::Kind::all_to_allv;
  operation.dtype = CC_UINT8;
  Operation theirs = operation;
  theirs.count = kTheirs;
  Peer punctual(theirs, std::byte{2}, [] { return true; });
  Peer tardy(theirs, std::byte{1}, [&] { return punctual.done(); });
  ccore::Doorbell doorbell;
  int waiting = -1;
  int looks = 0;
  ccore::WaitLadder ladder(&doorbell, -1, false, [&] {
    if (++looks > kLateness) throw ccore::Error(CC_ERROR_TIMEOUT, "rank 0 waits for rank " + std::to_string(waiting));
  });
  ladder.sleep_at_most(1);
  const ccore::Context context{0,
                               3,
                               [&](int peer) -> ccore::Link& { return peer == late ? tardy : punctual; },
                               &ladder,
                               &waiting,
                               &waiting,
                               operation,
                               [](int) { return false; },
                               [](int) { return false; }};
  const std::vector<std::byte> send(2 * kMine);
  std::vector<std::byte> recv(2 * kTheirs);
  std::vector<Block> out(3);
  std::vector<Block> in(3);
  out[1] = Block{0, kMine};
  out[2] = Block{kMine, kMine};
  in[1] = Block{0, kTheirs};
  in[2] = Block{kTheirs, kTheirs};
  all_to_all_pairwise(context, send.data(), out, recv.data(), in);
  EXPECT(tardy.done(), "rank ", late, " was left out");
  EXPECT(recv[in[static_cast<size_t>(late)].begin] == std::byte{1}, "of rank ", late);
  EXPECT(recv[in[static_cast<size_t>(other)].begin] == std::byte{2}, "of rank ", other);
}

}  // namespace

void late_rank() {
  a_rank_is_late(1);
  a_rank_is_late(2);
}

}  // namespace test
