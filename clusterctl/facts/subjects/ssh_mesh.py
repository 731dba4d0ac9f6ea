"""SSH between nodes: the account's mesh keys, the host keys, and clusterctl's parts of SSH's files."""

from __future__ import annotations

import re

from clusterctl.facts.base import Fragment, Reading, ReadStatus, Sections, Unparsable, absent, failed
from clusterctl.facts.model.host import ConfigLine
from clusterctl.facts.model.sharing import Login, OwnText, PathMode, SshMesh
from clusterctl.text.foreign import is_whole, whole
from clusterctl.text.secret.scrub import scrubbed

FOLDER = "/etc/clusterctl/ssh"
"""Directory of the mesh keys; not in the home, which nodes may share. The probe reads only public keys."""
LONGEST_TEXT = 48 * 1024
"""Maximum bytes of clusterctl's part of a file; only the SHA-256 of a longer part is read."""

_SETTINGS = (
    *("port", "hostkey", "authorizedkeysfile", "strictmodes", "pubkeyauthentication", "permitrootlogin"),
    *("authenticationmethods", "allowusers", "denyusers", "allowgroups", "denygroups"),
)
_CLIENT_WORDS = (
    *("host", "match", "include", "hostname", "port", "user", "proxyjump", "proxycommand"),
    *("userknownhostsfile", "stricthostkeychecking", "hostkeyalias", "preferredauthentications"),
)

# On a node without the directory of mesh keys this runs one shell function and no program. LOGNAME selects between
# accounts that share a user number. Debian's sshd accepts files writable by a group whose only member is the account
# (user-group-modes.patch). The server's settings may depend on the addresses of a login (Match), so the node's own
# address, at which the controller reached it, is used for those of the other nodes. clusterctl's parts are printed
# with their length, since they may hold any line.
FRAGMENTS = (
    Fragment(
        "ssh_mesh",
        f"""\
p=; h=; y=
while IFS=: read -r n x u i c d z; do
  [ "$u" = "$U" ] || continue
  if [ -z "$p" ]; then p=$n; h=$d; y=$i; fi
  if [ "$n" = "${{LOGNAME:-}}" ]; then p=$n; h=$d; y=$i; break; fi
done </etc/passwd
if [ -z "$p" ]; then
  IFS=: read -r p x u i c h z <<E
$(getent passwd "$U")
E
fi
[ -n "$p" ] || {{ echo "no account has the number $U" >&2; return 1; }}
printf 'login %s %s %s\\n' "$p" "$U" "$h"
for n in ssh ssh-keygen sshd; do command -v $n >/dev/null 2>&1 && echo "tool $n"; done
k={FOLDER}
[ -d $k ] || return 0
for f in $k/*.pub /etc/ssh/ssh_host_*_key.pub; do
  v=; {{ read -r v <"$f"; }} 2>/dev/null; [ -z "$v" ] || printf 'key %s %s\\n' "$f" "$v"
done
a=.ssh/authorized_keys
case $p in *[!A-Za-z0-9_.@-]*) echo 'sshd-unknown the name of the account is unusual';; *)
  b=${{SSH_CONNECTION:-}}; b=${{b#* }}; b=${{b#* }}; d=${{b##* }}; b=${{b%% *}}
  case $b in ''|*[!0-9A-Fa-f:.]*) b=127.0.0.1;; esac
  case $d in ''|*[!0-9]*) d=22;; esac
  if x=$(r "sshd -T -C user=$p,host=$b,addr=$b,laddr=$b,lport=$d" 2>&1)
  then
    IFS=$N; set -f
    for v in $x; do
      case ${{v%% *}} in
      authorizedkeysfile) a=${{v#* }}; echo "sshd $v";;
      {"|".join(_SETTINGS)}) echo "sshd $v";;
      esac
    done
    unset IFS; set +f
  else printf 'sshd-unknown %.300s\\n' "${{x%%"$N"*}}"
  fi
esac
a=${{a%% *}}
case $a in *%*) a=$(printf %s "$a" | sed "s|%h|$h|g;s|%u|$p|g;s|%U|$U|g;s|%%|%|g");; esac
case $a in /*|none) ;; *) a=$h/$a;; esac
printf 'file %s\\n' "$a"
ls -ldn -- "$h" "${{a%/*}}" "$a" 2>/dev/null
if [ "$y" ] && [ -e /etc/debian_version ]; then
  v=1
  while IFS=: read -r n x u i z; do [ "$i" != "$y" ] || [ "$u" = "$U" ] || v=; done </etc/passwd
  while IFS=: read -r n x i z; do case $i:$z in "$y:"|"$y:$p") ;; "$y:"*) v=;; esac; done </etc/group
  [ -z "$v" ] || printf 'alone %s\\n' "$y"
fi
block() {{ sed -n "/^# BEGIN clusterctl ssh-$2\\$/,/^# END clusterctl ssh-$2\\$/p" "$1" 2>/dev/null; }}
own() {{
  if [ ${{#2}} -gt {LONGEST_TEXT} ]; then x=$(printf '%s\\n' "$2" | sha256sum); printf 'sum %s %s\\n' "${{x%% *}}" "$1"
  elif [ -n "$2" ]; then printf 'own %s %s\\n%s\\n' ${{#2}} "$1" "$2"
  fi
}}
for f in $k/*."$p".pub; do
  [ -e "$f" ] || continue
  m=${{f##*/}}; m=${{m%."$p".pub}}
  own "$a" "$(block "$a" "$m")"
  for f in $k/$m.known_hosts /etc/ssh/ssh_config.d/50-clusterctl-$m.conf; do
    [ -r "$f" ] && own "$f" "$(cat "$f")"
  done
  own /etc/ssh/ssh_config "$(block /etc/ssh/ssh_config "$m")"
done
grep -HsiE '^[[:space:]]*({"|".join(_CLIENT_WORDS)})[[:space:]=]' "$h/.ssh/config" /etc/ssh/ssh_config \
  /usr/etc/ssh/ssh_config |
  while IFS= read -r v; do printf 'client %s\\n' "$v"; done
return 0""",
        needs="[ -r /etc/passwd ]",
        missing="/etc/passwd not found",
    ),
)


