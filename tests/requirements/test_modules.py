"""A requirement's module can be guessed from its name."""

from __future__ import annotations

import pytest

from clusterctl.requirements.catalog import ALL


@pytest.mark.parametrize("name", ALL)
def test_the_module_is_named_after_the_requirement(name: str) -> None:
    """``gpu-driver`` is ``gpu.driver``, ``acs`` is ``rdma.acs``, and ``ssh-mesh`` is ``fleet.ssh_mesh.requirement``."""
    directory, module, *inside = ALL[name].__name__.removeprefix("clusterctl.requirements.").split(".")
    assert inside in ([], ["requirement"])
    word = name.replace("-", "_")
    assert module == word or f"{directory.removesuffix('s')}_{module}" == word
