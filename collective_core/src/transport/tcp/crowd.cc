#include "transport/tcp/crowd.h"

#include <sys/resource.h>

#include <cstring>
#include <utility>

namespace ccore {
namespace {

constexpr size_t kMostUnproven = 1024;
constexpr size_t kShareOfDescriptors = 4;

Crowd::Host host_of(const Address& address) {
  Crowd::Host host{};
  std::memcpy(host.data(), address.host, host.size());
  const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  const bool link_local = host[0] == 0xfe && (host[1] & 0xc0) == 0x80;  // all hosts of a link have the same /64
  if (address.family == AF_INET6 && !link_local && std::memcmp(host.data(), mapped, sizeof mapped) != 0) {
    std::fill(host.begin() + 8, host.end(), static_cast<unsigned char>(0));
  }
  return host;
}

}  // namespace

void Crowd::add(Applicant applicant, const Address& from, int64_t now_ns) {
  members_.push_back(Member{std::move(applicant), host_of(from), now_ns});
  ++counts_[members_.back().host];
}

Crowd::Place Crowd::erase(Place place) {
  const auto count = counts_.find(place->host);
  if (--count->second == 0) counts_.erase(count);
  return members_.erase(place);
}

Crowd::Place Crowd::oldest_of_largest() {
  const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
  const size_t largest = std::max_element(counts_.begin(), counts_.end(), fewer)->second;
  return std::find_if(members_.begin(), members_.end(),
                      [&](const Member& one) { return counts_.at(one.host) == largest; });
}

std::optional<Crowd::Place> Crowd::victim(int64_t now_ns) {
  if (members_.empty() || next_victim_ns() > now_ns) return std::nullopt;
  return now_ns - members_.front().since_ns >= kLongNs ? members_.begin() : oldest_of_largest();
}

int64_t Crowd::next_victim_ns() {
  return std::min(members_.front().since_ns + kLongNs, oldest_of_largest()->since_ns + least_ns_);
}

size_t most_unproven() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMostUnproven;
  return std::clamp(static_cast<size_t>(limit.rlim_cur) / kShareOfDescriptors, size_t{1}, kMostUnproven);
}

}  // namespace ccore
