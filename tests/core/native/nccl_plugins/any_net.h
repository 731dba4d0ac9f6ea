// One face for the tables of all versions, as NCCL itself has one.
#pragma once

#include <functional>
#include <string>

#include "abi/net_tables.h"

namespace ccore::nccl {

struct AnyNet {
  std::string name;
  std::function<Result(Logger)> init;
  std::function<Result(int*)> devices;
  std::function<Result(int, PropertiesV6*)> properties;
  std::function<Result(int, void*, void**)> listen;
  std::function<Result(int, void*, void**)> connect;
  std::function<Result(void*, void**)> accept;
  std::function<Result(void*, void*, size_t, void**)> send;
  std::function<Result(void*, void*, size_t, void**)> receive;
  std::function<Result(void*, int*, int*)> test;
  std::function<Result(void*)> close_send;
  std::function<Result(void*)> close_receive;
  std::function<Result(void*)> close_listener;
  std::function<Result()> finalize;
};

constexpr int kOldestNet = 6;
constexpr int kNewestNet = 12;

// Of the library at `path`; throws std::runtime_error if it has no such table.
AnyNet load_net(const std::string& path, int version);

}  // namespace ccore::nccl
