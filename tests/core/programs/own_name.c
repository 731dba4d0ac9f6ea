/* Preloaded into a rank: the name gpu01 stands for 127.0.1.1, as its own name does on a host of Debian or Ubuntu. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>

int getaddrinfo(const char* node, const char* service, const struct addrinfo* hints, struct addrinfo** found) {
  int (*real)(const char*, const char*, const struct addrinfo*, struct addrinfo**) =
      (int (*)(const char*, const char*, const struct addrinfo*, struct addrinfo**))dlsym(RTLD_NEXT, "getaddrinfo");
  return real(node && strcmp(node, "gpu01") == 0 ? "127.0.1.1" : node, service, hints, found);
}
