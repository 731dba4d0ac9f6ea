"""Small real RPMs, built on the spot: packages of the RHEL family by name, with the files that clusterctl looks for.

Their contents are stand-ins; that they are files which rpm and dnf unpack, record and remove is what counts.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

TOOLS = {"rpmbuild": "rpm", "createrepo_c": "createrepo-c"}

# Those that no package owns; every other one is the package's own and goes with it.
SHARED_FOLDERS = {"/", "/etc", "/usr", "/usr/bin", "/usr/sbin", "/usr/lib64", "/usr/share"}

# Debian's rpmbuild has no scripts that strip and check binaries; there are none in these packages.
_PREAMBLE = """\
%define debug_package %{{nil}}
%define __os_install_post %{{nil}}
Name: {name}
Version: {version}
Release: 1
Summary: {name}, as a stand-in
License: MIT
AutoReqProv: no
{relations}
%description
{name}, as a stand-in.
%install
"""

# Says which RDMA devices the kernel has, in the tool's own format, where the library and a provider are there.
IBV_DEVICES = """\
#!/bin/sh
[ -e /usr/lib64/libibverbs.so.1 ] && [ -e /usr/lib64/libibverbs/libmlx5-rdmav34.so ] || exit 1
printf '    device          \\t   node GUID\\n    ------          \\t----------------\\n'
for device in /sys/class/infiniband/*; do printf '    %-16s\\t0002c90300000001\\n' "${device##*/}"; done
"""


@dataclass(frozen=True, slots=True)
class Rpm:
    """One package: what it needs, its files (path -> content; scripts start with ``#!``), and its scriptlet."""

    name: str
    requires: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    version: str = "1.0"
    provides: tuple[str, ...] = ()
    pre: str = ""
    obsoletes: tuple[str, ...] = ()

    def spec(self) -> str:
        """Return the package's spec file."""
        relations = [f"Requires: {name}" for name in self.requires]
        relations += [f"Provides: {text}" for text in self.provides]
        relations += [f"Obsoletes: {name}" for name in self.obsoletes]
        relations_text = "\n".join(relations)
        lines = [_PREAMBLE.format(name=self.name, version=self.version, relations=relations_text)]
        listed = []
        for path, content in (self.files or {f"/usr/share/{self.name}/README": f"{self.name}\n"}).items():
            mode = "0755" if content.startswith("#!") else "0644"
            lines.append(
                f"mkdir -p %{{buildroot}}{Path(path).parent}\n"
                f"cat >%{{buildroot}}{path} <<'END_OF_FILE'\n{content}END_OF_FILE\n"
            )
            listed += [
                f"%dir {folder}\n" for folder in Path(path).parents if str(folder) not in SHARED_FOLDERS
            ]
            listed.append(f"%attr({mode}, root, root) {path}\n")
        if self.pre:
            lines.append(f"%pre\n{self.pre}\n")
        # A percent sign begins a macro, in files as well.
        lines = [lines[0], *(line.replace("%-", "%%-").replace("%s", "%%s") for line in lines[1:])]
        return "".join([*lines, "%files\n", *listed])


PACKAGES = (
    Rpm("rocky-release", provides=("system-release = 9.4", "system-release(releasever) = 9", "/bin/sh"), version="9.4"),
    Rpm("rdma-core", files={
        "/usr/lib64/libibverbs/libmlx5-rdmav34.so": "a provider\n",
        "/etc/rdma/modules/rdma.conf": "ib_umad\n",
    }, requires=("pciutils",)),
    Rpm("libibverbs", ("rdma-core",), {"/usr/lib64/libibverbs.so.1": "a library\n"}),
    Rpm("libibverbs-utils", ("libibverbs",), {"/usr/bin/ibv_devices": IBV_DEVICES}),
    Rpm("librdmacm", ("libibverbs",)),
    Rpm("pciutils", files={"/usr/sbin/setpci": "#!/bin/sh\nexit 1\n"}),
    Rpm("chrony", files={"/usr/sbin/chronyd": "#!/bin/sh\nexit 1\n", "/etc/chrony.conf": "makestep 1 3\n"}),
    Rpm("nfs-utils", ("rpcbind", "libnfsidmap"), {"/usr/sbin/exportfs": "#!/bin/sh\nexit 0\n"}),
    Rpm("libnfsidmap"),
    Rpm("rpcbind", files={"/usr/bin/rpcbind": "#!/bin/sh\nexit 0\n"}),
    Rpm("docker-ce", ("docker-ce-cli", "containerd.io"), {"/usr/bin/dockerd": "#!/bin/sh\nexit 1\n"}),
    Rpm("docker-ce-cli", files={"/usr/bin/docker": "#!/bin/sh\necho no engine >&2\nexit 1\n"}),
    Rpm("containerd.io", files={"/usr/bin/containerd": "#!/bin/sh\nexit 1\n"}),
)  # fmt: skip


def build(packages: Iterable[Rpm], folder: Path, scratch: Path) -> tuple[Path, ...]:
    """Build packages into ``folder``; one rpmbuild for each."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for package in packages:
        spec = scratch / f"{package.name}.spec"
        spec.write_text(package.spec())
        subprocess.run(
            (
                "rpmbuild", "-bb", "--quiet", "--target", "x86_64",
                "--define", f"_topdir {scratch}", "--define", f"_rpmdir {folder}",
                "--define", "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm", str(spec),
            ),
            check=True, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        made.append(folder / f"{package.name}-{package.version}-1.x86_64.rpm")
        assert made[-1].is_file(), sorted(folder.iterdir())
    return tuple(made)


def make_repository(folder: Path) -> None:
    """Write the repository's metadata (``repodata``) beside the packages, and their SHA256SUMS."""
    subprocess.run(("createrepo_c", "--quiet", str(folder)), check=True, capture_output=True, timeout=60)
    names = sorted(
        str(path.relative_to(folder)) for path in (*folder.glob("*.rpm"), *folder.glob("repodata/*"))
    )
    sums = subprocess.run(
        ("sha256sum", *names), cwd=folder, check=True, capture_output=True, text=True, timeout=60
    ).stdout
    (folder / "SHA256SUMS").write_text(sums)
