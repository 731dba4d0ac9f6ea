// The words of a send and its receive, as templates like those of flags.h. Not all ranks take part, so each direction
// between two ranks has its own epochs, for each block. One place is enough: the sender ends when the receiver has read.
#pragma once

#include "protocol/flags.h"
#include "protocol/layout.h"

namespace ccore_cuda {

// By the sender, into its part of the receiver's region: where the data is, which it has written before.
template <class Memory>
CCORE_LANE void send_mail(TransferPart* theirs, int block, uint64_t address, uint64_t bytes, uint32_t epoch) {
  send_packet<Memory>(&theirs->mail[block][kAddress], address, epoch);
  send_packet<Memory>(&theirs->mail[block][kBytes], bytes, epoch);
  announce<Memory>(&theirs->sent[block], epoch);
}

// By the receiver; afterwards it may read the data.
template <class Memory, class Watch>
CCORE_LANE bool receive_mail(const TransferPart& own, int block, uint64_t* address, uint64_t* bytes, uint32_t epoch,
                             Watch* watch, int rank) {
  return receive_packet<Memory>(&own.mail[block][kAddress], epoch, address, watch, rank) &&
         receive_packet<Memory>(&own.mail[block][kBytes], epoch, bytes, watch, rank) &&
         await<Memory>(&own.sent[block], epoch, watch, rank);
}

// By the receiver, into its part of the sender's region: the data has been read.
template <class Memory>
CCORE_LANE void acknowledge(TransferPart* theirs, int block, uint32_t epoch) {
  announce<Memory>(&theirs->received[block], epoch);
}
template <class Memory, class Watch>
CCORE_LANE bool await_acknowledgement(const TransferPart& own, int block, uint32_t epoch, Watch* watch, int rank) {
  return await<Memory>(&own.received[block], epoch, watch, rank);
}

}  // namespace ccore_cuda
