// The reduction kernels without the rest of the library, for CPUs that are emulated (test_core_aarch64.py).
#include "case_table.h"
#include "cases.h"

namespace test {

CaseTable case_table() {
  CaseTable table;
  table.plain = {{"reduction", reduction}};
  return table;
}

}  // namespace test
