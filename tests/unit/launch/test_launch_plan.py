"""Placing ranks, and the argv and files that launchers make of a plan."""

import json
import os
import shlex
import subprocess
from dataclasses import replace

import pytest

from clusterctl.errors import LaunchError
from clusterctl.facts.model.launch import MeshKey
from clusterctl.inventory import interfaces
from clusterctl.launch import base, ssh_mesh
from clusterctl.launch.base import LaunchPlan, Placement, spread, start_script
from clusterctl.launch.launchers.hydra import Hydra
from clusterctl.launch.launchers.local import LocalSpawn
from clusterctl.launch.launchers.openmpi import OpenMpi
from clusterctl.launch.launchers.srun import Srun
from clusterctl.launch.launchers.torchrun import Torchrun

TWO_NODES = LaunchPlan(
    launcher=OpenMpi(),
    token="0123456789abcdef",
    mark="f00d",
    directory="/tmp/clusterctl-0123456789abcdef",
    placements=(
        Placement("gpu01", "ip-10-0-0-1", "10.0.0.1", 22, "ubuntu", 2),
        Placement("gpu02", "ip-10-0-0-2", "10.0.0.2", 2222, "ubuntu", 2),
    ),
    program=("python3", "/tmp/clusterctl-0123456789abcdef/workloads.pyz", "training"),
    env=(("MASTER_ADDR", "10.0.0.1"), ("CCORE_JOB_SECRET", None), ("NCCL_SOCKET_IFNAME", "bond0")),
    map_by="slot",
    interfaces=interfaces.parse("bond0"),
    timeout_s=600,
    secrets=(("CCORE_JOB_SECRET", "it's secret"),),
)
ONE_NODE = replace(TWO_NODES, placements=TWO_NODES.placements[:1], interfaces=None)


@pytest.mark.parametrize(
    ("slots", "np", "map_by", "counts"),
    [
        ((8, 8), 8, "slot", (8, 0)),
        ((8, 8), 10, "slot", (8, 2)),
        ((8, 8), 2, "node", (1, 1)),
        ((1, 4), 4, "node", (1, 3)),
        ((2, 2, 2), 6, "node", (2, 2, 2)),
    ],
)
def test_ranks_are_spread_over_slots(slots, np, map_by, counts):
    assert spread(slots, np, map_by) == counts


@pytest.mark.parametrize("np", [0, 17])
def test_ranks_that_do_not_fit_are_refused(np):
    with pytest.raises(LaunchError):
        spread((8, 8), np, "slot")


def test_the_node_of_every_rank_is_known():
    assert TWO_NODES.node_of_rank == ("gpu01", "gpu01", "gpu02", "gpu02")
    assert replace(TWO_NODES, map_by="node").node_of_rank == ("gpu01", "gpu02", "gpu01", "gpu02")


def test_mpirun_across_nodes():
    folder = TWO_NODES.directory
    assert shlex.join(OpenMpi().argv(TWO_NODES)) == (
        f"mpirun -np 4 -hostfile {folder}/hostfile --allow-run-as-root -bind-to none -map-by slot --xml "
        "-x CLUSTERCTL_LAUNCH=0123456789abcdef -x MASTER_ADDR=10.0.0.1 -x CCORE_JOB_SECRET "
        "-x NCCL_SOCKET_IFNAME=bond0 -mca pml ob1 "
        "-mca btl_tcp_if_include bond0 -mca oob_tcp_if_include bond0 -mca btl '^openib' "
        f"-mca plm_rsh_agent 'ssh -F {folder}/ssh_config' -mca plm_rsh_no_tree_spawn 1 "
        "-mca oob_tcp_keepalive_time 10 -mca oob_tcp_keepalive_intvl 5 -mca oob_tcp_keepalive_probes 3 "
        f"python3 {folder}/workloads.pyz training"
    )


def test_mpirun_on_one_node_uses_no_ssh():
    argv = OpenMpi().argv(ONE_NODE)
    assert not [word for word in argv if "rsh" in word or "if_include" in word]
    assert set(OpenMpi().files(ONE_NODE)) == {"hostfile"}


