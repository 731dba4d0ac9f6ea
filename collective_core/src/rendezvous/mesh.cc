#include "rendezvous/mesh.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "rendezvous/reach.h"
#include "transport/tcp/handshake.h"

namespace ccore {
namespace {

Connection reach_rank(const MeshPlan& plan, size_t peer, Purpose purpose, int stream, const Digest& secret,
                      const Deadline& deadline, const Alarm& alarm) {
  const std::vector<Address>& own = plan.rails[static_cast<size_t>(plan.rank)];
  const std::vector<size_t>& shared = plan.shared[peer];
  const size_t rail = purpose == Purpose::control ? 0 : shared[static_cast<size_t>(stream) % shared.size()];
  Hello hello;
  hello.purpose = purpose;
  hello.from = plan.rank;
  hello.to = static_cast<int32_t>(peer);
  hello.nranks = static_cast<int32_t>(plan.rails.size());
  hello.stream = stream;
  // With several rails, the packets must leave by the one that was chosen.
  return reach(plan.rails[peer][rail], secret, hello, deadline, plan.names[peer], own.size() > 1 ? &own[rail] : nullptr,
               &alarm);
}

bool complete(const Mesh& mesh, size_t peer) {
  const auto& data = mesh.data[peer];
  return mesh.control[peer] &&
         std::all_of(data.begin(), data.end(), [](const Connection& one) { return static_cast<bool>(one); });
}

}  // namespace

Mesh connect_mesh(const MeshPlan& plan, Reception* reception, const Digest& secret, const Deadline& deadline,
                  const Alarm& alarm) {
  const size_t size = plan.rails.size();
  const auto rank = static_cast<size_t>(plan.rank);
  Mesh mesh;
  mesh.control.resize(size);
  for (const int streams : plan.streams) mesh.data.emplace_back(static_cast<size_t>(streams));
  for (size_t peer = 0; peer < rank; ++peer) {
    mesh.control[peer] = reach_rank(plan, peer, Purpose::control, 0, secret, deadline, alarm);
    for (int stream = 0; stream < plan.streams[peer]; ++stream) {
      mesh.data[peer][static_cast<size_t>(stream)] =
          reach_rank(plan, peer, Purpose::data, stream, secret, deadline, alarm);
    }
  }
  size_t expected = 0;
  for (size_t peer = rank + 1; peer < size; ++peer) expected += 1 + mesh.data[peer].size();
  while (expected > 0) {
    auto accepted = reception->next(deadline, alarm);
    if (!accepted) {
      for (size_t peer = rank + 1; peer < size; ++peer) {
        if (complete(mesh, peer)) continue;
        throw Error(CC_ERROR_TIMEOUT, plan.names[peer] + " did not connect to " + text(plan.rails[rank].front()) +
                                          " in time (a firewall, or the wrong interface?)");
      }
    }
    const Hello& hello = accepted->hello;
    const auto peer = static_cast<size_t>(hello.from);
    if (hello.to != plan.rank || hello.from <= plan.rank || peer >= size || hello.stream < 0) continue;
    const bool data = hello.purpose == Purpose::data;
    const auto stream = static_cast<size_t>(hello.stream);
    if (data ? stream >= mesh.data[peer].size() : hello.purpose != Purpose::control) continue;
    Connection& slot = data ? mesh.data[peer][stream] : mesh.control[peer];
    if (slot) throw Error(CC_ERROR_INVALID_USAGE, plan.names[peer] + " connected twice");
    slot = std::move(accepted->connection);
    --expected;
  }
  return mesh;
}

}  // namespace ccore
