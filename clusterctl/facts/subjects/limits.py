"""Resource limits of a non-interactive SSH session, and the files that set them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from clusterctl.facts.base import Fragment, Reading, Section, Sections, Unparsable, path_lines
from clusterctl.facts.model.host import UNLIMITED, ConfigLine, Limit, Limits
from clusterctl.text.foreign import whole
from clusterctl.text.secret.scrub import scrubbed

NCCL_HOME_FILE = "~/.nccl.conf"
"""Name in the facts for this file in the home of the login account, wherever the home is."""

FRAGMENTS = (
    # The shell itself opens the file, so these are the limits that sshd, PAM and the login set for the session's
    # own process. A program that mpirun starts over SSH inherits the same limits.
    Fragment(
        "limits",
        'while IFS= read -r line; do printf "%s\\n" "$line"; done </proc/self/limits; echo "shell ${SHELL:-}"',
        needs="[ -r /proc/self/limits ]",
        missing="/proc/self/limits not found",
    ),
    Fragment(
        "config",
        """\
f="${HOME:-}/.nccl.conf"
if [ -f "$f" ] && [ -r "$f" ]; then
  while IFS= read -r l || [ "$l" ]; do
    case $l in NCCL_*=*) printf '@HOME_FILE@:%s\\n' "$l";; esac
  done <"$f"
fi
grep -HsE '^[[:space:]]*(deb |URIs:|baseurl|metalink|mirrorlist|u?limit |Exec.*modprobe .*peer[-_]?mem)' \\
  /etc/systemd/system/*.wants/*.service /etc/systemd/system/*.service.d/*.conf /etc/apt/sources.list \\
  /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources /etc/yum.repos.d/*.repo \\
  /etc/profile /etc/profile.d/*.sh /etc/bashrc /etc/bash.bashrc /etc/csh.cshrc /etc/csh.login
n $?""".replace("@HOME_FILE@", NCCL_HOME_FILE),
        files=(
            *("/etc/security/limits.conf", "/etc/security/limits.d/*.conf", "/etc/pam.d/sshd"),
            *("/etc/pam.d/common-session", "/etc/pam.d/common-session-noninteractive"),
            *("/etc/pam.d/password-auth", "/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d/*.conf"),
            *("/etc/nccl.conf", "/etc/sysctl.conf", "/etc/sysctl.d/*.conf", "/run/sysctl.d/*.conf"),
            *("/usr/local/lib/sysctl.d/*.conf", "/usr/lib/sysctl.d/*.conf", "/etc/chrony.conf"),
            *("/etc/chrony/chrony.conf", "/etc/chrony/conf.d/*.conf", "/etc/chrony/sources.d/*.sources"),
            *("/etc/chrony.d/*.conf", "/etc/chrony.d/*.sources", "/usr/etc/chrony.conf"),
            "/usr/etc/chrony.d/*.conf",
            *("/etc/systemd/timesyncd.conf", "/etc/systemd/timesyncd.conf.d/*.conf", "/etc/ntp.conf"),
            *("/etc/ntpsec/ntp.conf", "/etc/systemd/logind.conf", "/etc/systemd/logind.conf.d/*.conf"),
            *("/etc/modules", "/etc/modules-load.d/*.conf", "/usr/lib/modules-load.d/*.conf"),
            *("/run/modules-load.d/*.conf", "/etc/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf"),
        ),
    ),
)

_ROWS = {
    "memlock": "Max locked memory",
    "nofile": "Max open files",
    "stack": "Max stack size",
    "nproc": "Max processes",
}


def _amount(word: str) -> int:
    return UNLIMITED if word == "unlimited" else whole(word)


def parse_limit(text: str, key: str) -> Limit:
    """Return one limit of /proc/self/limits (proc(5)): soft and hard, in the kernel's unit."""
    match = re.search(rf"^{_ROWS[key]} +(unlimited|\d+) +(unlimited|\d+)", text, re.MULTILINE)
    if match is None:
        raise Unparsable(f"/proc/self/limits has no line {_ROWS[key]!r}")
    return Limit(soft=_amount(match[1]), hard=_amount(match[2]))


def _login_shell(text: str) -> str:
    """Return the session's SHELL (from the account's passwd entry), or an empty text."""
    match = re.search(r"^shell (\S+)$", text, re.MULTILINE)
    return match[1] if match else ""


# Cached: several parsers read the same files, which are equal on most nodes of a fleet.
@lru_cache(maxsize=64)
def config_lines(section: Section, *folders: str) -> tuple[ConfigLine, ...]:
    """Return the non-empty lines of the files whose paths begin with one of the given prefixes."""
    return tuple(
        ConfigLine(path, words)
        for path, text in path_lines(section.text)
        if path.startswith(folders) and (words := text.strip())
    )


def _without_secrets(line: ConfigLine) -> ConfigLine:
    # Some sites pass tokens to all sessions with SetEnv; requirements judge the other settings unchanged.
    return replace(line, text=scrubbed(line.text)) if line.text.lower().startswith("setenv") else line


def parse(sections: Sections) -> Limits:
    """Return the facts of the sections ``limits`` and ``config``."""

    def limit(key: str) -> Reading[Limit]:
        return sections["limits"].read(lambda text: parse_limit(text, key))

    config = sections["config"]
    pam = tuple(line for line in config_lines(config, "/etc/pam.d/") if "pam_limits" in line.text)
    return Limits(
        memlock=limit("memlock"),
        nofile=limit("nofile"),
        stack=limit("stack"),
        nproc=limit("nproc"),
        configured=config_lines(config, "/etc/security/") + pam,
        sshd=tuple(_without_secrets(line) for line in config_lines(config, "/etc/ssh/")),
        shells=config_lines(config, "/etc/profile", "/etc/bash", "/etc/csh"),
        login_shell=_login_shell(sections["limits"].text),
    )