def test_the_launching_node_goes_by_its_own_host_name_and_peers_by_their_names_in_ssh_config():
    files = OpenMpi().files(TWO_NODES)
    assert files["hostfile"].decode().splitlines() == ["ip-10-0-0-1 slots=2", "gpu02 slots=2"]
    config = files["ssh_config"].decode()
    assert "Host gpu02\n  HostName 10.0.0.2\n  Port 2222\n  User ubuntu\n" in config
    assert "StrictHostKeyChecking yes" in config
    assert "IdentityFile" not in config
    assert "Host gpu01" not in config


def test_an_identity_is_named_only_where_the_launching_node_has_it():
    config = ssh_mesh.config(replace(TWO_NODES, identity_file="/root/.ssh/mesh", known_hosts=("/etc/ssh/k",)))
    assert "  IdentityFile /root/.ssh/mesh\n" in config
    assert f"UserKnownHostsFile {TWO_NODES.directory}/known_hosts /etc/ssh/k ~/.ssh/known_hosts" in config


@pytest.mark.parametrize("user", ["CORP\\alice", "gpu-svc$", "alice@corp.example"])
def test_accounts_of_a_directory_reach_ssh_as_they_are(user, tmp_path):
    peer = replace(TWO_NODES.placements[1], user=user)
    config = tmp_path / "ssh_config"
    config.write_text(ssh_mesh.config(replace(TWO_NODES, placements=(TWO_NODES.placements[0], peer))))
    read = subprocess.run(("ssh", "-G", "-F", config, "gpu02"), capture_output=True, text=True, check=True)
    assert f"user {user}" in read.stdout.splitlines()


def test_a_name_that_would_break_the_ssh_config_is_refused():
    bad = replace(TWO_NODES.placements[1], user="root\nProxyCommand evil")
    with pytest.raises(LaunchError):
        ssh_mesh.config(replace(TWO_NODES, placements=(TWO_NODES.placements[0], bad)))


MESHED = replace(
    TWO_NODES,
    placements=(
        TWO_NODES.placements[0],
        replace(TWO_NODES.placements[1], host_keys=("ssh-ed25519 BBB", "ssh-rsa CCC")),
    ),
    mesh_keys=(MeshKey("mesh", "ubuntu", readable=True), MeshKey("other", "ubuntu", readable=False)),
)


def test_known_hosts_lines_carry_the_port_where_it_is_not_22():
    text = ssh_mesh.known_hosts(replace(MESHED, mesh_keys=()))
    assert text == "[10.0.0.2]:2222 ssh-ed25519 BBB\n[10.0.0.2]:2222 ssh-rsa CCC\n"
    # Under the name for which the mesh has pinned keys as well.
    assert ssh_mesh.known_hosts(MESHED).splitlines()[0] == "gpu02,[10.0.0.2]:2222 ssh-ed25519 BBB"


def _ssh_reads(plan, tmp_path):
    config = tmp_path / "ssh_config"
    config.write_text(ssh_mesh.config(plan))
    read = subprocess.run(("ssh", "-G", "-F", config, "gpu02"), capture_output=True, text=True, check=True)
    return [line.split(" ", 1) for line in read.stdout.splitlines()]


def test_the_launch_uses_the_readable_key_of_the_mesh_and_its_pins(tmp_path):
    read = _ssh_reads(MESHED, tmp_path)
    keys = [value for name, value in read if name == "identityfile"]
    assert keys[0] == "/etc/clusterctl/ssh/mesh.ubuntu"
    assert [key.rpartition("/")[2] for key in keys[1:]] == ["id_ed25519", "id_ecdsa", "id_rsa"]
    assert ["hostkeyalias", "gpu02"] in read
    known = dict(read)["userknownhostsfile"].split()
    assert known[:2] == [f"{MESHED.directory}/known_hosts", "/etc/clusterctl/ssh/mesh.known_hosts"]
    named = _ssh_reads(replace(MESHED, identity_file="/home/ubuntu/key"), tmp_path)
    assert [value for name, value in named if name == "identityfile"] == [keys[0], "/home/ubuntu/key"]


