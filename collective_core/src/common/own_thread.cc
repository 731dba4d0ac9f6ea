#include "common/own_thread.h"

#include <initializer_list>

#include "common/error.h"

namespace ccore {

SignalsHeld::SignalsHeld() {
  sigset_t held;
  sigfillset(&held);
  for (const int own : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP}) sigdelset(&held, own);
  pthread_sigmask(SIG_SETMASK, &held, &before_);
}

SignalsHeld::~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void throw_no_thread(const std::system_error& error) {
  throw Error(CC_ERROR_SYSTEM, "cannot start a thread: " + errno_text(error.code().value()) +
                                   " (limits: ulimit -u, and pids.max of a container)");
}

}  // namespace ccore
