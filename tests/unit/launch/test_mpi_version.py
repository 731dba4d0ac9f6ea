"""Which MPI an mpirun belongs to."""

import pytest

from clusterctl.launch.launchers import mpi_version


@pytest.mark.parametrize(
    ("said", "family", "major", "shown"),
    [
        ("mpirun (Open MPI) 4.1.4 Report bugs to http://www.open-mpi.org/", "openmpi", 4, "Open MPI 4.1.4"),
        ("mpirun (Open MPI) 5.0.0rc12", "openmpi", 5, "Open MPI 5.0.0rc12"),
        ("HYDRA build details: Version: 5.0.2 Release Date: Fri Sep 25", "mpich", 5, "MPICH 5.0.2"),
        ("HYDRA build details:\n    Version:            3.4\n", "mpich", 3, "MPICH 3.4"),
    ],
)
def test_versions_are_read(said, family, major, shown):
    found = mpi_version.read(said)
    assert (found.family, found.major, str(found)) == (family, major, shown)


@pytest.mark.parametrize("said", ["", "mpirun", "HYDRA build details:"])
def test_what_says_no_version_is_none(said):
    assert mpi_version.read(said) is None