def test_the_mesh_probe_names_the_peer_that_cannot_be_reached():
    assert ssh_mesh.faults(TWO_NODES, "ok\t0\n") == ()
    (fault,) = ssh_mesh.faults(TWO_NODES, "bad\t0\tops@10.0.0.2: Permission denied (publickey).\n")
    assert (fault.kind.value, fault.node) == ("ssh-mesh", "gpu02")
    assert fault.message == "gpu01 cannot reach gpu02 (10.0.0.2) by SSH: Permission denied (publickey)."
    (silent,) = ssh_mesh.faults(TWO_NODES, "")
    assert "no answer" in silent.message


CHANGED = (
    "@@@@@@@@@@@@@@@@@@@@@@@",
    "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @",
    "@@@@@@@@@@@@@@@@@@@@@@@",
    "IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!",
    "Offending ED25519 key in /tmp/clusterctl-0/known_hosts:1",
    "Host key verification failed.",
)
OPEN_KEY = (
    "@@@@@@@@@@@@@@@@@@@@@@@",
    "@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @",
    "@@@@@@@@@@@@@@@@@@@@@@@",
    "Permissions 0644 for '/etc/clusterctl/ssh/mesh.ubuntu' are too open.",
    "ubuntu@10.0.0.2: Permission denied (publickey).",
)


@pytest.mark.parametrize(
    ("said", "reason", "remedy"),
    [
        (CHANGED, "REMOTE HOST IDENTIFICATION HAS CHANGED! (ED25519 key in /tmp/clusterctl-0/known_hosts:1)",
         "ssh-keyscan"),
        (OPEN_KEY, OPEN_KEY[3], "mode 600"),
        (("ssh: connect to host 10.0.0.2 port 2222: Connection refused",), "port 2222: Connection refused",
         "check sshd"),
        (("ssh: Could not resolve hostname gpu02.lan: Name or service not known",),
         "ssh: Could not resolve hostname gpu02.lan: Name or service not known", "set `address`"),
        (("sh: 1: ssh: not found",), "sh: 1: ssh: not found", "install OpenSSH's client"),
        (("@@@@@@", "Bad packet length 7."), "Bad packet length 7.", "ssh -v"),
    ],
    ids=["host key", "key file", "refused", "name", "no client", "another"],
)  # fmt: skip
def test_the_line_that_tells_what_is_wrong_is_taken_with_its_remedy(said, reason, remedy):
    (fault,) = ssh_mesh.faults(MESHED, "bad\t0\t" + "\x01".join(said) + "\n")
    assert fault.message == f"gpu01 cannot reach gpu02 (10.0.0.2) by SSH: {reason}"
    assert remedy in fault.hint


def test_a_refused_login_names_the_requirement_and_what_stops_its_key():
    denied = "bad\t0\tubuntu@10.0.0.2: Permission denied (publickey).\n"
    closed = replace(MESHED, mesh_keys=MESHED.mesh_keys[1:])
    setting = "with requirements.ssh_mesh.require: true in the inventory"
    (without,), (refused,), (unreadable,) = (
        ssh_mesh.faults(plan, denied) for plan in (TWO_NODES, MESHED, closed)
    )
    assert without.hint == (
        "gpu01 starts ranks by SSH and needs a key for it: run clusterctl bootstrap INVENTORY --only ssh-mesh, "
        + setting
    )
    assert "gpu01's key /etc/clusterctl/ssh/mesh.ubuntu is not accepted there: run clusterctl" in refused.hint
    assert "cannot read its key /etc/clusterctl/ssh/other.ubuntu" in unreadable.hint
    assert "/etc/clusterctl" not in ssh_mesh.config(closed)
    (required,) = ssh_mesh.faults(TWO_NODES, denied, required=True)
    assert setting not in required.hint


