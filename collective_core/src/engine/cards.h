// What every rank tells every other before they connect, and what each concludes from it: all of them the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collective_core/collective_core.h"
#include "collectives/choose.h"
#include "common/source_digest.h"
#include "engine/settings.h"
#include "topology/cpus.h"
#include "topology/node.h"
#include "transport/tcp/socket.h"
#include "transport/tcp/stream_settings.h"
#include "tuner/settings.h"

namespace ccore {

// Travels as bytes.
struct Card {
  uint64_t sources = kSourceDigest;  // comes first in every version
  uint32_t version = CC_VERSION_NUMBER;
  int32_t transport = CC_TRANSPORT_AUTO;
  int64_t pid = 0;
  Address rails[kMostRails];  // where this rank listens; the first has the control connections too
  int32_t nrails = 0;
  bool near_rails[kMostRails] = {};  // those nearest to this rank's GPU; without a GPU all of them
  int32_t linked = 0;  // this rank has a matrix of links
  CpuSet cpus;  // that this process may use
  StreamWish streams;
  Net net = Net::tcp;
  char host[CC_HOST_BYTES] = {};
  char boot[64] = {};
  char node[CC_HOST_BYTES + 64] = {};
  Overrides overrides;
  TunerSettings tuner;
};

// This rank's own. rails: where it listens, kMostRails at most; near: those near its GPU, as many. linked: it has a matrix
// of links.
Card card_of(const Settings& settings, const std::vector<Address>& rails, const std::vector<bool>& near, bool linked);
// By rank. Throws CC_ERROR_INVALID_USAGE unless all run one build and can be reached from rank `own`.
void check_cards(const std::vector<Card>& cards, size_t own);

struct Peer {
  std::string host;
  int64_t pid = 0;
  Address address;
  Place place;
  std::string name;  // "rank 2 (host gpu01, pid 4711)"
};

std::vector<Peer> peers_of(const std::vector<Card>& cards);

std::vector<Address> rails_of(const Card& card);
// The rails, by their numbers, that take the data between two ranks: those near the GPUs of both, else all that both have.
// Rails with one number are one network, so a rank near one rail and a rank near another need both to reach each other.
std::vector<size_t> rails_between(const Card& one, const Card& other);
// How many of the ranks share the host of that one.
int ranks_on_host_of(const std::vector<Card>& cards, const Card& card);
// The CPUs that these may use together; see cores_of().
int cores_on_host_of(const std::vector<Card>& cards, const Card& card);
// Of the connections between two ranks.
StreamSettings streams_between(const std::vector<Card>& cards, size_t rank, size_t peer);

}  // namespace ccore
