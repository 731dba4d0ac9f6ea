"""``completion``: print the script that makes a shell complete clusterctl's command lines."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from clusterctl.cli import console


class Shell(str, Enum):
    """Name the shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_INSTALLED = {
    Shell.BASH: "echo 'source <(clusterctl completion bash)' >> ~/.bashrc",
    Shell.ZSH: "echo 'source <(clusterctl completion zsh)' >> ~/.zshrc, after compinit",
    Shell.FISH: "echo 'clusterctl completion fish | source' >> ~/.config/fish/config.fish",
}
"""How to load the script in each new shell."""


def print_script(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell that shall complete.")],
) -> None:
    """Print the completion script of a shell.

    bash: put 'source <(clusterctl completion bash)' into ~/.bashrc.

    zsh: put 'source <(clusterctl completion zsh)' into ~/.zshrc, after compinit.

    fish: put 'clusterctl completion fish | source' into ~/.config/fish/config.fish.

    Exit code 0: printed.
    """
    console.data(script(shell))
    if sys.stdout.isatty():
        console.talk(f"hint: to load it in each new shell: {_INSTALLED[shell]}")


def script(shell: Shell) -> str:
    """Return the script of a shell."""
    return (Path(__file__).parent / "scripts" / f"clusterctl.{shell.value}").read_text(encoding="utf-8")
