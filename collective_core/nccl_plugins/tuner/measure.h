/* What the measuring program calls in this library, by dlsym(): it forces one choice after the other and times it. */
#ifndef CCORE_NCCL_MEASURE_H
#define CCORE_NCCL_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of NCCL's last question for a choice in this process. */
typedef struct {
  uint64_t questions;      /* since the library was loaded */
  uint64_t bytes;          /* what NCCL calls the size; of all_gather and reduce_scatter it is that of all ranks */
  int32_t collective;      /* NCCL's number of it */
  int32_t own_algorithm;   /* what NCCL would have chosen, -1 if it did not say */
  int32_t own_protocol;
  uint32_t available;      /* bit 3 * algorithm + protocol: NCCL can use the pair */
} ccore_nccl_question;

/* From now on NCCL uses this algorithm, protocol and number of channels (0: NCCL's own number) wherever it can. An
 * algorithm of -1 ends it, and the table counts again; one of -2 leaves all to NCCL. Must be the same on all ranks. */
void ccore_nccl_force(int algorithm, int protocol, int channels);
void ccore_nccl_last_question(ccore_nccl_question* question);
/* The key of the last communicator's table, and the file in which it is looked for. Return how long the text is, which
 * is cut at `size`. */
size_t ccore_nccl_table_key(char* text, size_t size);
size_t ccore_nccl_table_path(char* text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
