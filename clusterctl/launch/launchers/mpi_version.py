"""Identify the MPI family and version of an mpirun from its ``--version`` output."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Family = Literal["openmpi", "mpich"]
_OPEN_MPI = re.compile(r"\(Open MPI\)\s{1,40}(?P<version>(?P<major>\d{1,9})\.[\w.]{1,40})")
_HYDRA = re.compile(r"Version:\s{1,80}(?P<version>(?P<major>\d{1,9})\.[\w.]{1,40})")
_HYDRA_TITLE = "HYDRA build details:"
TITLES: dict[Family, str] = {"openmpi": "Open MPI", "mpich": "MPICH"}


@dataclass(frozen=True, slots=True)
class MpiVersion:
    """Hold the family and version of an mpirun."""

    family: Family
    major: int
    version: str

    def __str__(self) -> str:
        return f"{TITLES[self.family]} {self.version}"


def read(said: str) -> MpiVersion | None:
    """Parse the output of ``mpirun --version``, on one or several lines; None: neither Open MPI nor MPICH."""
    if match := _OPEN_MPI.search(said):
        return MpiVersion("openmpi", int(match["major"]), match["version"])
    if match := _HYDRA.search(said.partition(_HYDRA_TITLE)[2]):
        return MpiVersion("mpich", int(match["major"]), match["version"])
    return None
