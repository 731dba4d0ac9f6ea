"""The shell text with which a server and a client on two nodes find each other."""

from __future__ import annotations

from collections.abc import Mapping

AGAIN = """\
command -v timeout >/dev/null || exit 127
again() {
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ "$tries" -lt "$TRIES" ] || return 1
    sleep 1
  done
}
"""
"""Define ``again``, which runs a command until it succeeds: the server may start after its client.

A server serves one client: if that one is cut off, or none comes in time, the next try of the client needs another one.
"""
TRIES: Mapping[str, str] = {"TRIES": "20"}
"""What ``AGAIN`` reads."""
