#include "rendezvous/reception.h"

#include <poll.h>

#include <utility>

#include "common/error.h"
#include "common/event.h"
#include "common/own_thread.h"

namespace ccore {
namespace {

constexpr int64_t kNoEndMs = int64_t{365} * 24 * 3600 * 1000;

}  // namespace

Reception::Reception(std::vector<UniqueFd> listeners, const Digest& secret)
    : arrival_(make_event()), end_(make_event()) {
  thread_ = own_thread([this, acceptor = Acceptor(std::move(listeners), secret)]() mutable { serve(&acceptor); });
}

Reception::~Reception() {
  signal_event(end_.get());
  thread_.join();
}

void Reception::serve(Acceptor* acceptor) {
  try {
    while (true) {
      auto accepted = acceptor->next(Deadline::in_ms(kNoEndMs), {end_.get()});
      if (!accepted) return;
      const std::lock_guard<std::mutex> lock(mutex_);
      arrived_.push_back(std::move(*accepted));
      signal_event(arrival_.get());
    }
  } catch (const Error&) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failure_ = std::current_exception();
    signal_event(arrival_.get());
  }
}

std::optional<Accepted> Reception::take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (arrived_.empty()) {
    if (failure_) std::rethrow_exception(failure_);
    return std::nullopt;
  }
  Accepted accepted = std::move(arrived_.front());
  arrived_.pop_front();
  return accepted;
}

std::optional<Accepted> Reception::next(const Deadline& deadline, const Alarm& alarm) {
  while (true) {
    clear_event(arrival_.get());  // before take(), so that no arrival is missed
    if (auto accepted = take()) return accepted;
    if (deadline.passed()) return std::nullopt;
    wait_for(arrival_.get(), POLLIN, deadline.remaining_ms(1000), &alarm);
  }
}

}  // namespace ccore
