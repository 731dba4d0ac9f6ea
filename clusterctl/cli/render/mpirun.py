"""``render mpirun``: print an mpirun command; each setting of the launch is an option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from clusterctl.cli.options import JsonOption
from clusterctl.cli.render.launch import Asked, as_bench, by_hand, emit_bench
from clusterctl.cli.render.output import emit

if TYPE_CHECKING:
    from clusterctl.artifacts.ranks import RankPlacement


def mpirun(
    asked: Asked,
    *,
    nccl_debug: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="NCCL_DEBUG: WARN, INFO, ...")
    ] = None,
    ib: Annotated[
        bool | None, typer.Option("--ib/--no-ib", help="NCCL_IB_DISABLE=0 or 1; default: unset.")
    ] = None,
    gid_index: Annotated[int | None, typer.Option(help="NCCL_IB_GID_INDEX, for NCCL before 2.21.")] = None,
    gdr_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="NCCL_NET_GDR_LEVEL: LOC, PIX, PXB, PHB, SYS.")
    ] = None,
    fusion_threshold: Annotated[
        int | None, typer.Option(metavar="BYTES", min=0, help="HOROVOD_FUSION_THRESHOLD.")
    ] = None,
    cycle_time: Annotated[int | None, typer.Option(metavar="MS", min=0, help="HOROVOD_CYCLE_TIME.")] = None,
    two_d: Annotated[bool | None, typer.Option("--two-d/--no-two-d", help="LightCC's 2D all-reduce.")] = None,
    intra_size: Annotated[
        int | None, typer.Option(help="Ranks per group of the 2D all-reduce; default: a node's slots.")
    ] = None,
    two_d_threshold: Annotated[
        int | None, typer.Option(metavar="BYTES", min=0, help="Use the 2D all-reduce up to this size.")
    ] = None,
    topk: Annotated[
        bool | None, typer.Option("--topk/--no-topk", help="LightCC's top-k compression.")
    ] = None,
    topk_ratio: Annotated[
        float | None, typer.Option(metavar="FRACTION", help="Part of the values that top-k sends.")
    ] = None,
    topk_threshold: Annotated[
        int | None, typer.Option(metavar="BYTES", min=0, help="Use top-k from this size.")
    ] = None,
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
    pml: Annotated[
        str, typer.Option(metavar="COMPONENTS", help="Open MPI's pml; none: Open MPI chooses.")
    ] = "ob1",
    btl: Annotated[
        str, typer.Option(metavar="COMPONENTS", help="Open MPI's btl; none: Open MPI chooses.")
    ] = "^openib",
    open_mpi: Annotated[int, typer.Option(min=4, max=5, help="Version of Open MPI: 4 or 5.")] = 4,
    json: JsonOption = False,
) -> None:
    """Print Open MPI's mpirun command.

    It sets hosts, interfaces and the environment of the ranks.
    """
    from clusterctl.artifacts import shell
    from clusterctl.launch.environment import Communication, variables
    from clusterctl.launch.launchers.openmpi import OpenMpi

    major: Literal[4, 5] = 5 if open_mpi == 5 else 4
    if asked.bench:
        refused = {
            "--nccl-debug": nccl_debug, "--ib": ib, "--gid-index": gid_index, "--gdr-level": gdr_level,
            "--fusion-threshold": fusion_threshold, "--cycle-time": cycle_time, "--two-d": two_d,
            "--intra-size": intra_size, "--two-d-threshold": two_d_threshold, "--topk": topk,
            "--topk-ratio": topk_ratio, "--topk-threshold": topk_threshold, "--topk-fp16": topk_fp16,
            "--hostfile": hostfile, "--ssh-config": ssh_config, "--no-tree-spawn": not tree_spawn,
            "--no-oob": not oob, "--pml": pml != "ob1", "--btl": btl != "^openib",
        }  # fmt: skip
        emit_bench("mpirun", as_bench(asked, "openmpi", refused, ("openmpi", major)), json)
        return

    def options(placement: RankPlacement) -> dict[str, str]:
        per_node = {count for _, count in placement.hosts}
        settings = Communication(
            library=asked.communicates_by,
            debug=nccl_debug,
            ib_disable=None if ib is None else not ib,
            gid_index=gid_index,
            gdr_level=gdr_level,
            fusion_threshold_bytes=fusion_threshold,
            cycle_time_ms=cycle_time,
            two_d=two_d,
            intra_size=per_node.pop() if two_d and intra_size is None and len(per_node) == 1 else intra_size,
            hierarchical_threshold_bytes=two_d_threshold,
            top_k=topk,
            top_k_ratio=topk_ratio,
            top_k_threshold_bytes=topk_threshold,
            top_k_fp16=topk_fp16,
        )
        return variables(settings, np=placement.np)

    launcher = OpenMpi(
        major, hostfile=hostfile, ssh_config=ssh_config, tree_spawn=tree_spawn, oob_interface=oob,
        pml=None if pml == "none" else pml, btl=None if btl == "none" else btl,
    )  # fmt: skip
    plan = by_hand(
        asked, launcher, options=options, mpi=("openmpi", major), forward=("LD_LIBRARY_PATH", "PATH"),
        secrets="where mpirun runs: secrets are not printed, '-x NAME' passes them to the ranks",
    )  # fmt: skip
    emit("mpirun", shell.line(plan.argv), json, argv=plan.argv)
