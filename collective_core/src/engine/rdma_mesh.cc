#include "engine/rdma_mesh.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/error.h"
#include "transport/rdma/rdma_link.h"
#include "transport/tcp/socket.h"

namespace ccore {
namespace {

// Enough for messages of both kinds, inline and through the ring, on each of 8 queue pairs.
constexpr size_t kProofBytes = 9001;
constexpr size_t kProofPiece = kProofBytes / kMostQueuePairs;
// Without any byte. Longer than an unreachable port takes to be reported: 6 retries of about 1 s.
constexpr int64_t kProofMs = 15000;

struct Verdict {
  int32_t usable = 0;
  char why[508] = {};
};

struct SealedEndpoint {
  RdmaEndpoint endpoint;
  uint64_t tag = 0;
};

std::byte proof_byte(size_t position, int from, int to) {
  return static_cast<std::byte>((position * 2654435761U + static_cast<size_t>(from) * 977 + static_cast<size_t>(to)) >>
                                5);
}

class RdmaConnector {
 public:
  RdmaConnector(RendezvousClient* client, const RdmaPlan& plan, const std::vector<std::vector<Connection>>& data)
      : client_(*client), plan_(plan), data_(data), links_(data.size()) {}

  RdmaMesh run() {
    const bool usable = all_can([&] { create(); }) && all_can([&] { introduce(); }) && all_can([&] { prove(); });
    RdmaMesh mesh;
    mesh.obstacle = obstacle_;
    if (!usable) return mesh;
    size_t pairs = kMostQueuePairs, rails = kMostRdmaRails;
    for (auto& link : links_) {
      if (link) {
        pairs = std::min(pairs, link->queue_pairs());
        rails = std::min(rails, link->rails());
      }
      mesh.links.push_back(std::move(link));
    }
    if (!rails_.empty()) {
      mesh.text = text_of_rails(rails_, rails) + format(", %zu queue pair%s per peer", pairs, pairs == 1 ? "" : "s");
    }
    mesh.rails = std::move(rails_);
    return mesh;
  }

 private:
  template <typename Part>
  bool all_can(const Part& part) {
    Verdict mine;
    try {
      part();
      mine.usable = 1;
    } catch (const Error& error) {
      // Errors of links begin with the name of this rank, which stands before all of them here.
      const std::string own = plan_.names[static_cast<size_t>(plan_.rank)] + " ";
      const std::string text = error.what();
      std::strncpy(mine.why, text.c_str() + (text.rfind(own, 0) == 0 ? own.size() : 0), sizeof mine.why - 1);
    }
    const std::vector<Verdict> verdicts = client_.all_gather(mine);
    for (size_t rank = 0; rank < verdicts.size(); ++rank) {
      if (verdicts[rank].usable == 1) continue;
      const char* why = verdicts[rank].why;
      obstacle_ = plan_.names[rank] + ": " + std::string(why, strnlen(why, sizeof verdicts[rank].why));
      return false;
    }
    return true;
  }

  void create() {
    const auto connected = [](const std::vector<Connection>& one) { return !one.empty(); };
    if (std::none_of(data_.begin(), data_.end(), connected)) return;
    rails_ = open_rails(plan_.wish, plan_.own, [this](const std::vector<std::string>& devices) {
      return dealt_out(devices, plan_.local_rank, plan_.around);
    });
    for (size_t peer = 0; peer < data_.size(); ++peer) {
      if (data_[peer].empty()) continue;
      links_[peer] = std::make_unique<RdmaLink>(rails_, data_[peer].front().session,
                                                plan_.names[static_cast<size_t>(plan_.rank)], plan_.names[peer]);
    }
  }