def test_what_ranks_may_lock_comes_with_the_same_answer():
    assert ssh_mesh.memlock_of(TWO_NODES, "here\t64\nok\t0\tunlimited\n") == {
        "gpu01": "64",
        "gpu02": "unlimited",
    }
    assert ssh_mesh.memlock_of(TWO_NODES, "here\tunlimited\nok\t0\tulimit: not here\n") == {
        "gpu01": "unlimited"
    }
    assert ssh_mesh.memlock_of(TWO_NODES, "bad\t0\tno route to host\n") == {}


def test_secrets_stand_in_no_argv():
    secret, started = start_script(TWO_NODES, 60).decode().split("\n", 1)
    assert secret == "export CCORE_JOB_SECRET='it'\"'\"'s secret'"
    assert "secret" not in started.replace("CCORE_JOB_SECRET", "")
    assert f"{base.TOKEN_VARIABLE}={TWO_NODES.token}" in started


def test_the_local_launcher_passes_the_environment_without_what_the_file_sets():
    argv = LocalSpawn().argv(ONE_NODE)
    assert argv[:3] == ("env", "MASTER_ADDR=10.0.0.1", "NCCL_SOCKET_IFNAME=bond0")
    assert argv[argv.index("-np") + 1 :][:2] == ("2", "--")
    assert set(LocalSpawn().files(ONE_NODE)) == {"local_spawn.py"}


def test_mpirun_of_open_mpi_5_says_the_same_in_prrtes_words():
    folder = TWO_NODES.directory
    assert shlex.join(OpenMpi(5).argv(TWO_NODES)) == (
        f"mpirun -np 4 --hostfile {folder}/hostfile --allow-run-as-root --bind-to none --map-by slot --output tag "
        "-x CLUSTERCTL_LAUNCH=0123456789abcdef -x MASTER_ADDR=10.0.0.1 -x CCORE_JOB_SECRET "
        "-x NCCL_SOCKET_IFNAME=bond0 --mca pml ob1 --mca btl_tcp_if_include bond0 --prtemca prte_if_include bond0 "
        f"--prtemca plm_ssh_agent 'ssh -F {folder}/ssh_config' --prtemca plm_ssh_no_tree_spawn 1 "
        f"python3 {folder}/workloads.pyz training"
    )
    assert OpenMpi(5).files(TWO_NODES) == OpenMpi().files(TWO_NODES)


def test_open_mpi_5_is_not_held_to_the_loopback_interface_which_its_daemons_refuse():
    argv = OpenMpi(5).argv(replace(TWO_NODES, interfaces=interfaces.parse("lo")))
    assert "btl_tcp_if_include" in argv
    assert "prte_if_include" not in argv


def test_mpiexec_of_mpich_behind_its_scripts():
    folder = TWO_NODES.directory
    argv = Hydra().argv(TWO_NODES)
    at = argv.index("sh", 1)
    assert shlex.join(argv[:at]) == (
        f"sh {folder}/hydra_output.sh env HYDRA_LAUNCHER_EXTRA_ARGS={folder}/hydra_ssh.sh mpirun -n 4 "
        f"-f {folder}/hostfile -launcher ssh -launcher-exec /bin/sh -localhost 10.0.0.1 "
        "-prepend-pattern '[f00d,%r]<stdout>:' -genv CLUSTERCTL_LAUNCH 0123456789abcdef -genv MASTER_ADDR 10.0.0.1 "
        "-genv NCCL_SOCKET_IFNAME bond0 -genvlist CCORE_JOB_SECRET"
    )
    assert argv[at + 1] == "-c"
    assert argv[at + 4 :] == TWO_NODES.program
    files = Hydra().files(TWO_NODES)
    assert files["hostfile"].decode() == "ip-10-0-0-1:2\ngpu02:2\n"
    assert b"env CLUSTERCTL_LAUNCH=0123456789abcdef $*" in files["hydra_ssh.sh"]
    assert files["ssh_config"] == OpenMpi().files(TWO_NODES)["ssh_config"]


