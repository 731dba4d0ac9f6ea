/* Preloaded into a rank: DIE_RANK kills itself before it connects to the DIE_AT-th other port by TCP, counted from 1.
 *
 * A rank first connects to the rendezvous, then to the ranks below it; attempts at one port count once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static int other_ports(in_port_t port) {
  static in_port_t last;
  static int count;
  if (port != last) ++count;
  last = port;
  return count;
}

int connect(int fd, const struct sockaddr* address, socklen_t size) {
  const char* own = getenv("RANK");
  const char* chosen = getenv("DIE_RANK");
  if (own && chosen && strcmp(own, chosen) == 0 && address->sa_family == AF_INET &&
      other_ports(((const struct sockaddr_in*)address)->sin_port) == atoi(getenv("DIE_AT"))) {
    raise(SIGKILL);
  }
  int (*real)(int, const struct sockaddr*, socklen_t) =
      (int (*)(int, const struct sockaddr*, socklen_t))dlsym(RTLD_NEXT, "connect");
  return real(fd, address, size);
}
