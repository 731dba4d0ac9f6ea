"""Packages of libraries: nothing is used without a sum, nothing that is not of its sum, and no secret is repeated."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from clusterctl.errors import ImageError, UsageError
from clusterctl.images import library, packages
from clusterctl.images.build import recipe
from clusterctl.images.packages import PackageReference

DATA = b"the package" * 1000
SUM = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache"


@contextlib.contextmanager
def served(
    body: bytes, *, announced: int | None = None, status: int = 200
) -> Iterator[tuple[str, list[str]]]:
    """Serve one body over HTTP; ``announced`` is the length that is promised."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) if announced is None else announced))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def obtain(text: str, folder: Path) -> packages.VerifiedPackage:
    return packages.obtain(PackageReference.parse(text), folder, progress=lambda _line: None)


@pytest.mark.parametrize(
    "text", ["library", "=x", "library=", "library=a.rpm#md5=1", "library=a.rpm#sha256=12", "library=a.rpm#x"]
)
def test_what_names_no_package_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        PackageReference.parse(text)


def test_a_path_is_taken_as_it_is_when_its_sum_agrees(tmp_path: Path) -> None:
    path = tmp_path / "a.rpm"
    path.write_bytes(DATA)
    found = obtain(f"library={path}#sha256={SUM.upper()}", tmp_path)
    assert (found.path, found.kind, found.sha256) == (path, "rpm", SUM)


def test_a_path_without_a_sum_is_refused_with_the_sum_to_give(tmp_path: Path) -> None:
    path = tmp_path / "a.rpm"
    path.write_bytes(DATA)
    with pytest.raises(ImageError, match="no sha256 is given") as caught:
        obtain(f"library={path}", tmp_path)
    assert SUM in (caught.value.hint or "")


def test_a_wrong_sum_is_refused_with_both(tmp_path: Path) -> None:
    path = tmp_path / "a.rpm"
    path.write_bytes(DATA)
    with pytest.raises(ImageError) as caught:
        obtain(f"library={path}#sha256={'0' * 64}", tmp_path)
    assert SUM in caught.value.message and "0" * 64 in caught.value.message


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"nowhere\.rpm cannot be read"):
        obtain(f"library=/nowhere.rpm#sha256={SUM}", tmp_path)


def test_a_url_is_fetched_once_and_kept_by_its_sum(tmp_path: Path, cache: Path) -> None:
    with served(DATA) as (host, asked):
        for _ in range(2):
            found = obtain(f"library=http://{host}/d/accl%2B1.rpm?sig=1#sha256={SUM}", tmp_path)
            assert found.path == cache / "clusterctl/packages" / SUM / "accl+1.rpm"
    assert asked == ["/d/accl%2B1.rpm?sig=1"]
    assert found.path.read_bytes() == DATA


def test_a_url_without_a_sum_is_not_even_asked(tmp_path: Path) -> None:
    with served(DATA) as (host, asked), pytest.raises(ImageError, match="no sha256"):
        obtain(f"library=http://{host}/a.rpm", tmp_path)
    assert asked == []


def test_what_is_fetched_and_is_not_of_its_sum_never_reaches_the_cache(tmp_path: Path, cache: Path) -> None:
    with (
        served(b"something else") as (host, _asked),
        pytest.raises(ImageError, match=r"has the sha256 .*, expected"),
    ):
        obtain(f"library=http://{host}/a.rpm#sha256={SUM}", tmp_path)
    assert [path for path in cache.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("serving", "reason"),
    [
        ({"announced": 10**6}, "ended after|cannot be downloaded"),
        ({"status": 404}, "cannot be downloaded: Not Found"),
    ],
)
def test_a_download_that_fails_says_why(tmp_path: Path, serving: dict[str, int], reason: str) -> None:
    with served(DATA, **serving) as (host, _asked), pytest.raises(ImageError, match=reason):
        obtain(f"library=http://{host}/a.rpm#sha256={SUM}", tmp_path)


def test_passwords_and_signatures_of_urls_are_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ImageError) as caught:
        obtain(f"library=http://u:hunter2@127.0.0.1:9/a.rpm?X-Signature=hunter3#sha256={SUM}", tmp_path)
    said = caught.value.message + (caught.value.hint or "")
    assert "127.0.0.1:9/a.rpm" in said and "hunter" not in said


@pytest.mark.parametrize("scheme", ["file", "ftp"])
def test_other_schemes_are_not_fetched(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(ImageError, match=f"the URL scheme {scheme} is not supported"):
        obtain(f"library={scheme}:///etc/passwd.rpm#sha256={SUM}", tmp_path)


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("accl", (), "needs its package 'library'"),
        ("accl", ("library=a.rpm",), "needs its package 'plugin'"),
        ("accl", ("library=a.whl", "plugin=b.whl"), "must be rpm or installer"),
        ("accl", ("other=a.rpm",), "has no package 'other'"),
        ("acspeed", (), "needs its package 'wheel'"),
        ("nccl", ("library=libnccl.so",), "not a supported kind of package"),
    ],
)
def test_a_library_says_what_it_is_made_of(name: str, given: tuple[str, ...], reason: str) -> None:
    with pytest.raises(ImageError, match=reason) as caught:
        packages.ask(library.load(name), [PackageReference.parse(text) for text in given])
    assert caught.value.hint


def test_what_is_bundled_or_not_required_need_not_be_given() -> None:
    for name in ("ccore", "nccl", "horovod"):
        packages.ask(library.load(name), ())


@pytest.mark.parametrize("name", ["accl", "lightcc"])
def test_the_vendors_own_image_needs_no_package(name: str) -> None:
    found = library.load(name)
    packages.ask(found, (), found.base)
    assert recipe(found, str(found.base), "debian").edits == ()
    with pytest.raises(ImageError, match="needs its package"):
        packages.ask(found, (), "debian:bookworm")
