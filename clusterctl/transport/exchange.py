"""Track one command on any transport: start marker, sudo's prompt, lines, limits and deadline.

The transport passes in the command's output and sends what ``take_input`` returns; ``check`` raises if the command
must end. This module itself does no input or output. One thread uses one exchange.
"""

from __future__ import annotations

import logging
import re
import secrets
import shlex
import time
from collections.abc import Callable

from clusterctl import log
from clusterctl.text.secret.scrub import scrubbed
from clusterctl.transport import sudo
from clusterctl.transport.base import Completed, Failure, FailureKind, TransportError
from clusterctl.transport.command import shown

_log = log.get(__name__)
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
_MAX_NOISE_BYTES = 1024 * 1024
_MAX_CUT_BYTES = 256 * 1024 * 1024
"""Dropped output after which a command is ended: decrypting more costs seconds of this machine's processor."""
SUDO_START_TIMEOUT_S = 30.0
# Python's int() rejects thousands of digits.
_PROCESS_ID = re.compile(rb"[1-9][0-9]{0,9}")
# sudo-rs prints this text before a given prompt, and PAM prints text after it.
_AROUND_THE_PROMPT = re.compile(rb"\[sudo: \] [^\n]*\n?")


def token() -> str:
    """Return a random word that cannot occur in output by chance."""
    return f"clusterctl-{secrets.token_hex(8)}"


