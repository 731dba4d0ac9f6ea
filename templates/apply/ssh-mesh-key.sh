# make, check or remove a mesh key: ACTION KEY USER COMMENT. The private half never leaves this node.
set -e
umask 077
key=$2
whole() { # both halves are there, belong together, and the private one is its user's alone
  [ -s "$key" ] && [ -s "$key.pub" ] && [ "$(stat -c '%U %a' "$key")" = "$1 600" ] || return 1
  private=$(ssh-keygen -y -P '' -f "$key") && read -r kind public _ <"$key.pub" || return 1
  case $private in "$kind $public"*) ;; *) return 1 ;; esac
}
replaced() { # WHY: a person's key is not removed
  echo "$key was replaced: $1. Remove the key by hand, then undo again" >&2
  exit 1
}
case $1 in
  check) whole "$3" ;;
  make)
    [ -d "${key%/*}" ] || (umask 022 && mkdir -p "${key%/*}")
    rm -f "$key.new" "$key.new.pub"
    # A node in FIPS mode has no Ed25519; sshd there accepts ECDSA.
    ssh-keygen -q -t ed25519 -N '' -C "$4" -f "$key.new" </dev/null ||
      ssh-keygen -q -t ecdsa -b 256 -N '' -C "$4" -f "$key.new" </dev/null
    chown "$3:" "$key.new" "$key.new.pub"
    chmod 644 "$key.new.pub"
    sync
    # The public half is what the next round looks for: it comes last.
    mv -f "$key.new" "$key"
    mv -f "$key.new.pub" "$key.pub"
    ;;
  remove)
    rm -f "$key.new" "$key.new.pub"
    private=
    if [ -s "$key" ]; then
      # ssh-keygen refuses a key that other accounts may read, so it reads a copy.
      cp "$key" "$key.new"
      private=$(ssh-keygen -y -P '' -f "$key.new" 2>&1) || case $private in
        *"incorrect passphrase"*) rm -f "$key.new"; replaced "it has a passphrase" ;;
        *) private= ;;
      esac
      rm -f "$key.new"
    fi
    if [ -s "$key.pub" ]; then
      # The last line may have no line end.
      read -r kind public comment <"$key.pub" || :
      [ "$comment" = "$4" ] || replaced "its comment is '$comment', not '$4'"
      case $private in "" | "$kind $public"*) ;; *) replaced "it does not belong to $key.pub" ;; esac
    fi
    rm -f "$key" "$key.pub"
    rmdir "${key%/*}" "${key%/*/*}" 2>/dev/null || :
    ;;
esac
