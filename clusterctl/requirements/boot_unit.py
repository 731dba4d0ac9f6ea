"""What brings a lost setting back at every boot: a script and the systemd unit that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.facts.model import ReadStatus
from clusterctl.requirements.base import EnableUnit, Step, WriteFile
from clusterctl.requirements.rendering import render

if TYPE_CHECKING:
    from clusterctl.facts.model import NodeFacts


@dataclass(frozen=True, slots=True)
class BootUnit:
    """A script at ``script_path``, and ``unit``, which is made of the template of the same name."""

    script_path: str
    unit: str

    @property
    def unit_path(self) -> str:
        return f"/etc/systemd/system/{self.unit}"

    def gap(self, facts: NodeFacts) -> str | None:
        """Say what is missing where part of it is there; None when all is there, or nothing.

        A node that has none of it may well need none (firmware that leaves the setting as it should be), so
        only what was begun and not finished counts.
        """
        if not facts.system.systemd_running or not _files_were_read(facts):
            return None
        has_script = facts.managed_file(self.script_path) is not None
        has_unit = facts.managed_file(self.unit_path) is not None
        if has_script and not has_unit:
            return f"{self.script_path} is there without {self.unit}"
        if has_unit and not has_script:
            return f"{self.unit} is there without {self.script_path}"
        known = facts.services.unit(self.unit) if has_unit else None
        if known is not None and known.enabled != "enabled":
            return f"{self.unit} is not enabled"
        return None

    def has_failed(self, facts: NodeFacts) -> bool:
        """Whether it is all there and enabled, and ended with an error when the node booted."""
        known = facts.services.unit(self.unit) if facts.managed_file(self.unit_path) is not None else None
        return known is not None and known.active == "failed"

    def steps(self, script: str, about: str = "", *, start: bool = False) -> tuple[Step, ...]:
        """Return the steps that install it; ``about`` is added to the script's description.

        The unit is not started: what it does is done now by steps that journal what they found. ``start`` is for
        one that failed at boot, which shows only by running whether it is mended.
        """
        return (
            WriteFile(f"Write {self.script_path}{about}", self.script_path, script, 0o755),
            WriteFile(
                f"Write the unit {self.unit}",
                self.unit_path,
                render("systemd", self.unit, script=self.script_path),
            ),
            EnableUnit(f"Enable {self.unit} at boot", self.unit, start=start),
        )


def _files_were_read(facts: NodeFacts) -> bool:
    """Whether a file that the facts do not have is not there: a list that failed or was cut says nothing."""
    section = next((section for section in facts.sections if section.name == "managed"), None)
    if section is None:
        return True
    return section.status in (ReadStatus.OK, ReadStatus.ABSENT) and not section.cut