class Exchange:
    """The state of one running command."""

    def __init__(
        self,
        where: str,
        argv: tuple[str, ...],
        *,
        stdin: bytes = b"",
        timeout_s: float | None = None,
        on_line: Callable[[str], None] | None = None,
        marker: str | None = None,
        prompt: str | None = None,
        password: sudo.NodePassword | None = None,
        may_need_sudo: bool = False,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        keep_bytes: int | None = None,
    ) -> None:
        self._where = where
        self._argv = argv
        self._stdin: bytes | None = stdin
        self._timeout_s = timeout_s
        self._on_line = on_line
        self._marker = f"{marker} ".encode() if marker else None
        self._prompt = prompt.encode() if prompt else None
        self._password = password
        self._may_need_sudo = may_need_sudo
        self._limit = max_output_bytes
        self._keep = keep_bytes
        self._stdout_cut = self._stderr_cut = 0
        self._stdout = bytearray()
        self._stderr = bytearray()
        self._noise = bytearray()
        self._marker_at = -1
        self._handed_bytes = 0
        self._searched_bytes = 0
        self._prompts = 0
        self._answered = False
        self._settled = False
        self._began = time.monotonic()
        self._asking_s = 0.0
        self.started = marker is None
        self.pid: int | None = None
        if _log.isEnabledFor(logging.DEBUG):
            # A script on standard input may hold the content of files, with secrets in it.
            given = f" with a script of {stdin.count(10)} lines" if stdin else ""
            _log.debug("%s: %s%s", where, scrubbed(shlex.join(argv)), given)

    @property
    def attentive(self) -> bool:
        """Whether output must be handled at once: before the command's start, and if lines are followed."""
        return not self.started or self._on_line is not None

    @property
    def waited_s(self) -> float:
        """Seconds since the command was sent, without the time spent on a password prompt."""
        return time.monotonic() - self._began - self._asking_s

    def feed_stdout(self, data: bytes) -> None:
        """Take data from standard output; data before the start marker is login noise."""
        if not self.started and self._marker is not None:
            # Search only the new data: a node may send its noise byte by byte.
            before = len(self._noise)
            self._noise += data
            if self._marker_at < 0:
                self._marker_at = self._noise.find(self._marker, max(0, before - len(self._marker)))
            at = self._marker_at
            end = self._noise.find(b"\n", max(at, before))
            if at < 0 or end < 0:
                return
            number = bytes(self._noise[at + len(self._marker) : end])
            self.pid = int(number) if _PROCESS_ID.fullmatch(number) else None
            data = bytes(self._noise[end + 1 :])
            del self._noise[at:]
            self.started = True
            self._settle(True if self._answered else None)
        kept = self._kept(data, self._handed_bytes + len(self._stdout))
        self._stdout_cut += len(data) - len(kept)
        self._stdout += kept
        if self._on_line is not None:
            self._emit_lines(self._on_line)

    def feed_stderr(self, data: bytes) -> None:
        """Take data from standard error; sudo's prompt is counted and removed."""
        # Search only the new data, because a command may write for a long time without a prompt.
        at = max(0, len(self._stderr) - len(self._prompt or b""))
        kept = self._kept(data, len(self._stderr)) if self.started else data
        self._stderr_cut += len(data) - len(kept)
        self._stderr += kept
        if self.started or self._prompt is None:
            return
        while (at := self._stderr.find(self._prompt, at)) >= 0:
            del self._stderr[at : at + len(self._prompt)]
            self._prompts += 1

    def _kept(self, data: bytes, before: int) -> bytes:
        """Return the part of the data that is kept after ``before`` bytes of the same stream."""
        return data if self._keep is None else data[: max(0, self._keep - before)]

    def _emit_lines(self, on_line: Callable[[str], None]) -> None:
        """Pass on complete lines without keeping them: a launch of a thousand ranks writes hundreds of MiB."""
        begin = 0
        # A line may arrive in many pieces: what was searched has no line end.
        while (end := self._stdout.find(b"\n", max(begin, self._searched_bytes))) >= 0:
            line = self._stdout[begin:end].decode(errors="replace")
            begin = end + 1
            on_line(line)
        del self._stdout[:begin]
        self._handed_bytes += begin
        self._searched_bytes = len(self._stdout)

    def take_input(self) -> tuple[bytes, bool]:
        """Return the data to send now, and whether standard input ends with it.

        The command's own input is held back until its start, so that sudo cannot read it.
        """
        if self.started and self._stdin is not None:
            data, self._stdin = self._stdin, None
            return data, True
        if not self.started and self._prompts == 1 and not self._answered and self._password is not None:
            self._answered = True
            asked = time.monotonic()
            answer = self._password.offer(SUDO_START_TIMEOUT_S)
            self._asking_s += time.monotonic() - asked
            if answer is None:
                raise TransportError(self._password.failure(self._where))
            return answer.encode("utf-8", "surrogateescape") + b"\n", False
        return b"", False

    def check(self) -> None:
        """Raise TransportError if the command must be ended now."""
        if self._prompts > 1:
            raise self._refusal()
        before = len(self._noise) + (0 if self.started else len(self._stderr))
        if before > _MAX_NOISE_BYTES:
            raise self._failure(
                FailureKind.PROTOCOL,
                f"wrote more than {_MAX_NOISE_BYTES >> 20} MiB before the command started: {shown(self._argv)}",
                "check the login shell's start files and the SSH server of the node",
            )
        written = self._handed_bytes + len(self._stdout) + len(self._stderr)
        if self._keep is None and written > self._limit:
            mib = self._limit / 1048576
            raise self._failure(
                FailureKind.PROTOCOL,
                f"wrote more than {mib:.4g} MiB: {shown(self._argv)}",
                "write the output to a file on the node instead",
            )
        if self._keep is not None and self._stdout_cut + self._stderr_cut > _MAX_CUT_BYTES:
            raise self._failure(
                FailureKind.PROTOCOL,
                f"wrote {_MAX_CUT_BYTES >> 20} MiB more than is kept, and was ended: {shown(self._argv)}",
                "write the output to a file on the node instead",
            )
        waited_s = self.waited_s
        if self._timeout_s is not None and waited_s >= self._timeout_s:
            raise self._failure(
                FailureKind.DEADLINE,
                f"was ended at its deadline of {self._timeout_s:.4g} s: {shown(self._argv)}",
                "check the load of the node, or allow more time",
            )
        if not self.started and self._may_need_sudo and waited_s >= SUDO_START_TIMEOUT_S:
            raise TransportError(sudo.explain(self._where, self._stderr.decode(errors="replace")))

    @property
    def wait_s(self) -> float:
        """Seconds that the transport may sleep before it must ``check`` again."""
        left = [60.0]
        if self._timeout_s is not None:
            left.append(self._timeout_s - self.waited_s)
        if not self.started and self._may_need_sudo:
            left.append(SUDO_START_TIMEOUT_S - self.waited_s)
        return max(0.001, min(left))

    def completed(self, returncode: int) -> Completed:
        """Return the result of a command that ended; raise TransportError if it never started."""
        stderr = bytes(self._stderr)
        if self._prompts:
            stderr = _AROUND_THE_PROMPT.sub(b"", stderr, count=1)
        if not self.started:
            said = stderr.decode(errors="replace")
            if self._answered and sudo.is_refusal(said):
                raise self._refusal()
            if self._may_need_sudo:
                raise TransportError(sudo.explain(self._where, said))
            noise = " ".join((self._noise.decode(errors="replace") + " " + said).split())[-300:]
            raise self._failure(
                FailureKind.PROTOCOL,
                f"the login shell did not run the command (status {returncode}); it wrote: {noise or 'nothing'}",
                "give the account a usable login shell, and remove a forced command from authorized_keys",
            )
        if self._on_line is not None and self._stdout:
            last = self._stdout.decode(errors="replace")
            self._stdout.clear()
            self._on_line(last)
        _log.debug("%s: status %d after %.2f s", self._where, returncode, self.waited_s)
        return Completed(
            self._argv,
            returncode,
            bytes(self._stdout),
            stderr,
            self.waited_s,
            self._stdout_cut,
            self._stderr_cut,
        )

    def _failure(self, kind: FailureKind, message: str, hint: str) -> TransportError:
        return TransportError(Failure(kind, f"{self._where}: {message}", hint))

    def _refusal(self) -> TransportError:
        self._settle(False)
        if self._password is None:
            return TransportError(sudo.explain(self._where, self._stderr.decode(errors="replace")))
        return TransportError(self._password.failure(self._where))

    def _settle(self, accepted: bool | None) -> None:
        if self._password is not None and not self._settled:
            self._settled = True
            self._password.settle(accepted)

    def close(self) -> None:
        """Release the sudo password for other nodes; safe to call twice."""
        if self._answered:
            self._settle(None)
