/* A SPANK plugin with the options of Pyxis that `render sbatch --container` uses, and with Pyxis' rule for variables: the
 * image's value wins unless --container-env names the variable. It starts no container. Of each task it appends what it
 * received to RECORD. plugstack.conf: required PATH.so RECORD IMAGE_VARIABLE=VALUE
 * The names and the rule are those of args.c in https://github.com/NVIDIA/pyxis. */
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>

SPANK_PLUGIN(pyxis, 1)

static char image[1024], mounts[1024], names[4096];

static int keep(int field, const char *given, int remote) {
  (void)remote;
  char *kept[] = {image, mounts, names};
  size_t room[] = {sizeof image, sizeof mounts, sizeof names};
  if (given == NULL || *given == '\0') return -1;
  snprintf(kept[field], room[field], "%s", given);
  return 0;
}

struct spank_option spank_options[] = {
    {"container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH", "[pyxis] image", 1, 0, keep},
    {"container-mounts", "SRC:DST[:FLAGS][,SRC:DST...]", "[pyxis] mounts", 1, 1, keep},
    {"container-env", "NAME[,NAME...]", "[pyxis] variables of the host", 1, 2, keep},
    SPANK_OPTIONS_TABLE_END};

static int is_named(const char *name, size_t length) {
  for (const char *at = names; *at;) {
    size_t here = strcspn(at, ",");
    if (here == length && strncmp(at, name, length) == 0) return 1;
    at += here + (at[here] == ',');
  }
  return 0;
}

int slurm_spank_task_init(spank_t sp, int ac, char **av) {
  if (*image == '\0' || ac < 2) return 0;
  char name[256];
  const char *equals = strchr(av[1], '=');
  size_t length = (size_t)(equals - av[1]);
  snprintf(name, sizeof name, "%.*s", (int)length, av[1]);
  if (!is_named(name, length)) spank_setenv(sp, name, equals + 1, 1);
  FILE *record = fopen(av[0], "a");
  if (record == NULL) return -1;
  fprintf(record, "%s %s\n", image, *mounts ? mounts : "-");
  return fclose(record);
}
