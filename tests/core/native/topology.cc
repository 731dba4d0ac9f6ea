// Who is on which node, which network address is chosen, and where devices are.
#include <stdlib.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "cases.h"
#include "common/error.h"
#include "engine/cards.h"
#include "expect.h"
#include "sysfs.h"
#include "topology/cpus.h"
#include "topology/describe_gpu.h"
#include "topology/interfaces.h"
#include "topology/node.h"

namespace test {
namespace {

std::vector<ccore::Interface> example() {
  return {{"lo", ccore::resolve("127.0.0.1", 0)},   {"docker0", ccore::resolve("172.17.0.1", 0)},
          {"eth0", ccore::resolve("fd00::1", 0)},   {"eth0", ccore::resolve("10.0.0.1", 0)},
          {"eth01", ccore::resolve("10.0.1.1", 0)}, {"ib0", ccore::resolve("fd00::2", 0)}};
}

std::string chosen(const std::string& selector) { return ccore::host_text(choose_address(example(), selector)); }

std::string rails(const std::string& selector) {
  std::string list;
  for (const ccore::Interface& rail : choose_rails(example(), selector)) list += ccore::host_text(rail.address) + " ";
  return list;
}

void interfaces() {
  EXPECT(chosen("") == "10.0.0.1", chosen(""));
  EXPECT(chosen("lo") == "127.0.0.1", chosen("lo"));
  EXPECT(chosen("docker0") == "172.17.0.1", chosen("docker0"));
  EXPECT(chosen("=eth01") == "10.0.1.1", chosen("=eth01"));
  EXPECT(chosen("bond,eth") == "10.0.0.1", chosen("bond,eth"));
  EXPECT(chosen("ib") == "fd00::2", chosen("ib"));
  EXPECT(chosen("^docker,eth") == "fd00::2", chosen("^docker,eth"));
  EXPECT(rails("") == "10.0.0.1 ", rails(""));
  EXPECT(rails("eth") == "10.0.0.1 ", rails("eth"));
  EXPECT(rails("ib,eth") == "fd00::2 10.0.0.1 ", rails("ib,eth"));
  EXPECT(rails("eth,wlan,eth") == "10.0.0.1 10.0.1.1 ", rails("eth,wlan,eth"));
  EXPECT(rails("=eth01,eth0,eth0") == "10.0.1.1 10.0.0.1 ", rails("=eth01,eth0,eth0"));
  EXPECT(rails("^docker") == "10.0.0.1 ", rails("^docker"));
  try {
    rails("wlan");
    fail(__FILE__, __LINE__, "a rail that does not exist was accepted");
  } catch (const ccore::Error& error) {
    EXPECT(error.code() == CC_ERROR_INVALID_ARGUMENT, error.what());
  }
  try {
    chosen("wlan");
    fail(__FILE__, __LINE__, "an interface that does not exist was accepted");
  } catch (const ccore::Error& error) {
    EXPECT(error.code() == CC_ERROR_INVALID_ARGUMENT, error.what());
    EXPECT(contains(error.what(), "eth01 10.0.1.1"), error.what());
  }
  std::vector<ccore::Interface> unplugged = example();
  unplugged[2].running = unplugged[3].running = false;
  EXPECT(ccore::host_text(choose_address(unplugged, "")) == "10.0.1.1", "an interface without a carrier was chosen");
  EXPECT(ccore::host_text(choose_address(unplugged, "=eth0")) == "10.0.0.1", "it was named");
  for (ccore::Interface& one : unplugged) one.running = false;
  EXPECT(ccore::host_text(choose_address(unplugged, "")) == "10.0.0.1", "none of them has a carrier");
  const std::vector<ccore::Interface> alone = {{"lo", ccore::resolve("127.0.0.1", 0)}};
  EXPECT(ccore::host_text(choose_address(alone, "")) == "127.0.0.1", "loopback is better than nothing");
}

void places() {
  const auto places = ccore::places_of({"b", "a", "b", "a", "c"});
  const int nodes[] = {0, 1, 0, 1, 2};
  const int local_ranks[] = {0, 0, 1, 1, 0};
  const int sizes[] = {2, 2, 2, 2, 1};
  const int leaders[] = {0, 1, 0, 1, 4};
  for (size_t rank = 0; rank < 5; ++rank) {
    EXPECT(places[rank].node == nodes[rank], "node of ", rank);
    EXPECT(places[rank].local_rank == local_ranks[rank], "local rank of ", rank);
    EXPECT(places[rank].local_size == sizes[rank], "local size of ", rank);
    EXPECT(places[rank].leader == leaders[rank], "leader of ", rank);
  }
  const ccore::NodeOrder dealt(ccore::places_of({"a", "b", "a", "c", "b"}));
  const ccore::NodeOrder blocked(ccore::places_of({"a", "a", "b"}));
  EXPECT(!dealt.is_that_of_ranks() && blocked.is_that_of_ranks(), "node by node");
  const std::vector<int> node_by_node = {0, 2, 1, 4, 3};
  for (int place = 0; place < 5; ++place) {
    EXPECT(dealt.rank_at(place) == node_by_node[static_cast<size_t>(place)], "the rank at ", place);
    EXPECT(dealt.place_of(dealt.rank_at(place)) == place, "back from ", place);
  }
  EXPECT(ccore::node_key("", "one", "boot") != ccore::node_key("", "two", "boot"), "containers of one machine");
  EXPECT(ccore::node_key("x", "one", "boot") == ccore::node_key("x", "two", "other"), "an override decides");
}

// A GPU and a NIC behind one switch, a NIC behind another, and some farther away.
void devices() {
  Sysfs sysfs;
  sysfs.add("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0", 0);
  sysfs.add("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0", 0, "infiniband", "mlx5_0");
  sysfs.add("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0", 0, "net",
            "ens1");
  sysfs.add("pci0000:15/0000:15:02.0/0000:1d:00.0", 0, "net", "ens2");
  sysfs.add("pci0000:00/0000:00:1c.0/0000:02:00.0/virtio3", 0, "net", "eth0");
  sysfs.add("pci0000:80/0000:80:01.0/0000:81:00.0", 1, "net", "ens3");
  sysfs.add("virtual/net/lo", -1, "net", "lo");
  std::ofstream(sysfs.root() + "/devices/pci0000:00/0000:00:1c.0/0000:02:00.0/numa_node") << "0\n";
  const auto gpu = ccore::pci_place(sysfs.root(), "00000000:18:00.0");
  EXPECT(gpu && gpu->address == "0000:18:00.0" && gpu->numa_node == 0 && gpu->path.size() == 5, "the GPU");
  EXPECT(!ccore::pci_place(sysfs.root(), "0000:99:00.0") && !ccore::pci_place(sysfs.root(), "18:0"), "no such device");
  EXPECT(distance(*gpu, *gpu) == ccore::PciDistance::same, "itself");
  ccore::NvLinks links;
  links.to_switches = 18;
  const std::vector<ccore::Nic> nics = ccore::nics(sysfs.root());
  const std::string text = ccore::describe(*gpu, links, nics);
  EXPECT(
      text == "0000:18:00.0: NUMA node 0, 18 NVLinks to switches; mlx5_0 PIX, ens1 PXB, ens2 PHB, eth0 NODE, ens3 SYS",
      text);
  const auto nearest = [&](const std::vector<std::string>& interfaces) { return nearest_to(*gpu, interfaces, nics); };
  EXPECT(nearest({"ens3", "ens1", "ens2"}) == std::vector<bool>({false, true, false}), "behind the same switches");
  EXPECT(nearest({"ens2", "eth0"}) == std::vector<bool>({true, false}), "below the same bridge");
  EXPECT(nearest({"ens1", "ens1"}) == std::vector<bool>({true, true}), "equally near");
  EXPECT(nearest({"ens1", "bond0"}) == std::vector<bool>({true, true}), "a bond has no place");
  sysfs.add("pci0000:80/0000:80:02.0/0000:82:00.0", 1, "infiniband", "mlx5_1");
  sysfs.add("pci0000:80/0000:80:02.0/0000:83:00.0", 1, "infiniband", "mlx5_2");
  const std::vector<std::string> devices = {"mlx5_0", "mlx5_1", "mlx5_2"};
  const auto taken = [&](const char* address, int local_rank) {
    return dealt_out(devices, local_rank, ccore::surroundings(sysfs.root(), address));
  };
  EXPECT(taken("0000:18:00.0", 0) == 0 && taken("0000:18:00.0", 5) == 0, "the one behind the GPU's switch");
  EXPECT(taken("0000:81:00.0", 2) == 1 && taken("0000:81:00.0", 3) == 2, "two at the same bridge");
  EXPECT(taken("", 0) == 0 && taken("", 4) == 1, "no GPU");
  links = ccore::NvLinks{0, {"0000:3b:00.0", "0000:3b:00.0", "0000:86:00.0"}};
  const std::string pairs = ccore::describe(*gpu, links, {});
  EXPECT(pairs == "0000:18:00.0: NUMA node 0, 2 NVLinks to 0000:3b:00.0, 1 NVLink to 0000:86:00.0", pairs);
  EXPECT(contains(ccore::describe(*gpu, std::nullopt, {}), "NVLinks unknown"), "without NVML");
}

ccore::CpuSet cpus(std::initializer_list<int> numbers) {
  ccore::CpuSet set;
  for (const int number : numbers) set.add(number);
  return set;
}

ccore::Card near_rails(std::initializer_list<bool> near) {
  ccore::Card card;
  card.nrails = static_cast<int32_t>(near.size());
  std::copy(near.begin(), near.end(), card.near_rails);
  return card;
}

// Both ends of a connection have to come to the same rails, and have one at least.
void rails_of_two_ranks() {
  using Rails = std::vector<size_t>;
  const ccore::Card any = near_rails({true, true}), first = near_rails({true, false}),
                    second = near_rails({false, true});
  EXPECT(rails_between(any, any) == Rails({0, 1}), "no GPU");
  EXPECT(rails_between(first, first) == Rails({0}) && rails_between(any, second) == Rails({1}), "near both");
  EXPECT(rails_between(first, second) == Rails({0, 1}) && rails_between(second, first) == Rails({0, 1}), "none is");
  const ccore::Card one = near_rails({true}), last_of_three = near_rails({false, false, true});
  EXPECT(rails_between(one, last_of_three) == Rails({0}), "the nearest of one is not there on the other");
}

void ranks_of_another_build_are_named() {
  for (const bool version : {true, false}) {
    std::vector<ccore::Card> cards(3, near_rails({true}));
    if (version) cards[2].version = 10203;
    cards[2].sources ^= 1;
    for (const size_t own : {size_t{0}, size_t{1}, size_t{2}}) {
      try {
        check_cards(cards, own);
        fail(__FILE__, __LINE__, "two builds");
      } catch (const ccore::Error& error) {
        std::string named = "rank 0 runs another build of collective_core: ";
        if (own != 2) {
          named = "rank 2 runs another build of collective_core: ";
          if (version) named += "1.2.3 of sources ";
        }
        EXPECT(error.code() == CC_ERROR_INVALID_USAGE && contains(error.what(), named), error.what());
      }
    }
  }
}

// Whether ranks may spin depends on it: each of them needs a core, whether or not its launcher has bound it to one.
void cores() {
  const ccore::CpuSet four = cpus({0, 1, 64, 1023});
  EXPECT(four.count() == 4, four.count());
  EXPECT(ccore::cores_of({four, four}) == 4, "two that share four");
  EXPECT(ccore::cores_of({cpus({0}), cpus({1})}) == 2, "each is bound to its own");
  EXPECT(ccore::cores_of({four, cpus({0}), cpus({1})}) == 4, "the first of the free one has two left");
  EXPECT(ccore::cores_of({cpus({3}), cpus({3})}) == 1, "both are bound to the same one");
  EXPECT(ccore::cores_of({cpus({0}), cpus({0}), four}) == 2, "two of three are");
  EXPECT(ccore::cores_of({}) == 0 && ccore::usable_cpus().count() > 0, "none, and this process");
}

}  // namespace

void topology() {
  interfaces();
  places();
  devices();
  rails_of_two_ranks();
  ranks_of_another_build_are_named();
  cores();
}

}  // namespace test
