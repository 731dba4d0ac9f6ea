#include "collectives/links/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/links/framing.h"
#include "common/dtype.h"
#include "common/error.h"

namespace ccore {
namespace {

// Bytes reduced before the links get their turn: few enough to stay in cache on the way through.
constexpr size_t kFoldBytes = 256 * 1024;

struct Cursor {
  size_t step = 0;
  size_t bytes = 0;         // of the step, done
  HeaderProgress header;
};

struct Lane {
  Cursor send;
  Cursor recv;
};

class Stream {
 public:
  Stream(const Context& context, const std::vector<StreamStep>& steps, const Reduction& reduction)
      : context_(context),
        steps_(steps),
        reduction_(reduction),
        send_header_(steps.size()),
        recv_header_(steps.size()) {
    for (const StreamStep& step : steps) {
      if (lane_of(step) >= lanes_.size()) lanes_.resize(lane_of(step) + 1);
    }
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      lanes_[lane].send = next_from(0, lane);
      lanes_[lane].recv = next_from(0, lane);
    }
    std::vector<bool> sent(static_cast<size_t>(context.nranks));
    std::vector<bool> received(static_cast<size_t>(context.nranks));
    for (size_t i = 0; i < steps.size(); ++i) {
      send_header_[i] = first_use(&sent, steps[i].send_peer);
      recv_header_[i] = first_use(&received, steps[i].recv_peer);
    }
  }

  void run() {
    while (true) {
      bool moved = false;
      bool running = false;
      for (size_t lane = 0; lane < lanes_.size(); ++lane) {
        moved = advance_send(lane) || moved;
        moved = advance_recv(lane) || moved;
        running = running || lanes_[lane].send.step < steps_.size() || lanes_[lane].recv.step < steps_.size();
      }
      if (!running) return;
      if (moved) {
        context_.wait->moved();
      } else {
        wait();
      }
    }
  }

 private:
  static bool first_use(std::vector<bool>* used, int peer) {
    if (peer == kNone || (*used)[static_cast<size_t>(peer)]) return false;
    (*used)[static_cast<size_t>(peer)] = true;
    return true;
  }

  static size_t lane_of(const StreamStep& step) { return static_cast<size_t>(step.lane); }

  // At the lane's first step from `step` on.
  Cursor next_from(size_t step, size_t lane) const {
    while (step < steps_.size() && lane_of(steps_[step]) != lane) ++step;
    return Cursor{step, 0, {}};
  }

  // Bytes of `step` that a cursor of its lane has finished.
  size_t finished(Cursor Lane::* cursor, int step, size_t all) const {
    const auto index = static_cast<size_t>(step);
    const Cursor& at = lanes_[lane_of(steps_[index])].*cursor;
    if (at.step > index) return all;
    return at.step == index ? at.bytes : 0;
  }

  size_t send_limit(const Cursor& send) const {
    const StreamStep& step = steps_[send.step];
    if (step.send_after == kNone) return step.send_bytes;
    return finished(&Lane::recv, step.send_after, step.send_bytes);
  }

  size_t recv_limit(const Cursor& recv) const {
    const StreamStep& step = steps_[recv.step];
    size_t limit = step.recv_bytes;
    if (step.recv_after_send != kNone) {
      limit = std::min(limit, finished(&Lane::send, step.recv_after_send, limit));
    }
    if (step.recv_after_recv != kNone) {
      limit = std::min(limit, finished(&Lane::recv, step.recv_after_recv, limit));
    }
    return limit;
  }

  bool send_header_due(const Cursor& send) const { return send_header_[send.step] && !send.header.whole; }
  bool recv_header_due(const Cursor& recv) const { return recv_header_[recv.step] && !recv.header.whole; }

  void wait() {
    want_send_.clear();
    want_recv_.clear();
    *context_.waiting_to_send_to = kNone;
    *context_.waiting_to_receive_from = kNone;
    for (const Lane& lane : lanes_) {
      if (lane.send.step < steps_.size() && (send_header_due(lane.send) || send_limit(lane.send) > lane.send.bytes)) {
        const int peer = steps_[lane.send.step].send_peer;
        want_send_.push_back(&context_.link(peer));
        *context_.waiting_to_send_to = context_.rank_of(peer);
      }
      if (lane.recv.step < steps_.size() && (recv_header_due(lane.recv) || recv_limit(lane.recv) > lane.recv.bytes)) {
        const int peer = steps_[lane.recv.step].recv_peer;
        want_recv_.push_back(&context_.link(peer));
        *context_.waiting_to_receive_from = context_.rank_of(peer);
      }
    }
    context_.wait->idle(want_send_, want_recv_);
  }

