/* Preloaded into a rank: every TCP connection that it makes within 127.0.0.1 goes to the port PROXY_PORT there. Which
 * port was meant is the content of a file in the directory PROXY_FOLDER; the connection's own port is its name. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

static int leave_note(int fd, int meant) {
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof own;
  if (bind(fd, (struct sockaddr*)&own, sizeof own) != 0) return -1; /* so that it has a port */
  if (getsockname(fd, (struct sockaddr*)&own, &size) != 0) return -1;
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", getenv("PROXY_FOLDER"), ntohs(own.sin_port));
  FILE* note = fopen(path, "we");
  if (!note) return -1;
  fprintf(note, "%d\n", meant);
  return fclose(note);
}

int connect(int fd, const struct sockaddr* address, socklen_t size) {
  int (*real)(int, const struct sockaddr*, socklen_t) =
      (int (*)(int, const struct sockaddr*, socklen_t))dlsym(RTLD_NEXT, "connect");
  struct sockaddr_in to;
  if (address->sa_family != AF_INET || size < sizeof to) return real(fd, address, size);
  to = *(const struct sockaddr_in*)address;
  if (ntohl(to.sin_addr.s_addr) != INADDR_LOOPBACK) return real(fd, address, size);
  if (leave_note(fd, ntohs(to.sin_port)) != 0) abort();
  to.sin_port = htons((unsigned short)atoi(getenv("PROXY_PORT")));
  return real(fd, (struct sockaddr*)&to, sizeof to);
}