def test_mpich_numbers_ranks_in_turn_by_a_map_and_needs_no_ssh_alone():
    argv = Hydra().argv(replace(TWO_NODES, map_by="node"))
    assert argv[argv.index("-rankmap") + 1] == "0,1,0,1"
    alone = Hydra().argv(ONE_NODE)
    assert not {"-launcher-exec", "-rankmap", "-localhost"} & set(alone)
    assert set(Hydra().files(ONE_NODE)) == {"hostfile", "hydra_output.sh"}


def test_torchrun_starts_an_agent_per_node_and_its_secrets_stand_in_no_file():
    files = Torchrun().files(replace(TWO_NODES, env=(*TWO_NODES.env, ("MASTER_PORT", "23456"))))
    wanted = json.loads(files["agents.json"])
    assert wanted["node_names"] == ["gpu01", "gpu02"]
    assert shlex.join(wanted["commands"][1]) == (
        "python3 -m torch.distributed.run --nnodes 2 --nproc-per-node 2 --node-rank 1 --master-addr 10.0.0.1 "
        f"--master-port 23456 --max-restarts 0 --log-dir {TWO_NODES.directory}/torchrun-1 --tee 3 --no-python "
        # The template of the tags holds the mark that no rank may have.
        "env -u TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE " + shlex.join(TWO_NODES.program)
    )
    assert wanted["forward"] == ["CCORE_JOB_SECRET"]
    assert "secret" not in files["agents.json"].decode().replace("CCORE_JOB_SECRET", "")
    assert wanted["env"]["CLUSTERCTL_LAUNCH"] == TWO_NODES.token
    assert Torchrun().argv(TWO_NODES)[0] == "python3"


@pytest.mark.parametrize(
    ("launcher", "job"),
    [(OpenMpi(), ""), (OpenMpi(5), ""), (Hydra(), ""), (Torchrun(), ""), (LocalSpawn(), ""), (Srun(), "7")],
)
def test_nothing_of_a_job_around_us_reaches_the_ranks(launcher, job):
    """A shell of srun, a batch script or a pod says a place among ranks, which is not ours."""

    class Said(type(launcher)):
        def argv(self, plan):
            return (
                "sh",
                "-c",
                'echo "$SLURM_PROCID$RANK$PMI_SIZE$TORCHELASTIC_RUN_ID,$SLURM_JOB_ID,$SLURM_JOB_NAME"',
            )

    around = dict.fromkeys(("SLURM_PROCID", "RANK", "PMI_SIZE", "TORCHELASTIC_RUN_ID"), "3")
    done = subprocess.run(
        ("sh", "-s"), input=start_script(replace(ONE_NODE, launcher=Said()), 60).decode(),
        capture_output=True, text=True, check=True,
        env={**os.environ, **around, "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "name"},
    )  # fmt: skip
    assert done.stdout == f",{job},name\n"


def test_srun_places_every_task_by_a_file_and_asks_for_no_pmi():
    folder = TWO_NODES.directory
    plan = replace(TWO_NODES, map_by="node", env=(*TWO_NODES.env, ("NCCL_IB_HCA", "mlx5_0,mlx5_1")))
    assert shlex.join(Srun().argv(plan)) == (
        f"env SLURM_HOSTFILE={folder}/slurm_hosts NCCL_IB_HCA=mlx5_0,mlx5_1 sh {folder}/srun_output.sh "
        "srun --ntasks 4 --nodes 2 --distribution arbitrary --kill-on-bad-exit=1 --mpi=none --cpu-bind=none "
        "--input=none --label --time 12 --export ALL,CLUSTERCTL_LAUNCH=0123456789abcdef,MASTER_ADDR=10.0.0.1,"
        "CCORE_JOB_SECRET,NCCL_SOCKET_IFNAME=bond0,NCCL_IB_HCA " + shlex.join(plan.program)
    )
    assert Srun().files(plan)["slurm_hosts"] == b"gpu01\ngpu02\ngpu01\ngpu02\n"
