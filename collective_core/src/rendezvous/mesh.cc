#include "rendezvous/mesh.h"

#include <utility>

#include "common/error.h"
#include "transport/tcp/handshake.h"

namespace ccore {
namespace {

UniqueFd reach(const MeshPlan& plan, size_t peer, Purpose purpose, const Digest& secret,
               const Deadline& deadline) {
  UniqueFd fd = connect_to(plan.addresses[peer], deadline);
  Hello hello;
  hello.purpose = purpose;
  hello.from = plan.rank;
  hello.to = static_cast<int32_t>(peer);
  hello.nranks = static_cast<int32_t>(plan.addresses.size());
  introduce(fd.get(), secret, hello, deadline, plan.names[peer]);
  return fd;
}

}  // namespace

Mesh connect_mesh(const MeshPlan& plan, UniqueFd listener, const Digest& secret, const Deadline& deadline) {
  const size_t size = plan.addresses.size();
  const auto rank = static_cast<size_t>(plan.rank);
  Mesh mesh;
  mesh.control.resize(size);
  mesh.data.resize(size);
  for (size_t peer = 0; peer < rank; ++peer) {
    mesh.control[peer] = reach(plan, peer, Purpose::control, secret, deadline);
    if (plan.wants_data[peer]) mesh.data[peer] = reach(plan, peer, Purpose::data, secret, deadline);
  }
  size_t expected = 0;
  for (size_t peer = rank + 1; peer < size; ++peer) expected += plan.wants_data[peer] ? 2u : 1u;
  Acceptor acceptor(std::move(listener), secret);
  while (expected > 0) {
    auto accepted = acceptor.next(deadline);
    if (!accepted) {
      for (size_t peer = rank + 1; peer < size; ++peer) {
        if (!mesh.control[peer] || (plan.wants_data[peer] && !mesh.data[peer])) {
          throw Error(CC_ERROR_TIMEOUT, plan.names[peer] + " did not connect to " +
                                            text(plan.addresses[rank]) +
                                            " in time (a firewall, or the wrong interface?)");
        }
      }
    }
    const Hello& hello = accepted->hello;
    const auto peer = static_cast<size_t>(hello.from);
    const bool fits = hello.to == plan.rank && hello.from > plan.rank && peer < size;
    if (!fits || (hello.purpose != Purpose::control && hello.purpose != Purpose::data)) continue;
    UniqueFd& slot = hello.purpose == Purpose::control ? mesh.control[peer] : mesh.data[peer];
    if (slot) throw Error(CC_ERROR_INVALID_USAGE, plan.names[peer] + " connected twice");
    slot = std::move(accepted->fd);
    --expected;
  }
  return mesh;
}

}  // namespace ccore
