/* Preloaded into a rank: a connection is only made when its socket has been waited for three times, and each of these
 * waits ends early by a signal: a host that is farther away than a timer of the program's is long. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

enum { most = 1024 };
static int waits[most];

int connect(int fd, const struct sockaddr* address, socklen_t size) {
  int (*real)(int, const struct sockaddr*, socklen_t) =
      (int (*)(int, const struct sockaddr*, socklen_t))dlsym(RTLD_NEXT, "connect");
  const int result = real(fd, address, size);
  if (address->sa_family != AF_INET || fd >= most || (result != 0 && errno != EINPROGRESS)) return result;
  waits[fd] = 3;
  errno = EINPROGRESS;
  return -1;
}

int poll(struct pollfd* fds, nfds_t count, int timeout) {
  int (*real)(struct pollfd*, nfds_t, int) = (int (*)(struct pollfd*, nfds_t, int))dlsym(RTLD_NEXT, "poll");
  for (nfds_t i = 0; i < count; ++i) {
    const int fd = fds[i].fd;
    if (fd < 0 || fd >= most || waits[fd] == 0 || fds[i].events != POLLOUT) continue;
    if (timeout == 0) return 0;
    --waits[fd];
    errno = EINTR;
    return -1;
  }
  return real(fds, count, timeout);
}
