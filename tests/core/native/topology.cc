// Who is on which node, and which network address is chosen.
#include "cases.h"
#include "common/error.h"
#include "expect.h"
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
  for (const ccore::Address& rail : choose_rails(example(), selector)) list += ccore::host_text(rail) + " ";
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
  EXPECT(ccore::node_key("", "one", "boot") != ccore::node_key("", "two", "boot"), "containers of one machine");
  EXPECT(ccore::node_key("x", "one", "boot") == ccore::node_key("x", "two", "other"), "an override decides");
}

}  // namespace

void topology() {
  interfaces();
  places();
}

}  // namespace test
