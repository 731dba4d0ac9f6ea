"""Why a node could not be reached: errors of sockets and SSH as Failures that name the node."""

from __future__ import annotations

import errno

from clusterctl.transport.base import Failure, FailureKind, TransportError
from clusterctl.transport.ssh_config import Target

_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL)


def failed(target: Target, kind: FailureKind, message: str, hint: str | None) -> TransportError:
    """Return the error of one node, with its name and address in front of the message."""
    return TransportError(Failure(kind, f"{target.where}: {message}", hint))


def explain(
    target: Target,
    error: Exception,
    elapsed_s: float,
    *,
    refused_by_jump: bool = False,
    incompatible: bool = False,
) -> TransportError:
    """Return what a failed connection attempt means.

    ``refused_by_jump``: the jump host could not open the way on; ``incompatible``: no algorithm in common.
    """
    text, limit_s = str(error), target.connect_timeout_s
    timed_out = isinstance(error, TimeoutError) or elapsed_s >= 0.95 * limit_s
    if refused_by_jump:
        via = target.jump.where if target.jump else "its jump host"
        return failed(
            target, FailureKind.UNREACHABLE, f"{via} cannot reach it ({text})", "try it from the jump host"
        )
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return failed(target, FailureKind.REFUSED, "connection refused", "is sshd running, and on this port?")
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return failed(
            target, FailureKind.UNREACHABLE, f"{error.strerror}", "look at routes, cables and the address"
        )
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return failed(
            target, FailureKind.ERROR, "too many open files here", "raise `ulimit -n` or lower --fanout"
        )
    if timed_out:
        what = {"key exchange": "its key exchange did not end", "authentication": "its login did not end"}
        did = what.get(text, "no SSH greeting came" if "banner" in text else "no answer")
        return failed(
            target,
            FailureKind.TIMEOUT,
            f"{did} within {round(elapsed_s, 1):g} s",
            "is the node up, or a firewall between?",
        )
    if "Indecipherable" in text:
        return failed(
            target, FailureKind.PROTOCOL, "what answers there is not SSH", "mend 'port' in the inventory"
        )
    if incompatible:
        return failed(
            target, FailureKind.PROTOCOL, "it shares no algorithm with us", "update the node's sshd"
        )
    if "banner" in text:
        return failed(
            target,
            FailureKind.PROTOCOL,
            "it closed the connection before SSH began",
            "see its sshd's log (MaxStartups, AllowUsers), or a firewall's",
        )
    if isinstance(error, (EOFError, ConnectionError)) or "Negotiation failed" in text:
        return failed(target, FailureKind.LOST, "the connection was lost while connecting", "is the node up?")
    altered = "cannot be understood" in text or "Mismatched MAC" in text
    hint = "is that an sshd, and does the way there alter packets (ethtool -S, -k)?" if altered else None
    return failed(
        target,
        FailureKind.PROTOCOL,
        f"SSH failed: {text or type(error).__name__}",
        hint or "see its sshd's log",
    )
