"""Jump hosts in settings of ssh: the older form ``ssh -W %h:%p jump`` of -J and ProxyJump."""

from __future__ import annotations

import shlex

_TAKES_A_VALUE = "bcDEeFIiJLlmOopQRSWw"


def jump_of_proxy_command(command: str) -> str | None:
    """Return ``[user@]host[:port]`` of a ProxyCommand that only runs ``ssh -W %h:%p``; None for any other.

    A command with options other than -p, -l, -W and those without effect on the route (-q) is not a plain jump.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words[:1] == ["exec"]:
        words = words[1:]
    if not words or words[0].rpartition("/")[2] != "ssh":
        return None
    user = port = forward = None
    hosts: list[str] = []
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            hosts.append(word)
            continue
        letters = word[1:]
        while letters and letters[0] not in _TAKES_A_VALUE + "p":
            if letters[0] not in "qaxTn46":
                return None
            letters = letters[1:]
        if not letters:
            continue
        value = letters[1:] or (rest.pop(0) if rest else "")
        if letters[0] == "W":
            forward = value
        elif letters[0] == "p":
            port = value
        elif letters[0] == "l":
            user = value
        else:
            return None
    if forward not in ("%h:%p", "[%h]:%p") or len(hosts) != 1:
        return None
    jump = hosts[0] if user is None or "@" in hosts[0] else f"{user}@{hosts[0]}"
    return f"{jump}:{port}" if port else jump
