# MakeVenv: an environment of Python, with a wheel that the controller has copied to the node and packages of an index.
#
# PATH/.clusterctl-venv marks an environment of clusterctl: a line with the run that made it, and a line with its
# content, empty while it is being filled. One without content is made again, because pip leaves torn packages behind.

read_venv() { # PATH -> $venv_run and $venv_content; fails for a directory that clusterctl did not make
  venv_run='' venv_content=
  plain "$1/.clusterctl-venv" || return 1
  { read -r venv_run && { read -r venv_content || :; }; } <"$1/.clusterctl-venv"
}

mark_venv() { # PATH RUN CONTENT
  { printf '%s\n%s\n' "$2" "$3" >"$1/.clusterctl-venv.tmp" && flush "$1/.clusterctl-venv.tmp" &&
    mv -f "$1/.clusterctl-venv.tmp" "$1/.clusterctl-venv" && flush "$1"; } 2>/dev/null
}

so_make_venv() { # PATH BASE CONTENT FOLDER WHEEL INDEX PACKAGE...
  read_venv "$1" && [ "$venv_content" = "$3" ] && [ -x "$1/bin/python3" ]
}

prior_make_venv() {
  venv_run='' venv_content=
  missing_folders "${1%/*}"
  keep path "$1" && keep folders "$missing" || return 1
  ! is_there "$1" || may_fill "$1" || return 1
  # Undo leaves a complete environment to the run that made it.
  [ -z "$venv_content" ] || keep existed ''
}

may_fill() { # PATH, which exists -> $venv_run and $venv_content
  read_venv "$1" || { reason="$1 exists, and clusterctl did not make it; remove it, or name its interpreter by python"; return 1; }
}

do_make_venv() {
  venv_run='' venv_content=
  ! is_there "$1" || may_fill "$1" || return 1
  venv_is_new=
  [ -n "$venv_content" ] && [ -x "$1/bin/python3" ] || venv_is_new=1
  [ -z "$venv_is_new" ] || start_venv "$1" || return 1
  mark_venv "$1" "$venv_run" '' && fill_venv "$@" && return 0
  # The disk may be full, so remove the incomplete environment.
  [ -z "$venv_is_new" ] || remove_venv "$1"
  return 1
}

start_venv() { # PATH: replace it by an empty directory with a mark, so that no crash leaves one without a mark
  venv_run=$RUN
  reason="cannot create $1 (disk full or read-only?)"
  remove_venv "$1" && mkdir -p "$1.clusterctl-new" && mark_venv "$1.clusterctl-new" "$RUN" '' &&
    mv "$1.clusterctl-new" "$1" && flush "${1%/*}"
}

remove_venv() { put_aside "$1" && rm -rf "$1.clusterctl-old" "$1.clusterctl-new" && flush; } # PATH: files.sh

fill_venv() { # as so_make_venv
  venv=$1 venv_base=$2 venv_holds=$3 venv_wheel=
  [ -z "$5" ] || venv_wheel=$STATE/carried/$RUN/$4/files/$5
  venv_index=$6
  shift 6
  # Without pip, which takes minutes on a slow node, and which Debian has in a package of its own.
  [ -z "$venv_is_new" ] || logged limit 300 "$venv_base" -m venv --without-pip "$venv" || return 1
  if [ -n "$venv_wheel" ]; then
    reason="the packages copied to ${venv_wheel%/*} do not match their SHA256SUMS"
    (cd "${venv_wheel%/*}" && sha256sum -c ../SHA256SUMS) || return 1
    unpack_wheel "$venv_wheel" || return 1
  fi
  if [ $# -gt 0 ]; then
    logged limit 900 "$venv/bin/python3" -m ensurepip --upgrade --default-pip || return 1
    pip_install ${venv_index:+"--index-url=$venv_index"} "$@" || return 1
  fi
  reason="cannot write to $venv (disk full or read-only?)"
  sync && mark_venv "$venv" "$venv_run" "$venv_holds"
}

unpack_wheel() { # WHEEL, whose sum is checked: replace the collective_core of the environment, and load its library
  logged limit 300 "$venv/bin/python3" -c '
import compileall, ctypes, os, pathlib, shutil, sys, sysconfig, zipfile
packages = pathlib.Path(sysconfig.get_path("platlib"))
for old in packages.glob("collective_core*"):
    shutil.rmtree(old)
with zipfile.ZipFile(sys.argv[1]) as wheel:
    for member in wheel.infolist():
        os.chmod(wheel.extract(member, packages), member.external_attr >> 16 & 0o755)
compileall.compile_dir(packages / "collective_core", quiet=2)
import collective_core
ctypes.CDLL(str(collective_core.library_path()))
' "$1"
}

pip_install() { # its messages would fill the reason: --quiet leaves errors
  logged limit 3000 "$venv/bin/python3" -m pip --quiet --disable-pip-version-check --no-input --no-cache-dir install "$@"
}

would_make_venv() {
  kept path
  if [ -e "$entry/existed" ]; then
    would=". leave $value, which an earlier run made"
  else
    would="- remove the directory $value"
  fi
}

undo_make_venv() {
  kept path; path=$value
  [ ! -e "$entry/existed" ] || return 0
  if is_there "$path"; then
    if ! read_venv "$path"; then
      [ -n "$FORCE" ] || { reason="$path is not the environment that this run made; use --force to remove it anyway"; return 1; }
    elif [ "$venv_run" != "$RUN" ]; then
      # A later run found the incomplete environment of this one, and made it again.
      return 0
    fi
  fi
  reason="cannot remove $path"
  remove_venv "$path" || return 1
  remove_folders
}
