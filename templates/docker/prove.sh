# Runs in a container. Prints, with tabs: "rank", rank, pid, sha256 and path of the library in every process that has it
# mapped, "beside" with the same of the further libraries there ($BESIDE), and "version" with the line that the library says of itself. Without such a process, $SLOTS are started that
# load the library as ranks do.
mapped_by() {
  sed -nE 's/^[0-9a-f]+-[0-9a-f]+ r.xp [^/]*(\/.*)$/\1/p' "$1/maps" 2>/dev/null | grep -E "$2" | sort -u
}
# Of a kind and a process: a line for each path on standard input.
lines_of() {
  while IFS= read -r path; do
    sum=$(sha256sum "$2/root$path" 2>/dev/null)
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$rank" "${2#/proc/}" "${sum%% *}" "$path"
  done
}
found=
for folder in /proc/[0-9]*; do
  paths=$(mapped_by "$folder" "$MAPPED")
  [ -n "$paths" ] || continue
  found=1
  rank=$(tr '\0' '\n' <"$folder/environ" 2>/dev/null |
    sed -nE 's/^(OMPI_COMM_WORLD_RANK|PMI_RANK|SLURM_PROCID|RANK)=//p' | head -n 1)
  rank=${rank:--}
  echo "$paths" | lines_of rank "$folder"
  [ -z "$BESIDE" ] || mapped_by "$folder" "$BESIDE" | lines_of beside "$folder"
done
[ -n "$VERSION_PROGRAM" ] || exit 0
command -v "$PYTHON" >/dev/null || { printf 'error\t%s is not in the container\n' "$PYTHON"; exit 0; }
if [ -n "$found" ]; then
  said=$("$PYTHON" -c "$VERSION_PROGRAM" 2>&1) && printf 'version\t%s\n' "$said" ||
    printf 'error\t%s\n' "$(echo "$said" | tail -n 1)"
  exit 0
fi
slot=0
while [ "$slot" -lt "$SLOTS" ]; do
  said=$(SLOT=$slot "$PYTHON" -c "$LOADER" 2>&1) && printf '%s\n' "$said" ||
    printf 'error\t%s\n' "$(echo "$said" | tail -n 1)" &
  slot=$((slot + 1))
done
wait
