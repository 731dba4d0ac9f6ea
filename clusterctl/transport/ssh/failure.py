"""Translate errors of sockets and SSH into Failures that name the node."""

from __future__ import annotations

import errno

from clusterctl.text.secret.scrub import scrubbed
from clusterctl.transport.base import Failure, FailureKind, TransportError
from clusterctl.transport.ssh.target import Target

_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL)


def failed(target: Target, kind: FailureKind, message: str, hint: str | None) -> TransportError:
    """Return the error of one node; its message begins with the node's name and address."""
    return TransportError(Failure(kind, f"{target.where}: {message}", hint))


def shown(command: str) -> str:
    """Return a ProxyCommand for messages, short and without the secrets in it."""
    text = scrubbed(" ".join(command.split()))
    return repr(text if len(text) <= 80 else text[:77] + "...")


def explain(
    target: Target,
    error: Exception,
    elapsed_s: float,
    *,
    refused_by_jump: bool = False,
    incompatible: bool = False,
) -> TransportError:
    """Return the TransportError for a failed connection attempt that took ``elapsed_s`` seconds.

    ``refused_by_jump``: the jump host could not connect to the node; ``incompatible``: no common algorithm.
    """
    text, limit_s = str(error), target.connect_timeout_s
    through = f" (through ProxyCommand {shown(target.proxy_command)})" if target.proxy_command else ""
    timed_out = isinstance(error, TimeoutError) or elapsed_s >= 0.95 * limit_s
    if refused_by_jump:
        via = target.jump.where if target.jump else "its jump host"
        return failed(
            target, FailureKind.UNREACHABLE, f"{via} cannot reach it ({text})", "try ssh from the jump host"
        )
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return failed(target, FailureKind.REFUSED, "connection refused", "is sshd running, and on this port?")
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return failed(
            target, FailureKind.UNREACHABLE, f"{error.strerror}", "check routes, cables and the address"
        )
    if isinstance(error, OSError) and error.errno == errno.EMFILE:
        return failed(
            target,
            FailureKind.ERROR,
            "too many open files on this machine",
            "raise `ulimit -n` or lower --fanout",
        )
    if timed_out:
        what = {"key exchange": "its key exchange did not end", "authentication": "its login did not end"}
        did = what.get(text, "no SSH greeting" if "banner" in text else "no answer")
        return failed(
            target,
            FailureKind.TIMEOUT,
            f"{did} within {round(elapsed_s, 1):g} s{through}",
            "check that the node is up and that no firewall blocks the connection",
        )
    if "Indecipherable" in text:
        return failed(
            target,
            FailureKind.PROTOCOL,
            f"the server on this port is not an SSH server{through}",
            "check what the command prints" if through else "fix 'port' in the inventory",
        )
    if incompatible:
        return failed(
            target,
            FailureKind.PROTOCOL,
            "its sshd and clusterctl have no common algorithm",
            "update the node's sshd",
        )
    if "banner" in text:
        return failed(
            target,
            FailureKind.PROTOCOL,
            f"it closed the connection before SSH began{through}",
            "check the logs of its sshd (MaxStartups, AllowUsers) and of firewalls",
        )
    if isinstance(error, (EOFError, ConnectionError)) or "Negotiation failed" in text:
        return failed(
            target, FailureKind.LOST, "the connection was lost while connecting", "check that the node is up"
        )
    altered = "malformed data" in text or "Mismatched MAC" in text
    hint = (
        "check that the server is an sshd and that the network does not alter packets (ethtool -S, -k)"
        if altered
        else None
    )
    return failed(
        target,
        FailureKind.PROTOCOL,
        f"SSH failed: {text or type(error).__name__}",
        hint or "check its sshd's log",
    )
