"""The terminal program in a browser: behind the driver of a server of Textual programs, and in a headless Chromium."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import json
import os
import random
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, needs_browser
from repository import ROOT

pytestmark = pytest.mark.process
PROGRAM = "import sys; from widgets.launch import main; sys.exit(main())"
DRIVER = "textual.drivers.web_driver:WebDriver"
WITHIN_S = 120.0
GIVEN_TO_NOBODY = range(20_000, 30_000)
"""Ports below those that a system hands out by itself: nobody is given one of them between two looks."""


def environment(folder: Path, **more: str) -> dict[str, str]:
    folders = {name: str(folder) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")}
    return {**os.environ, **folders, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **more}


def test_a_driver_that_is_named_opens_the_screen_on_pipes(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment(tmp_path, TEXTUAL_DRIVER=DRIVER, COLUMNS="100", ROWS="30"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        written, end_s = b"", time.monotonic() + WITHIN_S
        while b"Ranking" not in written and time.monotonic() < end_s:
            if select.select([process.stdout], [], [], 0.5)[0]:
                written += os.read(process.stdout.fileno(), 1 << 16)
        assert written.startswith(b"__GANGLION__")
        assert b"Ranking" in written
    finally:
        process.kill()
        process.communicate()


def free_port() -> int:
    for port in random.sample(GIVEN_TO_NOBODY, 100):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a hundred ports are in use")


@pytest.mark.browser
@needs_browser
def test_a_browser_shows_the_screen(tmp_path: Path) -> None:
    port, debugging = free_port(), free_port()
    served = f"{sys.executable} -c '{PROGRAM}'"
    code = f"from textual_serve.server import Server; Server({served!r}, host='127.0.0.1', port={port}).serve()"
    server = subprocess.Popen([sys.executable, "-c", code], env=environment(tmp_path), stdout=subprocess.DEVNULL)
    assert CHROMIUM is not None
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--remote-debugging-port={debugging}",
        f"--user-data-dir={tmp_path / 'browser'}",
    ]
    browser = subprocess.Popen([CHROMIUM, *options, "about:blank"], stderr=subprocess.DEVNULL)
    try:
        drawn = asyncio.run(drawn_in(f"http://127.0.0.1:{port}/", debugging))
    finally:
        for process in (browser, server):
            process.kill()
            process.wait()
    assert "Ranking" in drawn


async def drawn_in(url: str, debugging: int) -> str:
    """What the page at `url` gets to draw until the ranking is there, by the browser's own protocol."""
    aiohttp: Any = importlib.import_module("aiohttp")  # comes with textual-serve
    drawn = ""
    async with asyncio.timeout(WITHIN_S), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url), session.put(f"http://127.0.0.1:{debugging}/json/new?about:blank") as opened:
                    tab = await opened.json()
                    break
            except aiohttp.ClientError:
                await asyncio.sleep(0.2)
        async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as page:
            await page.send_json({"id": 1, "method": "Network.enable"})
            await page.send_json({"id": 2, "method": "Page.navigate", "params": {"url": url}})
            while "Ranking" not in drawn:
                said = json.loads((await page.receive()).data)
                if said.get("method") == "Network.webSocketFrameReceived":
                    frame = said["params"]["response"]
                    drawn += base64.b64decode(frame["payloadData"]).decode(errors="replace") if frame["opcode"] == 2 else ""
    return drawn
