"""What the verbs of ``image`` share: which image is meant, and a line of progress for a person at a terminal."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import TracebackType

from clusterctl.cli.artifact_output import load
from clusterctl.errors import ArtifactError
from clusterctl.report.visible import visible


def image_of(path: Path | None, limit: str | None) -> str:
    """Return the one image that the inventory's nodes run; raise ArtifactError where they name none, or several."""
    from clusterctl.inventory import nodeset

    named: dict[str | None, list[str]] = {}
    for node in load(path, limit).nodes:
        named.setdefault(node.container.image, []).append(node.name)
    if len(named) > 1:
        listed = "; ".join(f"{nodeset.fold(names)}: {image or 'none'}" for image, names in named.items())
        raise ArtifactError(
            f"the nodes name different images: {listed}", hint="say which one is meant, or use --limit"
        )
    (image,) = named
    if image is None:
        raise ArtifactError(
            "no image is named",
            hint="name one on the command line, or in the inventory as defaults: {container: {image: ...}}",
        )
    return image


class StatusLine:
    """One line on stderr that is written over, shown only to a person at a terminal, gone at the end."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("")

    def show(self, text: str) -> None:
        """Show the text in place of what was shown before."""
        self._write(visible(" ".join(text.split()))[: shutil.get_terminal_size().columns - 1])

    def _write(self, text: str) -> None:
        if self._shown:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
