#include "engine/split.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "collectives/all_gather/all_gather.h"

namespace ccore {
namespace {

// Where the first rank of a part meets the others of it; travels as bytes.
struct Offer {
  int32_t code = CC_SUCCESS;
  cc_unique_id id{};
  char why[108] = {};
};

Offer offer_from(const Communicator& parent) {
  Offer offer;
  try {
    offer.id = encode(make_unique_id(parent.own_address()));
  } catch (const Error& error) {
    offer.code = error.code();
    std::strncpy(offer.why, error.what(), sizeof offer.why - 1);
  }
  return offer;
}

// None where the links of the whole do not join these ranks.
std::optional<LinkMatrix> links_of(const std::optional<LinkMatrix>& whole, const std::vector<int>& members) {
  if (!whole) return std::nullopt;
  const LinkMatrix part = part_of(*whole, members);
  const std::vector<bool> reached = reachable(part);
  return std::find(reached.begin(), reached.end(), false) == reached.end() ? std::optional<LinkMatrix>(part)
                                                                           : std::nullopt;
}

}  // namespace

std::vector<int> split_members(const std::vector<SplitWish>& wishes, int self) {
  std::vector<int> members;
  const int color = wishes[static_cast<size_t>(self)].color;
  if (color == CC_SPLIT_NOCOLOR) return members;
  for (int rank = 0; rank < static_cast<int>(wishes.size()); ++rank) {
    if (wishes[static_cast<size_t>(rank)].color == color) members.push_back(rank);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return wishes[static_cast<size_t>(a)].key < wishes[static_cast<size_t>(b)].key;
  });
  return members;
}

std::optional<Seat> split(Communicator* parent, const SplitWish& wish, const cc_config* config) {
  Seat seat{{}, 0, 0, settings_from(config, &parent->settings())};
  const int self = parent->rank();
  Offer offer;
  Operation operation;
  operation.kind = Kind::split;
  parent->run(operation, 0, [&](const Context& context) {
    const std::vector<int> members = split_members(gather_all(context, wish), self);
    const bool leads = !members.empty() && members.front() == self;
    const std::vector<Offer> offers = gather_all(context, leads ? offer_from(*parent) : Offer());
    if (members.empty()) return;
    offer = offers[static_cast<size_t>(members.front())];
    seat.rank = static_cast<int>(std::find(members.begin(), members.end(), self) - members.begin());
    seat.nranks = static_cast<int>(members.size());
    seat.settings.link_matrix = links_of(parent->settings().link_matrix, members);
  });
  if (seat.nranks == 0) return std::nullopt;
  // The parent is not harmed: all its ranks have ended the operation.
  if (offer.code != CC_SUCCESS) {
    throw Error(static_cast<cc_result>(offer.code),
                std::string("no rendezvous for the new communicator: ") + offer.why);
  }
  seat.id = decode(offer.id);
  return seat;
}

}  // namespace ccore
