// Threads that meet in shared memory and on sockets, aborts, and everything that parses what others sent.
#include "case_table.h"
#include "cases.h"

namespace test {

CaseTable case_table() {
  CaseTable table;
  table.plain = {
      {"arena", arena},           {"desync", desync},   {"failures", failures},   {"fuzz", fuzz},
      {"rendezvous", rendezvous}, {"stripes", stripes}, {"transfers", transfers}, {"tuner-cache", tuner_cache},
  };
  table.on_ranks = {{"matrix", matrix}};
  return table;
}

}  // namespace test
