// Each case throws std::exception on a failure. library: the path of libnccl-net-ccore.so.
#pragma once

#include <string>

namespace ccore::nccl {

void test_versions(const std::string& library);
void test_messages(const std::string& library);
void test_short_calls(const std::string& library);
void test_lost_peers(const std::string& library);
void test_strangers(const std::string& library);
void test_wrong_handles(const std::string& library);
void test_interfaces(const std::string& library);
void test_tuner(const std::string& library);

}  // namespace ccore::nccl
