"""The first failure of a group's operations on CUDA tensors: every later call of the group raises it."""

from __future__ import annotations

import logging

from collective_core.errors import CollectiveCoreError, Result
from collective_core.torch.cuda_meeting import CudaMeeting
from collective_core.torch.work import CcoreBackendError

_logger = logging.getLogger("collective_core")


class CudaFailures:
    """Looks for failures on the device, and ends what the group is doing at the first."""

    def __init__(self, meeting: CudaMeeting) -> None:
        """Watch the handle of a meeting."""
        self._meeting = meeting
        self.first: CcoreBackendError | None = None

    def check(self, description: str) -> None:
        """Raise CcoreBackendError if an operation of the group has failed."""
        handle = self._meeting.handle
        if self.first is None and handle is not None:
            try:
                handle.poll()
            except CollectiveCoreError as error:
                self.fail(error)
        if self.first is not None:
            raise CcoreBackendError(f"{description}: {self.first}")

    def fail(self, error: CollectiveCoreError) -> None:
        """Remember the first failure, and end what else the group is doing: its other ranks must not wait."""
        if self.first is not None:
            return
        self.first = CcoreBackendError(str(error))
        _logger.error(
            "collective_core rank %d: an operation on %s failed, its results are not valid: %s",
            self._meeting.rank, self._meeting.device, error,
        )  # fmt: skip
        self._meeting.abort()

    def of_call(self, description: str, error: CollectiveCoreError) -> CcoreBackendError:
        """Return the error of a call that was refused; raise that of the group instead, if an operation has failed."""
        if error.code != Result.INVALID_ARGUMENT:
            self.check(description)
        return CcoreBackendError(f"{description}: {error}")
