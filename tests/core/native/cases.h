// The cases of the test program; each throws test::Failed.
#pragma once

#include <string>

namespace test {

void arena();
void choose();
void costs();
void cpu_reduce();
void schedules();
void schedules_all_reduce();
void topology();
void reduction();
void reduction_levels();  // a part of reduction
void tour();
void wire();
void transfers();
void receive_any();
void split();
void desync();
void endurance();
void fuzz();
void seals();
void recorder();
void cma();
void cuda_choice();
void cuda_descriptors();
void cuda_flags();
void cuda_nvlink();
void cuda_segments();
void cuda_tuning();
void siblings();
void siblings_failures();
void registered_memory();
void rdma();
void rdma_64();
void rendezvous();
void strangers();  // a part of rendezvous
void failures();
void late_rank();
void late_readers();
void lifecycle();
void stripes();
void algorithms(const std::string& layout, int nranks);
void topk();
void topk_levels();
void topk_ranks();
void tuner();
void tuner_cache();
void describe();
void device_memory();
void tuner_comm();
void memory();
void packing();
void perf_check();
void n_trees();
void aborts();
void matrix(const std::string& layout, int nranks);

}  // namespace test
