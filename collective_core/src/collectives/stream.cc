#include "collectives/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/framing.h"
#include "common/dtype.h"
#include "common/error.h"

namespace ccore {
namespace {

// Bytes reduced before the links get their turn: few enough to stay in cache on the way through.
constexpr size_t kFoldBytes = 256 * 1024;

struct Cursor {
  size_t step = 0;
  size_t bytes = 0;         // of the step, done
  size_t header_bytes = 0;  // of its header, done
};

class Stream {
 public:
  Stream(const Context& context, const std::vector<StreamStep>& steps, const Reduction& reduction)
      : context_(context),
        steps_(steps),
        reduction_(reduction),
        send_header_(steps.size()),
        recv_header_(steps.size()) {
    std::vector<bool> sent(static_cast<size_t>(context.nranks));
    std::vector<bool> received(static_cast<size_t>(context.nranks));
    for (size_t i = 0; i < steps.size(); ++i) {
      send_header_[i] = first_use(&sent, steps[i].send_peer);
      recv_header_[i] = first_use(&received, steps[i].recv_peer);
    }
  }

  void run() {
    while (true) {
      const bool sent = advance_send();
      const bool received = advance_recv();
      const bool sending = send_.step < steps_.size();
      const bool receiving = recv_.step < steps_.size();
      if (!sending && !receiving) return;
      if (sent || received) {
        context_.wait->moved();
        continue;
      }
      const Link* want_send = sending && may_send() ? &context_.link(steps_[send_.step].send_peer) : nullptr;
      const Link* want_recv =
          receiving && may_recv() ? &context_.link(steps_[recv_.step].recv_peer) : nullptr;
      *context_.waiting_to_send_to = want_send ? context_.rank_of(steps_[send_.step].send_peer) : kNone;
      *context_.waiting_to_receive_from = want_recv ? context_.rank_of(steps_[recv_.step].recv_peer) : kNone;
      context_.wait->idle(want_send, want_recv);
    }
  }

 private:
  static bool first_use(std::vector<bool>* used, int peer) {
    if (peer == kNone || (*used)[static_cast<size_t>(peer)]) return false;
    (*used)[static_cast<size_t>(peer)] = true;
    return true;
  }

  // Bytes of `step` that the other cursor has finished.
  static size_t finished(const Cursor& cursor, int step, size_t all) {
    const auto index = static_cast<size_t>(step);
    if (cursor.step > index) return all;
    return cursor.step == index ? cursor.bytes : 0;
  }

  size_t send_limit() const {
    const StreamStep& step = steps_[send_.step];
    if (step.send_after == kNone) return step.send_bytes;
    return finished(recv_, step.send_after, step.send_bytes);
  }

  size_t recv_limit() const {
    const StreamStep& step = steps_[recv_.step];
    if (step.recv_after_send == kNone) return step.recv_bytes;
    return std::min(step.recv_bytes, finished(send_, step.recv_after_send, step.recv_bytes));
  }

  bool send_header_due() const { return send_header_[send_.step] && send_.header_bytes < sizeof(Operation); }
  bool recv_header_due() const { return recv_header_[recv_.step] && recv_.header_bytes < sizeof(Operation); }
  bool may_send() const { return send_header_due() || send_limit() > send_.bytes; }
  bool may_recv() const { return recv_header_due() || recv_limit() > recv_.bytes; }

  bool advance_send() {
    bool moved = false;
    size_t sent = 0;  // in this turn
    while (send_.step < steps_.size()) {
      const StreamStep& step = steps_[send_.step];
      if (step.send_peer != kNone) {
        Link& link = context_.link(step.send_peer);
        if (send_header_due()) {
          moved = send_header(&link) || moved;
          if (send_header_due()) return moved;
        }
        if (send_.bytes < step.send_bytes) {
          const size_t turn = link.turn_bytes();
          const size_t ready = std::min(turn - std::min(turn, sent), send_limit() - send_.bytes);
          const size_t n = ready == 0 ? 0 : link.try_send(step.send_from + send_.bytes, ready);
          send_.bytes += n;
          sent += n;
          link.payload_bytes_sent += n;
          if (n > 0) moved = true;
          if (send_.bytes < step.send_bytes) return moved;
        }
      }
      send_ = Cursor{send_.step + 1, 0, 0};
      moved = true;
    }
    return moved;
  }

  bool advance_recv() {
    bool moved = false;
    size_t received = 0;  // in this turn
    while (recv_.step < steps_.size()) {
      const StreamStep& step = steps_[recv_.step];
      if (step.recv_peer != kNone) {
        Link& link = context_.link(step.recv_peer);
        if (recv_header_due()) {
          const int peer = context_.rank_of(step.recv_peer);
          if (!receive_header(&link, header(step.recv_bytes), context_.rank_of(context_.rank), peer)) {
            return moved;
          }
          recv_.header_bytes = sizeof(Operation);
          moved = true;
        }
        if (recv_.bytes < step.recv_bytes) {
          const size_t turn = link.turn_bytes();
          const size_t n =
              receive(&link, step, std::min(turn - std::min(turn, received), recv_limit() - recv_.bytes));
          recv_.bytes += n;
          received += n;
          link.payload_bytes_received += n;
          if (n > 0) moved = true;
          if (recv_.bytes < step.recv_bytes) return moved;
        }
      }
      recv_ = Cursor{recv_.step + 1, 0, 0};
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

  bool send_header(Link* link) {
    const StreamStep& step = steps_[send_.step];
    const Piece sent =
        send_with_header(link, header(step.send_bytes), send_.header_bytes, step.send_from, send_limit());
    send_.header_bytes += sent.header;
    send_.bytes += sent.payload;
    return sent.header > 0;
  }

  size_t receive(Link* link, const StreamStep& step, size_t most) {
    if (most == 0) return 0;
    std::byte* to = step.recv_to + recv_.bytes;
    if (step.action == Action::copy) return link->try_recv(to, most);
    const size_t element = reduction_.element_bytes;
    const Bytes ready = link->peek(element);
    const size_t count = std::min({ready.size, most, kFoldBytes}) / element;
    if (count == 0) return 0;
    const ReduceFunction reduce = step.completes ? reduction_.last : reduction_.hop;
    const void* first = ready.data;
    const void* second = step.local + recv_.bytes;
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
  Cursor send_;
  Cursor recv_;
};

}  // namespace

void run_stream(const Context& context, const std::vector<StreamStep>& steps, const Reduction& reduction) {
  Stream(context, steps, reduction).run();
}

}  // namespace ccore
