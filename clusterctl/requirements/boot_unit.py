"""Reapply a volatile setting at every boot: a script and the systemd unit that runs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterctl.facts.base import ReadStatus
from clusterctl.requirements.rendering import render
from clusterctl.requirements.steps import EnableUnit, Step, WriteFile

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts


@dataclass(frozen=True, slots=True)
class BootUnit:
    """A script at ``script_path``, and ``unit``, rendered from the template of the same name."""

    script_path: str
    unit: str

    @property
    def unit_path(self) -> str:
        return f"/etc/systemd/system/{self.unit}"

    def gap(self, facts: NodeFacts) -> str | None:
        """Return what is missing of a partial installation; None if script and unit are complete or both absent.

        A node with neither may not need them (if the firmware sets the value correctly), so only a partial
        installation is reported.
        """
        if not facts.system.systemd_running or not _files_were_read(facts):
            return None
        has_script = facts.managed_file(self.script_path) is not None
        has_unit = facts.managed_file(self.unit_path) is not None
        if has_script and not has_unit:
            return f"{self.script_path} is installed without {self.unit}"
        if has_unit and not has_script:
            return f"{self.unit} is installed without {self.script_path}"
        known = facts.services.unit(self.unit) if has_unit else None
        if known is not None and known.enabled != "enabled":
            return f"{self.unit} is not enabled"
        return None

    def has_failed(self, facts: NodeFacts) -> bool:
        """Whether the unit is installed and failed when the node booted."""
        known = facts.services.unit(self.unit) if facts.managed_file(self.unit_path) is not None else None
        return known is not None and known.active == "failed"

    def steps(self, script: str, about: str = "", *, start: bool = False) -> tuple[Step, ...]:
        """Return the steps that install script and unit; ``about`` is added to the script's description.

        By default the unit is enabled but not started: separate steps apply the setting now and record the old
        values in the journal. ``start`` is for a unit that failed at boot, because only a run shows whether it is
        fixed.
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
    """Whether a file missing from the facts is missing on the node: a failed or truncated list proves nothing."""
    section = next((section for section in facts.sections if section.name == "managed"), None)
    if section is None:
        return True
    return section.status in (ReadStatus.OK, ReadStatus.ABSENT) and not section.cut
