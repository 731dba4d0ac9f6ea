#include "engine/connect.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/log.h"
#include "device/current_gpu.h"
#include "engine/cards.h"
#include "engine/cross_memory_probe.h"
#include "engine/failure.h"
#include "engine/rdma_mesh.h"
#include "rendezvous/client.h"
#include "rendezvous/mesh.h"
#include "rendezvous/reception.h"
#include "topology/interfaces.h"
#include "topology/pci.h"
#include "transport/fault_link.h"
#include "transport/progress.h"
#include "transport/shm/shm_link.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/stream_settings.h"
#include "transport/tcp/stripe_link.h"
#include "transport/tcp/tcp_link.h"

namespace ccore {
namespace {

class Connector {
 public:
  Connector(const UniqueId& id, int rank, int nranks, const Settings& settings)
      : id_(id), rank_(rank), settings_(settings), client_(id, rank, nranks, settings.init_timeout_ms) {}

  Connections run() {
    try {
      listen_for_mesh();
      read_links();
      exchange_cards();
      share_links();
      share_segment();
      connect();
      client_.all_gather(uint32_t{1});  // everybody is connected: the segment's name can go
      if (result_.segment) result_.segment->close_fd();
      make_arena();
      reach_across();
      client_.leave();
      return std::move(result_);
    } catch (const Error& error) {
      client_.give_up(error);
      throw;
    }
  }

 private:
  size_t own() const { return static_cast<size_t>(rank_); }

  void listen_for_mesh() {
    std::vector<Interface> rails = {Interface{"", client_.local_host()}};
    if (!settings_.interface_name.empty()) rails = choose_rails(interfaces(), settings_.interface_name);
    if (!settings_.address.empty()) rails = {Interface{"", resolve(settings_.address, 0)}};
    if (rails.size() > kMostRails) {
      throw Error(CC_ERROR_INVALID_ARGUMENT,
                  format("CCORE_SOCKET_IFNAME=%s names %d interfaces, expected %d at most",
                         settings_.interface_name.c_str(), static_cast<int>(rails.size()), kMostRails));
    }
    std::vector<UniqueFd> listeners;
    for (Interface& rail : rails) {
      rail.address.port = 0;
      listeners.push_back(listen_on(rail.address, false));
      rails_.push_back(local_address(listeners.back().get()));
    }
    reception_.emplace(std::move(listeners), id_.secret);
    find_near(rails);
  }

  void find_near(const std::vector<Interface>& rails) {
    near_.assign(rails.size(), true);
    around_ = surroundings(kSysfs, current_gpu());
    if (!around_.gpu || rails.size() == 1) return;
    std::vector<std::string> names;
    for (const Interface& rail : rails) names.push_back(rail.name);
    near_ = nearest_to(*around_.gpu, names, around_.nics);
    std::string nearest;
    for (size_t rail = 0; rail < names.size(); ++rail) {
      if (near_[rail]) nearest += (nearest.empty() ? "" : ", ") + names[rail];
    }
    log(LogLevel::info, "rank %d: of %s, its GPU %s is nearest to %s", rank_, settings_.interface_name.c_str(),
        around_.gpu->address.c_str(), nearest.c_str());
  }

  void exchange_cards() {
    const Card card = card_of(settings_, rails_, near_, result_.link_matrix.has_value());
    cards_ = client_.all_gather(card);
    check_cards(cards_, own());
    result_.overrides = cards_[0].overrides;
    result_.tuner = cards_[0].tuner;
    result_.streams = cards_[0].streams;
    result_.net = cards_[0].net;
    if (!(result_.overrides == card.overrides) || std::memcmp(&result_.tuner, &card.tuner, sizeof card.tuner) != 0) {
      log(LogLevel::warn, "rank %d was given other settings for the choice of algorithms than rank 0, whose hold",
          rank_);
    }
    result_.peers = peers_of(cards_);
    result_.ranks_on_host = std::max(ranks_on_host_of(cards_, card), settings_.ranks_on_host);
    result_.roomy = settings_.roomy && std::all_of(cards_.begin(), cards_.end(), [&](const Card& one) {
                      return cores_on_host_of(cards_, one) >= ranks_on_host_of(cards_, one);
                    });
    result_.cores_on_host = std::max(cores_on_host_of(cards_, card), settings_.cores_on_host);
  }

  // Rank 0's holds for all, and the file need only be there.
  void read_links() {
    if (rank_ != 0 || client_.nranks() == 1) return;
    result_.link_matrix = settings_.link_matrix;
    const std::string& path = settings_.link_matrix_path;
    if (!result_.link_matrix && !path.empty()) {
      result_.link_matrix = read_link_matrix("CCORE_LINK_MATRIX=" + path, path, client_.nranks());
    }
  }

