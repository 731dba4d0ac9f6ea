#include "case_table.h"
#include "cases.h"

namespace test {

CaseTable case_table() {
  CaseTable table;
  table.plain = {
      {"aborts", aborts},
      {"arena", arena},
      {"cma", cma},
      {"choose", choose},
      {"costs", costs},
      {"cpu-reduce", cpu_reduce},
      {"cuda-choice", cuda_choice},
      {"cuda-descriptors", cuda_descriptors},
      {"cuda-flags", cuda_flags},
      {"cuda-nvlink", cuda_nvlink},
      {"cuda-segments", cuda_segments},
      {"cuda-tuning", cuda_tuning},
      {"describe", describe},
      {"desync", desync},
      {"device-memory", device_memory},
      {"endurance", endurance},
      {"failures", failures},
      {"fuzz", fuzz},
      {"late-rank", late_rank},
      {"late-readers", late_readers},
      {"lifecycle", lifecycle},
      {"memory", memory},
      {"n-trees", n_trees},
      {"packing", packing},
      {"perf-check", perf_check},
      {"receive-any", receive_any},
      {"rdma", rdma},
      {"rdma-64", rdma_64},
      {"recorder", recorder},
      {"reduction", reduction},
      {"registered-memory", registered_memory},
      {"rendezvous", rendezvous},
      {"schedules", schedules},
      {"schedules-all-reduce", schedules_all_reduce},
      {"seals", seals},
      {"siblings", siblings},
      {"siblings-failures", siblings_failures},
      {"split", split},
      {"stripes", stripes},
      {"topk", topk},
      {"topk-levels", topk_levels},
      {"topk-ranks", topk_ranks},
      {"topology", topology},
      {"tour", tour},
      {"transfers", transfers},
      {"tuner", tuner},
      {"tuner-cache", tuner_cache},
      {"tuner-comm", tuner_comm},
      {"wire", wire},
  };
  table.on_ranks = {{"matrix", matrix}, {"algorithms", algorithms}};
  return table;
}

}  // namespace test
