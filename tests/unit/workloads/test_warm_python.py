"""The processes that are forked from a server with torch imported, where the kernel gives a number again."""

from __future__ import annotations

import json
import socket

from warm_python import _Server


def test_a_number_that_the_kernel_gives_again_is_another_process() -> None:
    server = object.__new__(_Server)
    server._running = {}
    server._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def say(kind: str, code: int) -> None:
        theirs.send(json.dumps([kind, 4711, code]).encode())

    with server._socket, theirs:
        say("pid", 0)
        first = server.start(["-c", ""], {}, "/", True)
        say("end", 3)
        say("pid", 0)
        second = server.start(["-c", ""], {}, "/", True)
        assert (first.poll(), second.poll()) == (3, None)
        say("end", 0)
        assert (first.wait(5), second.wait(5)) == (3, 0)
    for process in (first, second):
        process.stdout.close()