  // Endpoints are small: each fits the buffer of its socket, so all leave before any is waited for.
  void introduce() {
    std::vector<Seals> seals;
    for (size_t peer = 0; peer < data_.size(); ++peer) {
      seals.push_back(data_[peer].empty()
                          ? make_seals(Session(), "", "")
                          : make_seals(data_[peer].front().session, "rdma endpoint", plan_.names[peer]));
      if (!links_[peer]) continue;
      SealedEndpoint own;
      own.endpoint = links_[peer]->endpoint();
      own.tag = seals.back().out.tag(&own.endpoint, sizeof own.endpoint);
      send_all(data_[peer].front().fd.get(), &own, sizeof own, client_.deadline(), plan_.names[peer]);
    }
    // All are read before one may be refused: TCP, if it has to step in, must not find them in its stream.
    std::vector<SealedEndpoint> others(data_.size());
    for (size_t peer = 0; peer < data_.size(); ++peer) {
      if (!links_[peer]) continue;
      recv_all(data_[peer].front().fd.get(), &others[peer], sizeof others[peer], client_.deadline(), plan_.names[peer]);
    }
    for (size_t peer = 0; peer < data_.size(); ++peer) {
      if (!links_[peer]) continue;
      const RdmaEndpoint& endpoint = others[peer].endpoint;
      seals[peer].check(&endpoint, sizeof endpoint, others[peer].tag, "RDMA endpoint");
      links_[peer]->connect(endpoint);
    }
  }

  void prove() {
    const auto patience = [&] {
      return Deadline::in_ms(std::min<int64_t>(kProofMs, client_.deadline().remaining_ns() / 1000000));
    };
    Deadline deadline = patience();
    std::vector<std::byte> out(kProofBytes);
    struct Progress {
      size_t sent = 0;
      size_t received = 0;
      std::vector<std::byte> bytes = std::vector<std::byte>(kProofBytes);
    };
    std::vector<Progress> progress(links_.size());
    while (true) {
      size_t missing = links_.size();
      bool moved = false;
      for (size_t peer = 0; peer < links_.size(); ++peer) {
        if (!links_[peer]) continue;
        Progress& at = progress[peer];
        for (size_t i = at.sent; i < kProofBytes; ++i) out[i] = proof_byte(i, plan_.rank, static_cast<int>(peer));
        // Small at first, so that something goes inline.
        const size_t most = at.sent == 0 ? 9 : std::min(kProofPiece, kProofBytes - at.sent);
        const size_t sent = most == 0 ? 0 : links_[peer]->try_send(out.data() + at.sent, most);
        const size_t rest = kProofBytes - at.received;
        const size_t received = rest == 0 ? 0 : links_[peer]->try_recv(at.bytes.data() + at.received, rest);
        at.sent += sent;
        at.received += received;
        moved = moved || sent + received > 0;
        if (at.sent < kProofBytes || at.received < kProofBytes) missing = peer;
      }
      if (missing == links_.size()) break;
      if (deadline.passed()) {
        throw Error(CC_ERROR_TIMEOUT, "no bytes came by RDMA between " + text_of_rails(rails_) + " and " +
                                          plan_.names[missing] + losses_of_rails(rails_));
      }
      if (moved) {
        deadline = patience();  // many ranks on few processors take their time
      } else {
        sched_yield();
      }
    }
    for (size_t peer = 0; peer < links_.size(); ++peer) {
      if (!links_[peer]) continue;
      for (size_t i = 0; i < kProofBytes; ++i) {
        if (progress[peer].bytes[i] == proof_byte(i, static_cast<int>(peer), plan_.rank)) continue;
        throw Error(CC_ERROR_REMOTE, "other bytes came by RDMA than " + plan_.names[peer] + " sent");
      }
    }
  }

  RendezvousClient& client_;
  const RdmaPlan& plan_;
  const std::vector<std::vector<Connection>>& data_;
  RdmaRails rails_;
  std::vector<std::unique_ptr<RdmaLink>> links_;
  std::string obstacle_;
};

}  // namespace

RdmaMesh connect_rdma(RendezvousClient* client, const RdmaPlan& plan,
                      const std::vector<std::vector<Connection>>& data) {
  return RdmaConnector(client, plan, data).run();
}

}  // namespace ccore
