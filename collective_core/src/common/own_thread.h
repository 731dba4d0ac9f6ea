// Threads of the library's own, on which nothing of the program's runs.
#pragma once

#include <signal.h>

#include <system_error>
#include <thread>
#include <utility>

namespace ccore {

// While it lives, threads that this one starts are given no signal, but those by which they would have failed
// themselves. A handler of the program would else run in the middle of ours; and a signal that all threads of the
// program have blocked, to wait for it in one place, would find ours and end the process.
class SignalsHeld {
 public:
  SignalsHeld();
  ~SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_;
};

// What std::thread has thrown, as a CC_ERROR_SYSTEM that says what may be done.
[[noreturn]] void throw_no_thread(const std::system_error& error);

template <typename Body>
std::thread own_thread(Body&& body) {
  const SignalsHeld held;
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw_no_thread(error);
  }
}

}  // namespace ccore
