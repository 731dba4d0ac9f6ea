// Connections that a forked child does not keep. As long as any process has one open, its other end does not see that
// the process which uses it has died: a rank that was killed would be missed at a deadline only, while a worker that it
// had forked lives on.
#pragma once

#include <vector>

namespace ccore {

class NotInherited {
 public:
  // In a child made by fork(), each of fds is a copy of `instead` from the beginning: its number stays taken, so that
  // closing it closes nothing else.
  NotInherited(int instead, std::vector<int> fds);
  // Before they are closed.
  ~NotInherited();
  NotInherited(const NotInherited&) = delete;
  NotInherited& operator=(const NotInherited&) = delete;

  // Calls nothing that allocates: other threads may have held any lock when the child was made.
  void replace() const;

 private:
  int instead_;
  std::vector<int> fds_;
};

}  // namespace ccore