  void share_links() {
    if (cards_[0].linked == 0) return;
    const std::vector<float> mine = result_.link_matrix ? result_.link_matrix->gbytes_per_s : std::vector<float>();
    const auto nranks = static_cast<size_t>(client_.nranks());
    result_.link_matrix = LinkMatrix{client_.nranks(), client_.concatenate(mine)};
    if (result_.link_matrix->gbytes_per_s.size() != nranks * nranks) {
      throw Error(CC_ERROR_INTERNAL, "the matrix of links of rank 0 did not arrive whole");
    }
  }

  void warn_of_other_wishes() const {
    const Card& card = cards_[own()];
    const StreamWish& counts = cards_.front().streams;
    if (card.streams.streams != counts.streams || card.streams.frame_bytes != counts.frame_bytes) {
      log(LogLevel::warn,
          "rank %d has CCORE_TCP_STREAMS=%d and CCORE_TCP_FRAME_BYTES=%d, rank 0 has %d and %d, which count for all",
          rank_, card.streams.streams, card.streams.frame_bytes, counts.streams, counts.frame_bytes);
    }
    for (size_t peer = 0; peer < cards_.size(); ++peer) {
      if (cards_[peer].nrails < card.nrails && !shares_memory_with(peer)) {
        log(LogLevel::warn, "%s has %d of the interfaces of CCORE_SOCKET_IFNAME, rank %d has %d: the rest is unused",
            result_.peers[peer].name.c_str(), cards_[peer].nrails, rank_, card.nrails);
      }
    }
  }

  // The lowest rank of each node makes a segment; the others try to map it. Who cannot, talks TCP.
  void share_segment() {
    const Place& place = result_.peers[own()].place;
    const bool wanted = place.local_size > 1 && settings_.transport != CC_TRANSPORT_TCP;
    SegmentName mine{};
    if (wanted && place.leader == rank_) {
      try {
        const auto ring_bytes = static_cast<size_t>(settings_.ring_bytes);
        result_.segment.emplace(Segment::create(place.local_size, ring_bytes, slot_bytes()));
        mine = result_.segment->name();
      } catch (const Error& error) {
        if (error.code() != CC_ERROR_SYSTEM) throw;
        log(LogLevel::warn, "no shared memory on this node: %s", error.what());
      }
    }
    const auto names = client_.all_gather(mine);
    const SegmentName& name = names[static_cast<size_t>(place.leader)];
    if (wanted && place.leader != rank_ && name.nlocal == place.local_size) {
      try {
        result_.segment.emplace(Segment::open(name));
      } catch (const Error& error) {
        log(LogLevel::warn, "cannot share memory with rank %d: %s", place.leader, error.what());
      }
    }
    mapped_ = client_.all_gather(static_cast<uint8_t>(result_.segment.has_value()));
  }

  // Faults are injected into links, so with them everything goes over links.
  size_t slot_bytes() const { return settings_.fault_seed == 0 ? static_cast<size_t>(settings_.slot_bytes) : 0; }

  void make_arena() {
    if (!result_.segment || !result_.segment->arena()) return;
    std::vector<int> local_of;
    for (size_t peer = 0; peer < cards_.size(); ++peer) {
      const bool shares = peer == own() || shares_memory_with(peer);
      local_of.push_back(shares ? result_.peers[peer].place.local_rank : -1);
    }
    result_.arena = std::make_unique<Arena>(*result_.segment, result_.peers[own()].place.local_rank,
                                            std::move(local_of), result_.cores_on_host >= result_.ranks_on_host);
  }

  // Only what all ranks do together uses it. All of them know alike whether they share one arena.
  void reach_across() {
    if (client_.nranks() == 1) {
      result_.cross_memory_obstacle = "there is one rank";
    } else if (!result_.arena || !result_.arena->has_all()) {
      result_.cross_memory_obstacle = "the ranks do not all share memory";
    } else {
      std::vector<std::string> names;
      for (const Peer& peer : result_.peers) names.push_back(peer.name);
      CrossMemoryProbe probe = probe_cross_memory(&client_, rank_, names, settings_.cross_memory);
      result_.cross_memory = std::move(probe.memory);
      result_.cross_memory_obstacle = std::move(probe.obstacle);
    }
  }

  bool shares_memory_with(size_t peer) const {
    return result_.peers[peer].place.node == result_.peers[own()].place.node && mapped_[peer] && mapped_[own()];
  }

