"""A headless Chromium that opens one file: its document, what its console said, what it asked of the network, and a picture of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
QUIET = ("--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--disable-background-networking", "--disable-sync")
ITS_OWN = "not an origin"
"""Initiator of the requests that the browser makes for itself."""


@dataclass(frozen=True)
class Opened:
    """A page as the browser had it."""

    document: str
    """HTML after the page was read."""
    console: list[str]
    requests: list[str]
    """Addresses that the page asked for, beside its own file."""


def opened(page: Path, folder: Path) -> Opened:
    """Open `page` in a browser whose profile and log are in `folder`, and which finds no host."""
    log = folder / "network.json"
    done = _run(page, folder, "--enable-logging=stderr", f"--log-net-log={log}", "--dump-dom")
    events = json.loads(log.read_text(encoding="utf-8", errors="replace"))["events"]
    asked = [event["params"] for event in events if "initiator" in event.get("params", {}) and "url" in event["params"]]
    return Opened(
        document=done.stdout,
        console=re.findall(r":CONSOLE[^\]]*\] (.*)", done.stderr),
        requests=[params["url"] for params in asked if params["initiator"] != ITS_OWN],
    )


def background(page: Path, folder: Path, *, dark: bool) -> tuple[int, int, int]:
    """Colour of the first pixel of a picture of `page`."""
    picture = folder / "page.png"
    scheme = ("--blink-settings=preferredColorScheme=0",) if dark else ()
    _run(page, folder, *scheme, "--window-size=800,600", f"--screenshot={picture}")
    return first_pixel(picture.read_bytes())


def first_pixel(png: bytes) -> tuple[int, int, int]:
    """Red, green and blue of the upper left corner of a PNG; no filter of its line changes that one."""
    place, packed = 8, b""
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            packed += png[place + 8 : place + 8 + length]
        place += length + 12
    _, red, green, blue = zlib.decompressobj().decompress(packed, 4)
    return red, green, blue


def _run(page: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert CHROMIUM is not None
    root = ("--no-sandbox",) if os.geteuid() == 0 else ()
    own = (f"--user-data-dir={folder / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND")
    return subprocess.run(
        [CHROMIUM, *QUIET, *root, *own, *options, page.as_uri()], capture_output=True, text=True, timeout=300, check=True
    )
