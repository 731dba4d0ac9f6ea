"""The driver's branch as a stream of dnf's: a run chooses one where none is, and its undo resets no choice of others.

dnf is a stand-in that keeps the choice as dnf 4 does, in a file, and refuses as it does to switch.
"""

from __future__ import annotations

import pytest

from clusterctl.requirements.gpu import driver_install as gpu_driver_install

DNF = """
file={file}
case $3 in
  enable)
    stream=${{4#nvidia-driver:}}
    now=$(sed -n 's/^stream=//p' "$file" 2>/dev/null)
    case $now in
      '' | "$stream") ;;
      *) echo "Error: It is not possible to switch enabled streams of a module" >&2; exit 1 ;;
    esac
    printf '[nvidia-driver]\\nname=nvidia-driver\\nstream=%s\\nprofiles=\\nstate=enabled\\n' "$stream" >"$file" ;;
  reset) printf '[nvidia-driver]\\nname=nvidia-driver\\nstream=\\nprofiles=\\nstate=\\n' >"$file" ;;
esac
"""


@pytest.mark.parametrize(
    ("before", "ended"),
    [(None, "changed"), ("", "changed"), ("570-open", "unchanged"), ("550-dkms", "failed")],
)
def test_a_branch_that_the_site_has_chosen_outlives_an_undo(runner, monkeypatch, before, ended):
    file = runner.root / "nvidia-driver.module"
    monkeypatch.setattr(gpu_driver_install, "STREAM", str(file))
    if before is not None:
        state = "enabled" if before else ""
        file.write_text(f"[nvidia-driver]\nname=nvidia-driver\nstream={before}\nprofiles=\nstate={state}\n")
    was = file.read_text() if before is not None else None
    env = runner.stand_ins(dnf=DNF.format(file=file))
    ran = runner.apply(gpu_driver_install.choose_stream("570-open"), env=env)
    assert ran.events(1)[-1] == (1, ended)
    assert ("stream=570-open" in file.read_text()) is (ended != "failed")
    undone = runner.undo(env=env)
    assert (1, "failed") not in undone.events(1)
    assert file.read_text() == (was or "[nvidia-driver]\nname=nvidia-driver\nstream=\nprofiles=\nstate=\n")
