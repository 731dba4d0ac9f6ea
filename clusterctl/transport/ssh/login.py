"""Log in with paramiko: keys from files and from an agent, each with its certificates and without.

``keys`` chooses the keys and their order.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm

from clusterctl.inventory.user_paths import is_there
from clusterctl.text import user_files
from clusterctl.transport.paramiko_internals import Agent, AgentKey, Garbled, Wire, paramiko
from clusterctl.transport.ssh import keys
from clusterctl.transport.ssh.target import Target

_REFUSED = "refused"


def log_in(wire: Wire, target: Target, ring: keys.KeyRing, patience_s: float) -> None:
    """Log in on a connection whose host key was verified; raise TransportError (``auth``) if all keys are rejected.

    ``patience_s`` bounds each attempt, in seconds.
    """
    agents: list[Agent] = []
    certificate, problem = _certificate(target.certificate)

    def agent_keys() -> tuple[Any, ...]:
        if target.agent is None:
            return ()
        try:
            agents.append(Agent(target.agent))
        except (OSError, paramiko.SSHException, ValueError) as error:
            raise keys.KeyProblem(f"no answer at {target.agent} ({error})") from None
        return agents[0].get_keys()

    def attempt(key: Any) -> str | None:
        for shown in _faces(key, certificate):
            reason = _shown(wire, target.user, shown, patience_s)
            if reason != _REFUSED:
                return reason
        if getattr(key, "declined", False):
            return "the agent declined to sign with it"
        return f"{_REFUSED}{problem}"

    try:
        keys.authenticate(target, ring, agent_keys, attempt)
    finally:
        for agent in agents:
            agent.close()


def _certificate(path: str | None) -> tuple[Any, str]:
    """Return the certificate in a file, or None and the reason."""
    if path is None:
        return None, ""
    try:
        return paramiko.pkey.PublicBlob.from_string(user_files.read_text(path, user_files.KEY_BYTES)), ""
    except (OSError, ValueError, paramiko.SSHException) as error:
        said = error.strerror if isinstance(error, OSError) else "not a certificate"
        return None, f" (without the certificate {path}: {said})"


def _faces(key: Any, certificate: Any) -> Iterator[Any]:
    """Yield a key in ssh's order: with the configured certificate, with the one next to its file, and without.

    A server may reject an expired certificate but accept the key in it.
    """
    fits = certificate is not None and certificate.key_type.startswith(key.get_name())
    beside = key.public_blob
    for blob in (*([certificate] if fits else []), *([beside] if beside is not None else []), None):
        # Keys from files are shared between connections; those of an agent belong to this one and cannot be copied.
        shown = key if isinstance(key, AgentKey) else copy.copy(key)
        shown.public_blob = blob
        yield shown


def _shown(wire: Wire, user: str, key: Any, patience_s: float) -> str | None:
    """Offer a key; return why it was rejected, or None if it was accepted."""
    try:
        more = wire.log_in(user, key, patience_s)
    except paramiko.BadAuthenticationType as error:
        raise keys.AuthenticationEnded(f"it accepts only {', '.join(error.allowed_types)}") from None
    except paramiko.AuthenticationException as error:
        if not wire.is_active():
            raise keys.AuthenticationEnded(str(error)) from None
        return _REFUSED
    except (TimeoutError, Garbled):
        raise
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise keys.AuthenticationEnded(str(error) or "connection closed") from None
    return f"accepted, but {' and '.join(more)} is required as well" if more else None


def load_key(path: str) -> paramiko.PKey:
    """Return the private key in a file; raise KeyProblem if it cannot be used."""
    try:
        for file in (path, f"{path}-cert.pub"):  # from_path reads both without a size limit
            if is_there(file):
                user_files.require(file, user_files.KEY_BYTES)
        key = paramiko.PKey.from_path(path)
        keys.refuse_open_to_others(path)
    except FileNotFoundError:
        raise keys.KeyProblem("cannot be read: no such file") from None
    except OSError as error:
        raise keys.KeyProblem(f"cannot be read: {error.strerror}") from None
    except (TypeError, paramiko.PasswordRequiredException):
        raise keys.KeyProblem("protected by a passphrase") from None
    except UnsupportedAlgorithm:
        raise keys.KeyProblem(keys.AGENT_ONLY) from None
    except (paramiko.SSHException, paramiko.pkey.UnknownKeyType, ValueError, IndexError) as error:
        raise keys.KeyProblem(keys.not_a_private_key(path, error)) from None
    return key
