"""What the environment of each launcher says of a rank."""

from __future__ import annotations

import pytest
from collective_core.launch import Launch, detect

from collective_core import CollectiveCoreError

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "7@1",
}
MPICH = {"PMI_RANK": "2", "PMI_SIZE": "3", "MPI_LOCALNRANKS": "3"}
TORCHRUN = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_WORLD_SIZE": "2",
    "TORCHELASTIC_RUN_ID": "none",
    "MASTER_PORT": "29400",
}
SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "99", "SLURM_STEP_ID": "2"}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (OPEN_MPI, Launch(1, 4, 2, "7@1")),
        (MPICH, Launch(2, 3, 3, "")),
        (TORCHRUN, Launch(0, 2, 2, "none.29400")),
        (SLURM, Launch(3, 8, None, "99.2")),
        ({**SLURM, **OPEN_MPI}, Launch(1, 4, 2, "7@1.2")),
        ({}, Launch(0, 1, 1, "")),
    ],
)
def test_detect(variables: dict[str, str], expected: Launch) -> None:
    assert detect(variables) == expected


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"RANK": "0"}, "RANK is set but WORLD_SIZE is not"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 is not below WORLD_SIZE=2"),
        ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK=x: expected a number of at least 0"),
        ({"RANK": "0", "WORLD_SIZE": "0"}, "WORLD_SIZE=0: expected a number of at least 1"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "-1"}, "LOCAL_SIZE=-1: expected"),
    ],
)
def test_what_makes_no_sense_is_refused(variables: dict[str, str], says: str) -> None:
    with pytest.raises(CollectiveCoreError, match=says):
        detect(variables)
