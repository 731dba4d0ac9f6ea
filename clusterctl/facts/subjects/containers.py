"""What a container could use of the node: paths to mount, devices, and ways to give it GPUs."""

from __future__ import annotations

from clusterctl.facts.base import Fragment, Sections
from clusterctl.facts.model.launch import ContainerFacts

# With the toolkit's hook dockerd serves --gpus even without a runtime called nvidia (moby daemon/nvidia_linux.go).
FRAGMENTS = (
    Fragment(
        "containers",
        """\
IFS=$N; set -f
for f in $PATHS; do [ -e "$f" ] || echo "absent $f"; done
set -- $CDI_DIRS
unset IFS; set +f
[ -e /dev/nvidiactl ] && echo gpu-device
command -v nvidia-container-runtime-hook >/dev/null 2>&1 && echo gpu-hook
for f in "$@"; do
  if grep -qs nvidia.com/gpu "$f"/*; then echo cdi-gpus; break; fi
done
return 0""",
        variables=("PATHS", "CDI_DIRS"),
    ),
)


def parse(sections: Sections) -> ContainerFacts:
    """Return the facts of the section ``containers``."""
    said = [line.partition(" ") for line in sections["containers"].text.splitlines()]
    names = {name for name, _, _ in said}
    return ContainerFacts(
        absent=tuple(path for name, _, path in said if name == "absent"),
        gpu_device="gpu-device" in names,
        gpu_hook="gpu-hook" in names,
        cdi_gpus="cdi-gpus" in names,
    )
