"""Units that others depend on: what runs is not restarted in passing, no user is cut off unasked, sshd stays."""

from __future__ import annotations

import pytest

from clusterctl.apply import script
from clusterctl.apply.plan.model import PlannedStep
from clusterctl.requirements.steps import EnableUnit, RestartUnit, WriteFile

SYSTEMCTL = """
cd {folder}
case $1 in is-* | show) ;; *) echo "$*" >>calls ;; esac
case $1 in
  is-enabled) [ -e "$2.enabled" ] && echo enabled || {{ echo disabled; exit 1; }} ;;
  is-active) [ -e "$2.active" ] && echo active || {{ echo inactive; exit 3; }} ;;
  enable) touch "$2.enabled" ;;
  disable) rm -f "$2.enabled" ;;
  start) touch "$2.active"; [ ! -e "$2.socket" ] || touch "$(cat "$2.socket").active" ;;
  stop) [ ! -e "$2.busy" ] || {{ echo "target is busy" >&2; exit 1; }}
    shift; for unit; do rm -f "$unit.active"; done ;;
  show) if [ "$3" = TriggeredBy ]; then echo "TriggeredBy=a.path $(cat "$4.socket" 2>/dev/null)"; exit; fi
    [ -e "$4.gone" ] && echo LoadState=not-found || echo LoadState=loaded ;;
  try-restart) [ ! -e "$2.gone" ] || exit 5; [ ! -e "$2.dies" ] || rm -f "$2.active" ;;
esac
"""
DOCKER = "cd {folder}\ncase $1 in ps) cat running ;; info) cat live 2>/dev/null || echo false ;; esac\n"
ENGINES = ("docker.service", "containerd.service")


class Units:
    """Stand-ins of systemctl and docker; a file says that a unit is active, a container runs, and so on."""

    def __init__(self, runner, folder):
        folder.mkdir()
        self.folder, self.runner = folder, runner
        bodies = {"systemctl": SYSTEMCTL, "docker": DOCKER}
        bodies |= {"nvidia_smi": "cat {folder}/gpu 2>/dev/null\n", "sshd": "exit 0\n"}
        self.env = runner.stand_ins(**{name: body.format(folder=folder) for name, body in bodies.items()})
        # The stand-ins have answered before they are waited for.
        runner.prelude = "sleep() { :; }\n"
        self.put("running", "")

    def put(self, name, text=""):
        (self.folder / name).write_text(text)

    def calls(self):
        """What systemctl was called with since the last look."""
        path = self.folder / "calls"
        calls = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [call for call in calls if call != "daemon-reload"]

    def apply(self, *steps):
        return self.runner.apply(*steps, env=self.env)

    def undo(self, force=False):
        return self.runner.undo(force=force, env=self.env)


@pytest.fixture
def units(runner, tmp_path):
    return Units(runner, tmp_path / "units")


def test_a_unit_that_runs_is_enabled_and_left_running(units):
    units.put("nvidia-fabricmanager.service.active")
    ran = units.apply(EnableUnit("enable", "nvidia-fabricmanager.service"))
    assert ran.events(1) == [(1, "begin"), (1, "changed")]
    assert units.calls() == ["enable nvidia-fabricmanager.service"]
    # It ran before: its undo stops nothing, no matter who is at work.
    units.put("gpu", "4711, /usr/bin/python3\n")
    assert (1, "changed") in units.undo().events(1)
    assert units.calls() == ["disable nvidia-fabricmanager.service"]


@pytest.mark.parametrize("listens", [False, True])
def test_a_socket_that_came_with_its_unit_does_not_start_it_again_after_an_undo(units, listens):
    units.put("docker.service.socket", "docker.socket")
    if listens:
        units.put("docker.socket.active")
    units.apply(EnableUnit("enable", "docker.service"))
    assert (units.folder / "docker.socket.active").exists()
    units.calls()
    assert (1, "changed") in units.undo().events(1)
    with_it = "" if listens else " docker.socket"
    assert units.calls() == [f"stop docker.service{with_it}", "disable docker.service"]
    assert (units.folder / "docker.socket.active").exists() is listens


@pytest.mark.parametrize("unit", ["ssh.service", "sshd.service"])
def test_sshd_is_restarted_only_with_a_configuration_that_it_accepts(units, unit):
    units.put(f"{unit}.active")
    assert (1, "changed") in units.apply(RestartUnit("restart", unit)).events(1)
    assert units.calls() == [f"try-restart {unit}"]
    refusing = (
        '[ "$*" = -t ] || exit 0\necho "sshd_config line 3: Bad configuration option: Nope" >&2\nexit 255\n'
    )
    units.runner.stand_ins(sshd=refusing)
    for ran in (units.apply(RestartUnit("restart", unit)), units.undo(), units.undo(force=True)):
        assert ran.events(1)[-1] == (1, "failed")
        assert "sshd -t rejects" in ran.detail("failed")
        assert "Bad configuration option: Nope" in ran.detail("failed")
    assert units.calls() == []


def test_a_unit_that_is_gone_after_its_restart_is_a_failure_in_apply_and_in_undo(units):
    units.put("ssh.service.active")
    units.put("ssh.service.dies")
    ran = units.apply(RestartUnit("restart", "ssh.service"))
    assert ran.events(1)[-1] == (1, "failed")
    assert "ssh.service was running, but is inactive after its restart" in ran.detail("failed")
    units.put("ssh.service.active")
    ran = units.undo()
    assert ran.events(1)[-1] == (1, "failed")
    assert "is inactive after its restart" in ran.detail("failed")


