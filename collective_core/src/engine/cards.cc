#include "engine/cards.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/error.h"

namespace ccore {
namespace {

template <size_t N>
void put(char (&to)[N], const std::string& text) {
  std::strncpy(to, text.c_str(), N - 1);
}

std::string build_text(const Card& card) {
  const uint32_t number = card.version;
  return format("%u.%u.%u of sources %016llx", number / 10000, number / 100 % 100, number % 100,
                static_cast<unsigned long long>(card.sources));
}

}  // namespace

Card card_of(const Settings& settings, const std::vector<Address>& rails, const std::vector<bool>& near, bool linked) {
  Card card;
  card.transport = settings.transport;
  card.pid = getpid();
  std::copy(rails.begin(), rails.end(), card.rails);
  card.nrails = static_cast<int32_t>(rails.size());
  std::copy(near.begin(), near.end(), card.near_rails);
  card.cpus = usable_cpus();
  card.streams = settings.streams;
  put(card.host, host_name());
  put(card.boot, boot_id());
  put(card.node, node_key(settings.node_id, card.host, card.boot));
  card.net = settings.net;
  card.overrides = settings.overrides;
  card.tuner = settings.tuner;
  card.linked = linked ? 1 : 0;
  return card;
}

void check_cards(const std::vector<Card>& cards, size_t own) {
  const Card& card = cards[own];
  int rank = 0;
  for (const Card& other : cards) {
    if (other.sources != card.sources) {
      throw Error(CC_ERROR_INVALID_USAGE, format("rank %d runs another build of collective_core: %s, this one is %s; "
                                                 "install one build on all nodes",
                                                 rank, build_text(other).c_str(), build_text(card).c_str()));
    }
    if (other.nrails < 1 || other.nrails > kMostRails) {
      throw Error(CC_ERROR_INTERNAL, format("rank %d announced %d addresses", rank, other.nrails));
    }
    for (const Address& address : rails_of(other)) {
      if (!is_loopback(address) || std::strcmp(other.host, card.host) == 0) continue;
      throw Error(CC_ERROR_INVALID_USAGE,
                  format("rank %d on host %s can only be reached at %s, which is not an address for host %s; name its "
                         "network with CCORE_SOCKET_IFNAME",
                         rank, other.host, host_text(address).c_str(), card.host));
    }
    ++rank;
  }
}

std::vector<Peer> peers_of(const std::vector<Card>& cards) {
  std::vector<std::string> keys;
  for (const Card& card : cards) {
    keys.push_back(emulated_node_key(card.node, static_cast<int>(keys.size()), cards[0].overrides.intra_size));
  }
  const std::vector<Place> places = places_of(keys);
  std::vector<Peer> peers;
  for (const Card& card : cards) {
    const size_t rank = peers.size();
    const std::string name =
        format("rank %d (host %s, pid %lld)", static_cast<int>(rank), card.host, static_cast<long long>(card.pid));
    peers.push_back(Peer{card.host, card.pid, card.rails[0], places[rank], name});
  }
  return peers;
}

std::vector<Address> rails_of(const Card& card) { return std::vector<Address>(card.rails, card.rails + card.nrails); }

std::vector<size_t> rails_between(const Card& one, const Card& other) {
  std::vector<size_t> near, common;
  for (size_t rail = 0; rail < static_cast<size_t>(std::min(one.nrails, other.nrails)); ++rail) {
    common.push_back(rail);
    if (one.near_rails[rail] && other.near_rails[rail]) near.push_back(rail);
  }
  return near.empty() ? common : near;
}

int ranks_on_host_of(const std::vector<Card>& cards, const Card& card) {
  return static_cast<int>(std::count_if(cards.begin(), cards.end(),
                                        [&](const Card& other) { return std::strcmp(other.boot, card.boot) == 0; }));
}

int cores_on_host_of(const std::vector<Card>& cards, const Card& card) {
  std::vector<CpuSet> sets;
  for (const Card& other : cards) {
    if (std::strcmp(other.boot, card.boot) == 0) sets.push_back(other.cpus);
  }
  return cores_of(std::move(sets));
}

StreamSettings streams_between(const std::vector<Card>& cards, size_t rank, size_t peer) {
  const Card& first = cards.front();
  return plan_streams(first.streams, cores_on_host_of(cards, first) / ranks_on_host_of(cards, first),
                      std::strcmp(cards[peer].boot, cards[rank].boot) == 0,
                      static_cast<int>(rails_between(cards[peer], cards[rank]).size()));
}

}  // namespace ccore