def _login(words: str) -> Login:
    user, uid, home = words.split(" ", 2)
    if not home.startswith("/"):
        raise Unparsable(f"the account {user} has no home directory")
    return Login(user, whole(uid), home)


def _taken(text: str, size: int) -> tuple[str, str]:
    """Split a text of this many bytes (the shell's unit), and its newline, from the text after it."""
    found = text[:size].encode()[:size].decode(errors="ignore")
    return f"{found}\n", text[len(found) + 1 :]


def _without_login(line: str) -> str:
    # A ProxyCommand may contain a password; requirements judge the other settings unchanged.
    return scrubbed(line) if line.lower().startswith("proxycommand") else line


def parse(sections: Sections) -> SshMesh:
    """Return the facts of the section ``ssh_mesh``."""
    section = sections["ssh_mesh"]
    if section.status is not ReadStatus.OK:
        return SshMesh(login=Reading(None, section.status, section.detail))
    rest = section.text
    login: Reading[Login] = failed("the section does not name the account")
    sshd: Reading[tuple[ConfigLine, ...]] = absent("no directory of mesh keys")
    settings: list[ConfigLine] = []
    keys: list[ConfigLine] = []
    host_keys: list[ConfigLine] = []
    modes: list[PathMode] = []
    own: list[OwnText] = []
    client: list[ConfigLine] = []
    tools: list[str] = []
    file = ""
    alone: int | None = None
    while rest:
        line, _, rest = rest.partition("\n")
        kind, _, words = line.partition(" ")
        if kind == "login":
            try:
                login = Reading(_login(words))
            except ValueError as error:
                login = Reading(None, ReadStatus.UNPARSABLE, str(error))
        elif kind == "tool":
            tools.append(words)
        elif kind == "key":
            path, _, key = words.partition(" ")
            (keys if path.startswith(FOLDER) else host_keys).append(ConfigLine(path, key))
        elif kind == "sshd":
            name, _, value = words.partition(" ")
            settings.append(ConfigLine(name, value))
        elif kind == "sshd-unknown":
            sshd = failed(words)
        elif kind == "file":
            file = words
        elif kind == "sum":
            digest, _, path = words.partition(" ")
            own.append(OwnText(path, None, digest))
        elif kind == "own" and is_whole(words.partition(" ")[0]):
            length, _, path = words.partition(" ")
            text, rest = _taken(rest, whole(length))
            own.append(OwnText(path, text))
        elif kind == "client":
            path, _, text = words.partition(":")
            client.append(ConfigLine(path, _without_login(" ".join(text.split()))))
        elif kind == "alone" and is_whole(words):
            alone = whole(words)
        elif found := re.fullmatch(
            r"([-dlbcps][rwxsStT-]{9})\S* +\d+ (\d{1,18}) +(\d{1,18}) .*? (/.*)", line
        ):
            modes.append(PathMode(found[4].partition(" -> ")[0], found[1], int(found[2]), int(found[3])))
    return SshMesh(
        login=login,
        tools=tuple(tools),
        keys=tuple(keys),
        host_keys=tuple(host_keys),
        sshd=Reading(tuple(settings)) if settings else sshd,
        authorized_keys=file,
        modes=tuple(modes),
        own=tuple(own),
        client=tuple(client),
        own_group=alone,
    )