def test_a_unit_that_went_with_its_package_needs_no_restart_when_all_is_undone(units):
    units.put("chrony.service.active")
    units.apply(RestartUnit("restart", "chrony.service"))
    units.calls()
    units.put("chrony.service.gone")
    (units.folder / "chrony.service.active").unlink()
    assert (1, "changed") in units.undo().events(1)
    assert units.calls() == []


@pytest.mark.parametrize("unit", ENGINES)
def test_an_engine_is_not_restarted_under_containers(units, unit):
    units.put("docker.service.active")
    units.put(f"{unit}.active")
    units.put("running", "training-7\n")
    ran = units.apply(RestartUnit("restart", unit))
    assert ran.events(1)[-1] == (1, "failed")
    assert "in use by container training-7" in ran.detail("failed")
    assert units.calls() == []
    units.put("live", "true\n")
    assert (1, "changed") in units.apply(RestartUnit("restart", unit)).events(1)
    assert units.calls() == [f"try-restart {unit}"]


def test_an_engine_that_does_not_say_what_runs_is_not_restarted(units):
    units.put("docker.service.active")
    units.runner.stand_ins(docker="exit 1\n")
    ran = units.apply(RestartUnit("restart", "docker.service"))
    assert "docker does not answer" in ran.detail("failed")
    assert units.calls() == []


def test_an_engine_that_does_not_run_is_asked_nothing(units):
    # Asking would start it, through its socket.
    units.runner.stand_ins(docker=f"touch {units.folder}/asked\n")
    for unit in ENGINES:
        assert (1, "changed") in units.apply(RestartUnit("restart", unit)).events(1)
    assert not (units.folder / "asked").exists()


@pytest.mark.parametrize("unit", ENGINES)
def test_an_undo_stops_no_engine_under_containers_unless_forced(units, unit):
    units.apply(EnableUnit("enable", unit))
    units.put("docker.service.active")
    units.put("running", "training-7\nserving\n")
    units.calls()
    ran = units.undo()
    assert ran.events(1)[-1] == (1, "failed")
    assert "container serving; container training-7" in ran.detail("failed")
    assert "--force" in ran.detail("failed")
    assert units.calls() == []
    assert (1, "changed") in units.undo(force=True).events(1)
    assert units.calls() == [f"stop {unit}", f"disable {unit}"]


def test_a_mount_in_use_is_not_told_to_be_gone_and_keeps_what_it_rests_on(units):
    file, other = units.runner.root / "data.mount", units.runner.root / "other"
    steps = (WriteFile("unit", str(file), "[Mount]\n"), EnableUnit("mount", "data.mount"))
    units.apply(PlannedStep("else", WriteFile("other", str(other), "x")), *steps)
    units.put("data.mount.busy")
    ran = units.undo()
    assert ran.events(3)[-1] == (3, "failed")
    assert "data.mount cannot be stopped" in ran.detail("failed") and "target is busy" in ran.detail("failed")
    assert ran.events(2)[-1] == (2, "skipped") and ran.events(1)[-1] == (1, "changed")
    assert file.exists() and not other.exists()
    (units.folder / "data.mount.busy").unlink()
    assert units.undo().events(2)[-1] == (2, "changed")
    assert not file.exists()


def test_an_undo_restarts_no_engine_under_containers_unless_forced(units):
    units.put("docker.service.active")
    units.apply(RestartUnit("restart", "docker.service"))
    units.put("running", "training-7\n")
    units.calls()
    assert "container training-7" in units.undo().detail("failed")
    assert units.calls() == []
    units.undo(force=True)
    assert units.calls() == ["try-restart docker.service"]


def test_the_fabric_manager_stays_while_a_process_computes(units):
    unit = "nvidia-fabricmanager.service"
    units.apply(EnableUnit("enable", unit), RestartUnit("restart", unit))
    units.put("gpu", "4711, /usr/bin/python3\n")
    units.calls()
    for ran in (units.apply(RestartUnit("restart", unit)), units.undo()):
        assert "/usr/bin/python3 (process 4711) on a GPU" in ran.detail("failed")
    assert units.calls() == []
    units.put("gpu", "")
    assert {event for _, event in units.undo().events()} == {"run", "entry", "changed", "done"}
    assert units.calls() == [f"stop {unit}", f"disable {unit}", f"try-restart {unit}"]


@pytest.mark.parametrize(
    ("file", "text", "named"),
    [
        (
            "fs/nfsd/clients/3/info",
            'clientid: 0x1\naddress: "10.0.0.2:812"\nstatus: confirmed\n',
            "NFS client 10.0.0.2",
        ),
        (
            "net/tcp",
            "sl local_address rem_address st\n0: 0100000A:0801 0200000A:03F1 01\n1: 00000000:0801 00000000:0000 0A\n",
            "1 connections of NFS clients",
        ),
    ],
)
def test_an_nfs_server_stays_until_its_clients_have_let_go(units, tmp_path, file, text, named):
    path = tmp_path / "proc" / file
    path.parent.mkdir(parents=True)
    path.write_text(text)
    unit = "nfs-server.service"
    units.apply(EnableUnit("enable", unit))
    units.calls()

    def undo(sleep):
        units.env = units.runner.stand_ins(sleep=sleep)
        made = script.undo_script(units.runner.header("run1"))
        # A shell that has programs of its own prefers them to those on the PATH.
        for old in ("/proc/fs/nfsd", "/proc/net", "sleep 2\n"):
            assert old in made
            new = f"{tmp_path}/bin/{old}" if old.startswith("sleep") else f"{tmp_path}{old}"
            made = made.replace(old, new)
        return units.runner.run_text(made, units.env)

    ran = undo(":")
    assert named in ran.detail("failed")
    assert units.calls() == []
    assert (1, "changed") in undo(f"rm -f {path}\n").events(1)
    assert units.calls() == [f"stop {unit}", f"disable {unit}"]
