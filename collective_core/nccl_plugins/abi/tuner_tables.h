// The tables of functions that NCCL looks for as ncclTunerPlugin_v2 to ncclTunerPlugin_v6.
#pragma once

#include "abi/nccl.h"

namespace ccore::nccl {

struct TunerV2 {
  const char* name;
  Result (*init)(size_t ranks, size_t nodes, Logger logger, void** context);
  Result (*choose)(void* context, int collective, size_t bytes, int collnet, int nvls, int operations, int* algorithm,
                   int* protocol, int* channels);
  Result (*destroy)(void* context);
};

struct TunerV3 {
  const char* name;
  Result (*init)(size_t ranks, size_t nodes, Logger logger, void** context);
  Result (*choose)(void* context, int collective, size_t bytes, int operations, float** costs, int algorithms,
                   int protocols, int* channels);
  Result (*destroy)(void* context);
};

struct TunerV4 {
  const char* name;
  Result (*init)(size_t ranks, size_t nodes, Logger logger, void** context);
  Result (*choose)(void* context, int collective, size_t bytes, int operations, float** costs, int algorithms,
                   int protocols, int registered, int* channels);
  Result (*destroy)(void* context);
};

struct TunerV5 {
  const char* name;
  Result (*init)(void** context, uint64_t comm_id, size_t ranks, size_t nodes, Logger logger, void* nvlink_domains,
                 void* constants);
  Result (*choose)(void* context, int collective, size_t bytes, int operations, float** costs, int algorithms,
                   int protocols, int registered, int* channels);
  Result (*finalize)(void* context);
};

struct TunerV6 {
  const char* name;
  Result (*init)(void** context, uint64_t comm_id, size_t ranks, size_t nodes, Logger logger, void* nvlink_domains,
                 void* constants);
  Result (*choose)(void* context, int collective, size_t bytes, int operations, float** costs, int algorithms,
                   int protocols, int registered, int* channels);
  Result (*finalize)(void* context);
  Result (*chunk_bytes)(void* context, int collective, size_t bytes, int algorithm, int protocol, int channels,
                        size_t* chunk_bytes);  // null: NCCL's own
};

static_assert(sizeof(TunerV2) == 4 * 8 && sizeof(TunerV3) == 4 * 8 && sizeof(TunerV4) == 4 * 8);
static_assert(sizeof(TunerV5) == 4 * 8 && sizeof(TunerV6) == 5 * 8);

}  // namespace ccore::nccl
