#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that the test tiers use. Does nothing when all are there.
# shellcheck shell=bash
set -euo pipefail

packages=(
  git make gcc g++ binutils python3-venv pkg-config # build
  g++-aarch64-linux-gnu qemu-user        # kernels of 64-bit Arm
  libibverbs-dev                         # the header with which the declarations of its ABI are compared
  locales                                # a program in another language
  openssh-server openssh-client sudo     # transport
  openmpi-bin slurmctld slurmd slurm-client libslurm-dev munge  # launch
  zsh fish                               # shell completion
  busybox-static tcsh pciutils strace util-linux            # the probe and the runner under other shells
  dpkg-dev iproute2 debootstrap debian-archive-keyring zstd cpio e2fsprogs qemu-system-x86 ipxe-qemu qemu-utils  # lab
  fio stress-ng iperf3 perftest          # rows of accept
  rpm createrepo-c                       # packages that a controller carries, and a repository of the RHEL family
)
# An engine from elsewhere (Docker CE) serves as well, and Debian's package would want its place.
command -v dockerd >/dev/null || [ -x /usr/sbin/dockerd ] || packages+=(docker.io iptables)
# Reports are looked at in a real browser. Ubuntu has Chromium as a snap only, and its CI machines have Chrome.
command -v google-chrome chromium >/dev/null || { . /etc/os-release; [ "$ID" != debian ] || packages+=(chromium fonts-dejavu-core); }

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" != 0 ]; then
  echo "these packages are missing: ${missing[*]}" >&2
  echo "run as root: apt-get install ${missing[*]}" >&2
  [ "${CI:-}" = true ] && exit 1
  echo "going on without them: the tiers that need them say so" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# A network that fails for a moment is tried again, and another apt of a machine that has just started is waited for.
apt_get() { apt-get -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 "$@"; }
apt_get update -qq
# Services must not start by themselves on a build machine; the tests start what they use.
policy=/usr/sbin/policy-rc.d
made_policy=
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' > "$policy"
  chmod +x "$policy"
  made_policy=yes
fi
trap '[ -z "$made_policy" ] || rm -f "$policy"' EXIT
apt_get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
