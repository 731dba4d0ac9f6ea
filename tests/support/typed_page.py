"""Type the commands of a page at a terminal as its reader does, and compare what the page shows with the screen."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from recorded_session import Shown, difference, shown_in
from terminal_session import TerminalSession

from clusterctl import core_wheel

_ANSWERED = re.compile(r"\[y/N\] (\w+)$", re.MULTILINE)
_QUESTION = r"\[y/N\]"
COLUMNS = 100
LINES = 300
LIMIT_S = 2400.0
"""The longest that a command of a page may take (s), on a busy machine too."""


def path_with(*folders: Path) -> str:
    """Return a PATH with these directories, and then with that of the command beside this Python."""
    return os.pathsep.join((*map(str, folders), str(Path(sys.executable).parent), os.environ["PATH"]))


@contextlib.contextmanager
def lab_ends(folder: Path) -> Iterator[None]:
    """Take down the lab of a directory at the end, if a page's own command has not."""
    try:
        yield
    finally:
        command = (Path(sys.executable).with_name("clusterctl"), "lab", "down")
        subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)


def installer(home: Path) -> dict[str, str]:
    """Return the environment in which README's installation takes seconds, and its command is found.

    uv is that beside this Python. It installs below ``home``, and takes the wheel of collective_core that this Python
    has installed instead of compiling the library a second time.
    """
    (home / "wheels").mkdir()
    core_wheel.installed().write(home / "wheels")
    return {
        "UV_TOOL_DIR": str(home / "tools"),
        "UV_TOOL_BIN_DIR": str(home / "bin"),
        "UV_NO_SOURCES": "1",
        "UV_FIND_LINKS": str(home / "wheels"),
        "UV_PYTHON": sys.executable,
        "UV_PYTHON_DOWNLOADS": "never",
        "PATH": path_with(home / "bin"),
    }


@dataclass
class Reader:
    """Where a reader sits: the directory, the environment, and words before each command (``ip netns exec``)."""

    directory: Path
    env: Mapping[str, str]
    at: tuple[str, ...] = ()

    def types(self, shown: Shown) -> str:
        """Type a command of a page, and the answers that the page shows; return the screen at its end."""
        own = shlex.split(shown.command, comments=True)
        if own[0] == "cd":
            self.directory = (self.directory / own[1]).resolve(strict=True)
            return ""
        words = (*self.at, *own)
        with TerminalSession(
            words, cwd=self.directory, env=self.env, columns=COLUMNS, lines=LINES, limit_s=LIMIT_S
        ) as terminal:
            for number, answer in enumerate(_ANSWERED.findall(shown.output), start=1):
                terminal.until(rf"(?s)(?:{_QUESTION}.*?){{{number}}}")
                terminal.type(f"{answer}\n")
            terminal.ended()
            return terminal.screen

    def follows(self, page: Path) -> None:
        """Type all commands of a page, and fail at the first screen that is not what the page shows."""
        for shown in shown_in(page.read_text(encoding="utf-8")):
            self.finds(shown)

    def finds(self, shown: Shown) -> None:
        """Type a command, and fail unless the screen shows what the page shows."""
        screen = self.types(shown)
        missing = difference(shown.output, screen)
        assert missing is None, f"$ {shown.command}\n{screen}\n\nThe page has, but not the screen: {missing}"
