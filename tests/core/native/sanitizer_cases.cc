// Threads that meet in shared memory and on sockets, aborts, and what parses bytes from others.
#include "case_table.h"
#include "cases.h"

namespace test {

CaseTable case_table() {
  CaseTable table;
  table.plain = {{"cma", cma},
                 {"cuda-flags", cuda_flags},
                 {"cuda-tuning", cuda_tuning},
                 {"failures", failures},
                 {"fuzz", fuzz},
                 {"rdma", rdma},
                 {"registered-memory", registered_memory},
                 {"rendezvous", rendezvous},
                 {"seals", seals},
                 {"tour", tour}};
  return table;
}

}  // namespace test