  void connect() {
    MeshPlan plan;
    plan.rank = rank_;
    for (size_t peer = 0; peer < cards_.size(); ++peer) {
      const bool tcp = peer != own() && !shares_memory_with(peer);
      if (tcp && settings_.transport == CC_TRANSPORT_SHM) {
        throw Error(CC_ERROR_INVALID_USAGE,
                    "shared memory was demanded, but not possible with " + result_.peers[peer].name);
      }
      plan.rails.push_back(rails_of(cards_[peer]));
      plan.shared.push_back(rails_between(cards_[own()], cards_[peer]));
      plan.streams.push_back(tcp ? streams_between(cards_, own(), peer).streams : 0);
      plan.names.push_back(result_.peers[peer].name);
    }
    warn_of_other_wishes();
    Mesh mesh = mesh_of(plan);
    result_.control = std::move(mesh.control);
    std::vector<std::unique_ptr<Link>> rdma = rdma_links(plan, mesh);
    const int64_t seed = settings_.fault_seed;
    for (size_t peer = 0; peer < cards_.size(); ++peer) {
      std::unique_ptr<Link> link;
      if (!rdma.empty() && rdma[peer]) {
        link = std::move(rdma[peer]);
      } else if (!mesh.data[peer].empty()) {
        link = tcp_link(std::move(mesh.data[peer]), peer);
      } else if (peer != own()) {
        link = std::make_unique<ShmLink>(*result_.segment, result_.peers[own()].place.local_rank,
                                         result_.peers[peer].place.local_rank);
      }
      if (link && seed != 0) {
        link =
            std::make_unique<FaultLink>(std::move(link), static_cast<uint64_t>(seed) * 1000003 + own() * 1009 + peer);
      }
      result_.links.push_back(std::move(link));
    }
  }

  // By rank; empty where TCP is used. All ranks decide alike.
  std::vector<std::unique_ptr<Link>> rdma_links(const MeshPlan& plan, const Mesh& mesh) {
    if (result_.net == Net::tcp) return {};
    RdmaPlan wanted;
    wanted.rank = rank_;
    wanted.local_rank = result_.peers[own()].place.local_rank;
    wanted.own = rails_.front();
    wanted.around = around_;
    wanted.wish = settings_.rdma;
    wanted.names = plan.names;
    RdmaMesh made = connect_rdma(&client_, wanted, mesh.data);
    if (!made.obstacle.empty() && result_.net == Net::rdma) {
      throw Error(CC_ERROR_INVALID_USAGE, "CCORE_NET=rdma, but RDMA cannot be used by " + made.obstacle);
    }
    if (!made.obstacle.empty() && rank_ == 0) {
      log_always("TCP between nodes instead of RDMA, which cannot be used by %s", made.obstacle.c_str());
    }
    result_.rdma_rails = std::move(made.rails);
    result_.rdma = std::move(made.text);
    result_.rdma_obstacle = std::move(made.obstacle);
    return std::move(made.links);
  }

  Mesh mesh_of(const MeshPlan& plan) {
    try {
      Mesh mesh = connect_mesh(plan, &*reception_, id_.secret, client_.deadline(), client_.alarm());
      reception_.reset();
      return mesh;
    } catch (const Error& error) {
      // A connection that breaks may be that of a rank which gave up because of a third one: the root knows.
      if (error.code() == CC_ERROR_REMOTE) client_.await_news(kCauseMs);
      throw;
    }
  }

  std::unique_ptr<Link> tcp_link(std::vector<Connection> connections, size_t peer) const {
    const std::string& name = result_.peers[peer].name;
    if (connections.size() == 1) return std::make_unique<TcpLink>(std::move(connections.front()), name);
    const auto frame_bytes = static_cast<size_t>(streams_between(cards_, own(), peer).frame_bytes);
    return std::make_unique<StripeLink>(std::move(connections), frame_bytes, name);
  }

  const UniqueId& id_;
  int rank_;
  const Settings& settings_;
  RendezvousClient client_;
  std::optional<Reception> reception_;
  std::vector<Address> rails_;
  Surroundings around_;
  std::vector<bool> near_;  // by rail: it is one of those nearest to this rank's GPU
  std::vector<Card> cards_;
  std::vector<uint8_t> mapped_;
  Connections result_;
};

}  // namespace

Connections connect_ranks(const UniqueId& id, int rank, int nranks, const Settings& settings) {
  return Connector(id, rank, nranks, settings).run();
}

}  // namespace ccore
