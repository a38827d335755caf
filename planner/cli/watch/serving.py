"""Exporter of `watch --serve-metrics`: the latest reading at /metrics, in the text format of Prometheus."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.observe.snapshot import Snapshot

DEFAULT_LISTEN = "127.0.0.1:9835"
"""Accepts connections only from this machine, because readings show what runs here. Port 9835 is usual for exporters of nvidia-smi."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STALE_AFTER = 3
"""Intervals without a reading after which the page reports an error."""


class Latest:
    """Latest reading, shared with the threads of the server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._stale = False

    def keep(self, snapshot: Snapshot | None, *, stale: bool) -> None:
        """Store a reading (None: no new one) and whether it is overdue."""
        with self._lock:
            self._snapshot, self._stale = snapshot or self._snapshot, stale

    def page(self) -> tuple[int, str]:
        """HTTP status and text of /metrics."""
        from planner.observe.telemetry.exposition import prometheus_text

        with self._lock:
            snapshot, stale = self._snapshot, self._stale
        if snapshot is None or stale:
            return 503, "no reading: the source does not answer\n"
        return 200, prometheus_text(snapshot)


def address_of(listen: str) -> tuple[str, int]:
    """Host and port of '127.0.0.1:9835', ':9835' (every address) or '[::1]:9835'; raises `UserError`."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UserError(Problem("--listen", "", f"{listen!r} is not ADDRESS:PORT, such as {DEFAULT_LISTEN}."))
    return host.strip("[]"), int(port)


@contextmanager
def served(latest: Latest, listen: str) -> Iterator[str]:
    """Serve the latest reading while this context is open; yields the page's address. Raises `UserError` if it cannot listen."""
    host, port = address_of(listen)

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name is the library's
            found = self.path.partition("?")[0] in {"/metrics", "/"}
            status, text = latest.page() if found else (404, "the readings are at /metrics\n")
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Do not log scrapes, which arrive every few seconds."""

    try:
        server = Server((host, port), Page)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(Problem("--listen", "", f"cannot listen on {listen}: {reason}.")) from None
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    shown = f"[{host}]" if ":" in host else host or "0.0.0.0"  # noqa: S104  # as it was asked for
    try:
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