  bool advance_send(size_t lane) {
    Cursor& send = lanes_[lane].send;
    bool moved = false;
    size_t sent = 0;  // in this turn
    while (send.step < steps_.size()) {
      const StreamStep& step = steps_[send.step];
      if (step.send_peer != kNone) {
        Link& link = context_.link(step.send_peer);
        if (send_header_due(send)) {
          moved = send_header(&link, &send) || moved;
          if (send_header_due(send)) return moved;
        }
        if (send.bytes < step.send_bytes) {
          const size_t turn = link.turn_bytes();
          const size_t ready = std::min(turn - std::min(turn, sent), send_limit(send) - send.bytes);
          const size_t n = ready == 0 ? 0 : link.try_send(step.send_from + send.bytes, ready);
          send.bytes += n;
          sent += n;
          link.payload_bytes_sent += n;
          if (n > 0) moved = true;
          if (send.bytes < step.send_bytes) return moved;
        }
      }
      send = next_from(send.step + 1, lane);
      moved = true;
    }
    return moved;
  }

  bool advance_recv(size_t lane) {
    Cursor& recv = lanes_[lane].recv;
    bool moved = false;
    size_t received = 0;  // in this turn
    while (recv.step < steps_.size()) {
      const StreamStep& step = steps_[recv.step];
      if (step.recv_peer != kNone) {
        Link& link = context_.link(step.recv_peer);
        if (recv_header_due(recv)) {
          const int peer = context_.rank_of(step.recv_peer);
          if (!receive_header(&link, header(step.recv_bytes), context_.rank_of(context_.rank), peer)) {
            return moved;
          }
          recv.header.whole = true;
          moved = true;
        }
        if (recv.bytes < step.recv_bytes) {
          const size_t turn = link.turn_bytes();
          const size_t most = std::min(turn - std::min(turn, received), recv_limit(recv) - recv.bytes);
          const size_t n = receive(&link, step, recv.bytes, most);
          recv.bytes += n;
          received += n;
          link.payload_bytes_received += n;
          if (n > 0) moved = true;
          if (recv.bytes < step.recv_bytes) return moved;
        }
      }
      recv = next_from(recv.step + 1, lane);
      moved = true;
    }
    return moved;
  }

  // Where each pair of ranks has its own count, each link has its own header.
  Operation header(size_t bytes) const {
    Operation operation = context_.operation;
    if (operation.kind == Kind::all_to_allv) {
      operation.count = bytes / dtype_size(static_cast<cc_dtype>(operation.dtype));
    }
    return operation;
  }

  bool send_header(Link* link, Cursor* send) {
    const StreamStep& step = steps_[send->step];
    const Piece sent =
        send_with_header(link, header(step.send_bytes), &send->header, step.send_from, send_limit(*send));
    send->bytes += sent.payload;
    return sent.header > 0;
  }

  size_t receive(Link* link, const StreamStep& step, size_t done, size_t most) {
    if (most == 0) return 0;
    std::byte* to = step.recv_to + done;
    if (step.action == Action::copy) return link->try_recv(to, most);
    const size_t element = reduction_.element_bytes;
    const Bytes ready = link->peek(element);
    const size_t count = std::min({ready.size, most, kFoldBytes}) / element;
    if (count == 0) return 0;
    const ReduceFunction reduce = step.completes ? reduction_.last : reduction_.hop;
    const void* first = ready.data;
    const void* second = step.local + done;
    if (step.action == Action::fold_above) std::swap(first, second);
    reduce(to, first, second, count, context_.average_over());
    link->consume(count * element);
    return count * element;
  }

  const Context& context_;
  const std::vector<StreamStep>& steps_;
  const Reduction& reduction_;
  std::vector<bool> send_header_;  // by step: the first one to that peer
  std::vector<bool> recv_header_;
  std::vector<Lane> lanes_;
  std::vector<const Link*> want_send_;
  std::vector<const Link*> want_recv_;
};

}  // namespace

void run_stream(const Context& context, const std::vector<StreamStep>& steps, const Reduction& reduction) {
  Stream(context, steps, reduction).run();
}

}  // namespace ccore
