/* Preloaded into a rank: while the directory LISTEN_GATE exists, every port that is opened for listening is announced
 * by an empty file of its number in it, and the call returns when that file is gone. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int listen(int fd, int backlog) {
  int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "listen");
  const int result = real(fd, backlog);
  struct sockaddr_in address;
  socklen_t size = sizeof address;
  const char* gate = getenv("LISTEN_GATE");
  if (result != 0 || !gate || getsockname(fd, (struct sockaddr*)&address, &size) != 0 ||
      address.sin_family != AF_INET) {
    return result;
  }
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", gate, ntohs(address.sin_port));
  const int mark = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (mark < 0) return result; /* there is no gate */
  close(mark);
  for (int i = 0; i < 20000 && access(path, F_OK) == 0; ++i) usleep(1000);
  return result;
}
