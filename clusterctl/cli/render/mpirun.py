"""``render mpirun``: print an mpirun command; each setting of the launch is an option."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl.cli import console
from clusterctl.cli.options import InventoryOption, JsonOption, LimitOption
from clusterctl.cli.render.output import NpOption, SlotsOption, emit, load, place
from clusterctl.errors import UsageError

if TYPE_CHECKING:
    from clusterctl.inventory.model import Node


class Library(str, Enum):
    """Name the collective libraries."""

    nccl = "nccl"
    gloo = "gloo"
    ccore = "ccore"


def mpirun(
    *,
    inventory: InventoryOption = None,
    limit: LimitOption = None,
    np: NpOption = None,
    slots: SlotsOption = None,
    model: Annotated[
        str | None,
        typer.Option(help="Train this model (resnet50, ...); the nodes need clusterctl installed."),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Batch size per rank.")] = None,
    collective: Annotated[
        str | None, typer.Option(help="Measure this collective; names as in nccl-tests.")
    ] = None,
    library: Annotated[Library, typer.Option(help="The collective library.")] = Library.nccl,
    nccl_debug: Annotated[str | None, typer.Option(help="NCCL_DEBUG.")] = None,
    ib: Annotated[
        bool | None, typer.Option("--ib/--no-ib", help="NCCL_IB_DISABLE=0 or 1; default: unset.")
    ] = None,
    gid_index: Annotated[int | None, typer.Option(help="NCCL_IB_GID_INDEX, for NCCL before 2.21.")] = None,
    gdr_level: Annotated[
        str | None, typer.Option(help="NCCL_NET_GDR_LEVEL: LOC, PIX, PXB, PHB, SYS.")
    ] = None,
    fusion_threshold: Annotated[
        int | None, typer.Option(min=0, help="HOROVOD_FUSION_THRESHOLD, bytes.")
    ] = None,
    cycle_time: Annotated[int | None, typer.Option(min=0, help="HOROVOD_CYCLE_TIME, ms.")] = None,
    two_d: Annotated[bool | None, typer.Option("--two-d/--no-two-d", help="LightCC's 2D all-reduce.")] = None,
    intra_size: Annotated[
        int | None, typer.Option(help="Ranks per group of the 2D all-reduce; default: a node's slots.")
    ] = None,
    two_d_threshold: Annotated[
        int | None, typer.Option(min=0, help="Use the 2D all-reduce up to this many bytes.")
    ] = None,
    topk: Annotated[
        bool | None, typer.Option("--topk/--no-topk", help="LightCC's top-k compression.")
    ] = None,
    topk_ratio: Annotated[float | None, typer.Option(help="Fraction of the values that top-k sends.")] = None,
    topk_threshold: Annotated[int | None, typer.Option(min=0, help="Use top-k from this many bytes.")] = None,
    topk_fp16: Annotated[
        bool | None, typer.Option("--topk-fp16/--no-topk-fp16", help="Send the values of top-k as FP16.")
    ] = None,
    hostfile: Annotated[
        str | None, typer.Option(metavar="FILE", help="Use -hostfile FILE instead of -H.")
    ] = None,
    ssh_config: Annotated[
        str | None, typer.Option(metavar="FILE", help="Start ranks with ssh -F FILE.")
    ] = None,
    tree_spawn: Annotated[bool, typer.Option(help="Let nodes start ranks on further nodes.")] = True,
    oob: Annotated[bool, typer.Option(help="Also bind mpirun's own connections to the interface.")] = True,
    pml: Annotated[str, typer.Option(help="Open MPI's pml; none: Open MPI chooses.")] = "ob1",
    btl: Annotated[str, typer.Option(help="Open MPI's btl; none: Open MPI chooses.")] = "^openib",
    program: Annotated[
        list[str] | None, typer.Argument(metavar="PROGRAM", help="Program of the ranks, after --.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Print Open MPI's mpirun command.

    It sets hosts, interfaces and the environment of the ranks.
    """
    from clusterctl.artifacts import env, ranks, shell
    from clusterctl.artifacts.mpirun import mpirun_argv
    from clusterctl.secret.scrub import names_a_secret

    if program and (model or collective or batch_size):
        raise UsageError("a program cannot be combined with --model, --batch-size or --collective")
    nodes = load(inventory, limit).nodes
    placement = place(nodes, np, slots)
    used = nodes[: len(placement.hosts)]
    interface = ranks.agreed(used, "socket_ifname")
    per_node = {count for _, count in placement.hosts}
    if two_d and intra_size is None and len(per_node) == 1:
        intra_size = per_node.pop()
    settings = env.Communication(
        library=library.value,
        debug=nccl_debug,
        ib_disable=None if ib is None else not ib,
        socket_ifname=interface,
        rdma_devices=ranks.agreed(used, "rdma_devices"),
        gid_index=gid_index,
        gdr_level=gdr_level,
        fusion_threshold_bytes=fusion_threshold,
        cycle_time_ms=cycle_time,
        two_d=two_d,
        intra_size=intra_size,
        hierarchical_threshold_bytes=two_d_threshold,
        top_k=topk,
        top_k_ratio=topk_ratio,
        top_k_threshold_bytes=topk_threshold,
        top_k_fp16=topk_fp16,
        extra=ranks.agreed_env(used),
    )
    variables = env.variables(settings, np=placement.np)
    private = [n for n, value in variables.items() if value is not None and names_a_secret(n, value)]
    alone = len(used) == 1 and used[0].connection == "local"
    argv = mpirun_argv(
        np=placement.np,
        program=program or _program(used, model, batch_size, collective, library),
        hosts=() if alone else placement.hosts,
        hostfile=hostfile,
        env={name: None if name in private else value for name, value in variables.items()},
        tcp_interface=interface,
        mpirun=used[0].mpirun or "mpirun",
        ssh_agent=("ssh", "-F", ssh_config) if ssh_config is not None else None,
        tree_spawn=tree_spawn,
        oob_interface=oob,
        pml=None if pml == "none" else pml,
        btl=None if btl == "none" else btl,
    )
    if private:
        console.talk(
            f"note: set {', '.join(private)} where mpirun runs: secrets are not printed, "
            "'-x NAME' passes them to the ranks"
        )
    if not program and model is not None:
        console.talk(
            "note: python on every node needs clusterctl installed; 'clusterctl bench --model' does not "
            "need that"
        )
    emit("mpirun", shell.line(argv), json, argv=argv)


def _program(
    nodes: Sequence[Node], model: str | None, batch_size: int | None, collective: str | None, library: Library
) -> tuple[str, ...]:
    """Return the program of the ranks if none is given: the training workload, or a program of nccl-tests."""
    from clusterctl.artifacts import ranks
    from clusterctl.benchmarks.collective import COLLECTIVES, program_of, sibling

    if model is not None and collective is not None:
        raise UsageError("--model and --collective cannot be combined")
    if collective is not None:
        if collective not in COLLECTIVES:
            known = ", ".join(COLLECTIVES)
            raise UsageError(f"unknown collective {collective!r}", hint=f"choose from: {known}")
        return (
            sibling(ranks.agreed(nodes, "all_reduce_perf") or "", program_of(collective)),
            *("-b", "8", "-e", "128M", "-f", "2", "-g", "1"),
        )
    if model is None:
        raise UsageError(
            "no program to run was given", hint="give --model, --collective, or a program after '--'"
        )
    python = ranks.agreed(nodes, "python") or "python3"
    words = [python, "-m", "clusterctl.workloads", "training", "--model", model, "--backend", library.value]
    return (*words, "--batch-size", str(batch_size)) if batch_size is not None else tuple(words)
