# Runs a rank (sh nccl_dump.sh PROGRAM ...). NCCL writes its topology and graphs in one process only, rank 0 unless told
# otherwise; here the first rank of every node does, each into files of its own, because nodes may share a directory.
if [ -n "$TORCHELASTIC_RUN_ID" ]; then
  rank=$RANK local=$LOCAL_RANK
else
  rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-$RANK}}}
  local=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:-$LOCAL_RANK}}}
fi
if [ "$local" = 0 ]; then
  # Files that the inventory names are left to rank 0.
  case $NCCL_TOPO_DUMP_FILE in
    "${0%/*}"/*) export NCCL_TOPO_DUMP_FILE="$NCCL_TOPO_DUMP_FILE.$rank" NCCL_TOPO_DUMP_FILE_RANK="$rank" ;;
  esac
  case $NCCL_GRAPH_DUMP_FILE in
    "${0%/*}"/*) export NCCL_GRAPH_DUMP_FILE="$NCCL_GRAPH_DUMP_FILE.$rank" NCCL_GRAPH_DUMP_FILE_RANK="$rank" ;;
  esac
fi
exec "$@"
