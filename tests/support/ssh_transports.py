"""Transports to a farm's nodes, for tests of the transport itself."""

from __future__ import annotations

import contextlib

import pytest

from clusterctl.inventory.model import Node
from clusterctl.transport.base import TransportError
from clusterctl.transport.connect import Connector


def node_of(farm, index=0, **settings):
    there = farm.nodes[index]
    values = {"user": farm.user, "identity_file": str(farm.identity_file), "port": there.port, **settings}
    return Node(name=there.name, address=there.address, **values)


@contextlib.contextmanager
def transports(monkeypatch):
    """Give a function ``connect(farm, index, connector=None, **settings) -> Transport``; all are closed after."""
    with contextlib.ExitStack() as stack:

        def make(farm, index=0, connector=None, **settings):
            for name, value in farm.env.items():
                monkeypatch.setenv(name, value)
            # A busy machine may need seconds for a greeting, a login or a session.
            transport = (connector or Connector(connect_timeout_s=60))(node_of(farm, index, **settings))
            stack.callback(transport.close)
            return transport

        yield make


def failure(call, *args, **options):
    with pytest.raises(TransportError) as raised:
        call(*args, **options)
    return raised.value.failure
