"""A real Chromium without a window, driven through its DevTools protocol over a pair of pipes.

https://chromedevtools.github.io/devtools-protocol/; messages are JSON, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
import zlib
from pathlib import Path

TIMEOUT_S = 120


def program():
    """Return the browser's path, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None)


class Chromium:
    """One browser; a context manager. ``open`` shows a file in its one tab."""

    def __init__(self, profile: Path) -> None:
        self._profile = profile
        self._number = 0
        self._rest = b""
        self._session = None
        self.events: list[dict] = []

    def __enter__(self):
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        # The browser reads from 3 and writes to 4.
        place_pipes = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            [
                "bash", "-c", place_pipes, "bash", program(), "--headless=new", "--no-sandbox", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                "--disable-component-update", "--hide-scrollbars", f"--user-data-dir={self._profile}",
                "--remote-debugging-pipe", "about:blank",
            ],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "DOM", "CSS"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setScriptExecutionDisabled", value=True)
        return self

    def __exit__(self, *_):
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, method, **parameters):
        """Call one method and return its result; events that come before the answer are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def _message(self):
        deadline = time.monotonic() + TIMEOUT_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def wait_for(self, method):
        """Wait for an event, among those that came already or still to come."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._message())

    def open(self, page: Path, width: int, *, scheme="light", media="screen"):
        """Show a page at a width in CSS pixels, as a screen or on paper, in the light or the dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        self.wait_for("Page.loadEventFired")

    def requests(self):
        """Return the URLs that the page asked for since it was opened."""
        return [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]

    def size(self):
        """Return the width and height of all that the page holds, in CSS pixels."""
        content = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return content["width"], content["height"]

    def texts(self):
        """Return every line of text that is laid out: its words and its box (x, y, width, height)."""
        snapshot = self.call("DOMSnapshot.captureSnapshot", computedStyles=["visibility"])
        strings, boxes = snapshot["strings"], snapshot["documents"][0]["textBoxes"]
        layout = snapshot["documents"][0]["layout"]
        found = []
        for index, bounds, start, length in zip(
            boxes["layoutIndex"], boxes["bounds"], boxes["start"], boxes["length"], strict=True
        ):
            words = strings[layout["text"][index]][start : start + length]
            if words.strip():
                found.append((words, bounds))
        return found

    def html(self):
        """Return the document as the browser holds it."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        return self.call("DOM.getOuterHTML", nodeId=root)["outerHTML"]

    def colour(self, selector, name="color"):
        """Return a computed style of the first element that a selector finds."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        styles = self.call("CSS.getComputedStyleForNode", nodeId=node)["computedStyle"]
        return next(one["value"] for one in styles if one["name"] == name)

    def screenshot(self, *, scale=1.0):
        """Return a PNG of the whole page."""
        width, height = self.size()
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        answer = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    def pdf(self):
        """Return the page as PDF, as it would be printed on A4."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)
        return base64.b64decode(answer["data"])


def pixels(png: bytes):
    """Return the rows of an 8-bit PNG without interlace as tuples of colours (RFC 2083, filters 0 to 4)."""
    width, height, depth, kind = 0, 0, 0, 0
    data, position = b"", 8
    while position < len(png):
        length = int.from_bytes(png[position : position + 4], "big")
        name, body = png[position + 4 : position + 8], png[position + 8 : position + 8 + length]
        if name == b"IHDR":
            width, height, depth, kind = (
                int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big"), body[8], body[9],
            )  # fmt: skip
        elif name == b"IDAT":
            data += body
        position += 12 + length
    assert depth == 8 and kind in (2, 6)
    size = 3 if kind == 2 else 4
    raw, stride = zlib.decompress(data), width * size + 1
    before = bytearray(width * size)
    rows = []
    for y in range(height):
        how, line = raw[y * stride], bytearray(raw[y * stride + 1 : (y + 1) * stride])
        for i in range(len(line)):
            left = line[i - size] if i >= size else 0
            above, corner = before[i], before[i - size] if i >= size else 0
            line[i] = (line[i] + _predicted(how, left, above, corner)) & 255
        rows.append([tuple(line[i : i + 3]) for i in range(0, len(line), size)])
        before = line
    return rows


def _predicted(how, left, above, corner):
    if how == 4:
        estimate = left + above - corner
        return min((left, above, corner), key=lambda one: abs(estimate - one))
    return (0, left, above, (left + above) // 2)[how]
