"""Engines that are too old, that break off, and sockets that this user may not use."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from clusterctl.errors import ImageError
from clusterctl.images import engine
from clusterctl.images.distribution import archive
from clusterctl.images.on_node import EngineInfo, NodeEngine, NodeImage
from clusterctl.inventory.model import Node
from clusterctl.transport.local import LocalTransport


@contextmanager
def answering(path: Path, version: str) -> Iterator[None]:
    """An engine's socket that knows its version, and ends every other conversation: of a pull in its middle."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.endswith("/version"):
                self.connection.close()
                return
            body = json.dumps({"Version": version, "ApiVersion": "1.41", "MinAPIVersion": "1.12"}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b'f\r\n{"status": "x"}\r\n100\r\n{')
            self.connection.close()

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: object) -> None:
            pass

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def socket_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
    return tmp_path / "s"


@pytest.mark.parametrize("version", ["19.03.15", "18.09.1", "1.13.1"])
def test_an_old_engine_is_refused_with_both_versions(socket_path: Path, version: str) -> None:
    with answering(socket_path, version), pytest.raises(ImageError) as caught, engine.connect():
        pass
    assert f"is {version}, older than 20.10" in caught.value.message and caught.value.hint


@pytest.mark.parametrize("version", ["20.10.24+dfsg1", "28.2.2", "master-dockerproject"])
def test_others_are_taken(socket_path: Path, version: str) -> None:
    with answering(socket_path, version), engine.connect() as client:
        assert client.version()["Version"] == version


def test_an_engine_that_breaks_off_is_named(socket_path: Path) -> None:
    with (
        answering(socket_path, "28.2.2"),
        pytest.raises(ImageError, match="stopped answering"),
        engine.connect() as client,
    ):
        client.images.list()


def test_an_engine_that_ends_in_the_middle_of_a_pull_is_named(socket_path: Path) -> None:
    with (
        answering(socket_path, "28.2.2"),
        pytest.raises(ImageError, match="stopped answering"),
        engine.connect() as client,
    ):
        list(client.api.pull("base", "1", stream=True, decode=True))


def test_an_engine_that_ends_while_an_image_is_saved_is_no_full_disk(
    socket_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(socket_path.parent))
    image = NodeImage("sha256:1", (), "", "amd64", 1, "", (), ())
    with (
        answering(socket_path, "28.2.2"),
        pytest.raises(ImageError, match="stopped answering"),
        engine.connect() as client,
    ):
        archive.save(client, "i:1", image, "gzip")


def test_docker_on_a_node_uses_the_system_engine_whatever_context_the_login_chose(tmp_path, monkeypatch):
    """The facts are of that engine, too; a context of a rootless engine would start containers in another one."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "config.json").write_text('{"currentContext": "rootless"}')
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONTEXT", "rootless")
    transport = LocalTransport(Node(name="n1", address="n1", connection="local"))
    engine = NodeEngine(transport, False, EngineInfo("28.2.2", "amd64", "/x", (), ()))
    assert engine.docker("context", "show").text.strip() == "default"
