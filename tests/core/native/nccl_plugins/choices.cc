// Pure parts: which interfaces are devices, and what the tuner does with a table.
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "abi/tuner_tables.h"
#include "cases.h"
#include "common/error.h"
#include "common/sha256.h"
#include "connection.h"
#include "expect_plugin.h"
#include "net/devices.h"
#include "tuner/measure.h"

namespace ccore::nccl {
namespace {

constexpr int kAllReduce = 4;
constexpr int kTree = 0, kRing = 1;
constexpr int kLl = 0, kSimple = 2;

NamedAddress named(const char* name, sa_family_t family, unsigned char last) {
  NamedAddress one{name, {}};
  one.address.family = family;
  one.address.host[3] = last;
  return one;
}

std::string names(const std::vector<NamedAddress>& chosen) {
  std::string text;
  for (const NamedAddress& one : chosen) text += (text.empty() ? "" : " ") + one.name;
  return text;
}

std::string with_sum(const std::string& text) { return text + "sha256 " + hex_sha256(text) + "\n"; }

struct Asked {
  int algorithm = kUndefined;
  int protocol = kUndefined;
  int channels = 0;
};

// What NCCL takes after the tuner's answer: the cheapest.
Asked ask(const TunerV5* tuner, void* context, int collective, size_t bytes) {
  float costs[kAlgorithms][kProtocols];
  for (auto& row : costs) {
    for (float& cost : row) cost = kIgnored;
  }
  costs[kTree][kLl] = 30;
  costs[kRing][kLl] = 20;
  costs[kRing][kSimple] = 10;
  Asked asked;
  EXPECT_THAT(tuner->choose(context, collective, bytes, 1, reinterpret_cast<float**>(costs), kAlgorithms, kProtocols, 0,
                            &asked.channels) == kSuccess);
  float least = 1e9F;
  for (int a = 0; a < kAlgorithms; ++a) {
    for (int p = 0; p < kProtocols; ++p) {
      if (costs[a][p] < 0 || costs[a][p] >= least) continue;
      least = costs[a][p];
      asked.algorithm = a;
      asked.protocol = p;
    }
  }
  return asked;
}

bool is(const Asked& asked, int algorithm, int protocol, int channels) {
  return asked.algorithm == algorithm && asked.protocol == protocol && asked.channels == channels;
}

}  // namespace

void test_interfaces(const std::string& /*library*/) {
  const std::vector<NamedAddress> all = {
      named("lo", AF_INET, 1),  named("eth0", AF_INET, 2),  named("eth1", AF_INET, 3),  named("eth10", AF_INET, 4),
      named("ib0", AF_INET, 5), named("eth0", AF_INET6, 6), named("eth2", AF_INET6, 7), named("docker0", AF_INET, 8)};
  EXPECT_THAT(names(select(all, "eth", 0)) == "eth0 eth1 eth10 eth2");
  EXPECT_THAT(names(select(all, "=eth1", 0)) == "eth1");
  EXPECT_THAT(names(select(all, "=eth1,ib0", 0)) == "eth1 ib0");
  EXPECT_THAT(names(select(all, "ib,eth1", 0)) == "eth1 eth10 ib0");
  EXPECT_THAT(names(select(all, "^docker,lo", 0)) == "eth0 eth1 eth10 ib0 eth2");
  EXPECT_THAT(names(select(all, "^=eth1,lo", 0)) == "eth0 eth10 ib0 eth2 docker0");
  EXPECT_THAT(names(select(all, "eth", AF_INET6)) == "eth0 eth2");
  EXPECT_THAT(names(select(all, "eth1:1,ib0", 0)) == "eth1 eth10 ib0");
  EXPECT_THAT(select(all, "eth0", 0).front().address.family == AF_INET);
  EXPECT_THAT(select(all, "wlan", 0).empty());
}

void test_tuner(const std::string& library) {
  void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_THAT(opened);
  for (int version = 2; version <= 6; ++version) {
    const std::string symbol = "ncclTunerPlugin_v" + std::to_string(version);
    const auto* name = static_cast<const char* const*>(dlsym(opened, symbol.c_str()));
    EXPECT_THAT(name && std::string(*name) == "ccore");
  }
  const auto* tuner = static_cast<const TunerV5*>(dlsym(opened, "ncclTunerPlugin_v5"));
  const auto force = reinterpret_cast<decltype(&ccore_nccl_force)>(dlsym(opened, "ccore_nccl_force"));
  const auto last = reinterpret_cast<decltype(&ccore_nccl_last_question)>(dlsym(opened, "ccore_nccl_last_question"));
  const auto key = reinterpret_cast<decltype(&ccore_nccl_table_key)>(dlsym(opened, "ccore_nccl_table_key"));
  EXPECT_THAT(force && last && key);
  char directory[] = "/tmp/ccore-nccl-XXXXXX";
  EXPECT_THAT(mkdtemp(directory));
  const std::string path = std::string(directory) + "/table.txt";
  setenv("CCORE_NCCL_TABLE", path.c_str(), 1);
  void* context = nullptr;
  auto start = [&] { EXPECT_THAT(tuner->init(&context, 1, 2, 2, keep_warning, nullptr, nullptr) == kSuccess); };

  // No table: NCCL's own choice.
  start();
  EXPECT_THAT(is(ask(tuner, context, kAllReduce, 1024), kRing, kSimple, 0));
  ccore_nccl_question question;
  last(&question);
  EXPECT_THAT(question.bytes == 1024 && question.own_algorithm == kRing && question.own_protocol == kSimple);
  EXPECT_THAT(question.available == (1u << 0 | 1u << 3 | 1u << 5));
  force(kTree, kLl, 3);
  EXPECT_THAT(is(ask(tuner, context, kAllReduce, 1024), kTree, kLl, 3));
  force(kTree, kSimple, 3);  // which NCCL cannot use
  EXPECT_THAT(is(ask(tuner, context, kAllReduce, 1024), kRing, kSimple, 0));
  force(kUndefined, kUndefined, 0);
  char text[256];
  EXPECT_THAT(key(text, sizeof text) < sizeof text);
  EXPECT_THAT(std::string(text) == "gpu=unknown; ranks=2; nodes=2; nccl=0; net=own");
  EXPECT_THAT(tuner->finalize(context) == kSuccess);

  const std::string head = "collective_core nccl choices 1\nkey " + std::string(text) + "\n";
  const std::string good = head + "choice all_reduce 0 4096 tree ll 1\nchoice all_reduce 4097 65536 ring ll 0\n";
  std::ofstream(path) << with_sum(good);
  start();
  EXPECT_THAT(is(ask(tuner, context, kAllReduce, 4096), kTree, kLl, 1));
  EXPECT_THAT(is(ask(tuner, context, kAllReduce, 4097), kRing, kLl, 0));
  EXPECT_THAT(is(ask(tuner, context, kAllReduce, 65537), kRing, kSimple, 0));
  EXPECT_THAT(is(ask(tuner, context, kAllReduce - 1, 4096), kRing, kSimple, 0));
  force(-2, 0, 0);
  EXPECT_THAT(is(ask(tuner, context, kAllReduce, 4096), kRing, kSimple, 0));
  force(kUndefined, kUndefined, 0);
  EXPECT_THAT(tuner->finalize(context) == kSuccess);

  setenv("CCORE_NCCL_TUNER", "0", 1);
  start();
  EXPECT_THAT(is(ask(tuner, context, kAllReduce, 4096), kRing, kSimple, 0));
  EXPECT_THAT(tuner->finalize(context) == kSuccess);
  unsetenv("CCORE_NCCL_TUNER");

  const std::pair<std::string, const char*> bad[] = {
      {good, "its checksum is wrong"},
      {with_sum("something else\n"), "it is of another version"},
      {with_sum("collective_core nccl choices 1\nkey gpu=other\n"), "it is for another machine or job"},
      {with_sum(head + "choice all_reduce 0 4096 bush ll 1\n"), "'bush' is not a known name"},
      {with_sum(head + "choice all_reduce 9 4 tree ll 1\n"), "ends before it begins"},
      {with_sum(head + "choice all_reduce 0 x tree ll 1\n"), "'x' is not a number in its range"},
  };
  for (const auto& [content, why] : bad) {
    std::ofstream(path) << content;
    start();
    EXPECT_TEXT(last_warning(), why);
    EXPECT_THAT(is(ask(tuner, context, kAllReduce, 4096), kRing, kSimple, 0));
    EXPECT_THAT(tuner->finalize(context) == kSuccess);
  }
  unlink(path.c_str());
  rmdir(directory);
  unsetenv("CCORE_NCCL_TABLE");
}

}  // namespace ccore::nccl
