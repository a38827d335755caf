"""Servers that send slowly, without end, or nothing of use: each ends within the limit, with a reason; and pages of very many GPUs."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import pytest

from planner.observe.telemetry.exporter import devices_of
from planner.observe.telemetry.exposition import read_samples
from planner.web import NoAnswerError, read_url

pytestmark = pytest.mark.server

WITHIN_S = 0.6
OK = b"HTTP/1.0 200 OK\r\n\r\n"


@contextmanager
def server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that reads each request and leaves the rest to `talk`."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client = listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=answer, args=(client,), daemon=True).start()

    def answer(client: socket.socket) -> None:
        with client:
            try:
                client.recv(65536)
                talk(client)
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        listening.close()


def drip(begin: bytes, drop: bytes) -> Callable[[socket.socket], None]:
    def talk(client: socket.socket) -> None:
        client.sendall(begin)
        while True:
            client.sendall(drop)
            time.sleep(0.05)

    return talk


def flood(client: socket.socket) -> None:
    client.sendall(OK)
    while True:
        client.sendall(b"# x\n" * 10_000)


def redirect(client: socket.socket, to: str) -> None:
    client.sendall(f"HTTP/1.0 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())


CASES: dict[str, tuple[Callable[[socket.socket], None], str]] = {
    "says nothing": (lambda _: time.sleep(60), "gave no answer within 0.6 s"),
    "drips its body": (drip(OK, b"#"), "gave no answer within 0.6 s"),
    "drips its headers": (drip(b"HTTP/1.0 200 OK\r\n", b"a: b\r\n"), "gave no answer within 0.6 s"),
    "drips one header": (drip(b"HTTP/1.0 200 OK\r\nlong: ", b"x"), "gave no answer within 0.6 s"),
    "drips its refusal": (drip(b"HTTP/1.0 500 Broken\r\n\r\n", b"x"), "was refused with HTTP 500 Broken"),
    "never ends": (flood, "is larger than 1 MiB"),
    "promises more": (lambda client: client.sendall(OK[:-2] + b"Content-Length: 99\r\n\r\nx"), "broke off after 1 of 99 bytes"),
    "promises 5,000 digits": (lambda client: client.sendall(OK[:-2] + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\nx"), ""),
    "is no web server": (lambda client: client.sendall(b"\x00\x01\x02\n"), "broke off"),
    "hangs up": (lambda _: None, "closed connection without response"),
    "redirects to a file": (lambda client: redirect(client, "file:///etc/passwd"), "was refused with HTTP 302"),
    "redirects to FTP": (lambda client: redirect(client, "ftp://127.0.0.1:1/x"), "sent on to FTP, which is not read"),
    "redirects for ever": (lambda client: redirect(client, "/again"), "was refused with HTTP 302"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_server_that_does_not_answer_ends_in_time_with_a_reason(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    talk, said = CASES[case]
    with server(talk) as url:
        began_s = time.monotonic()
        with pytest.raises(NoAnswerError, match=said) if said else nullcontext():
            read_url(url, within_s=WITHIN_S, most_bytes=2**20)
        assert time.monotonic() - began_s < WITHIN_S + 10  # the server would go on for a minute


@pytest.mark.parametrize("url", ["http://[", "http://a b/", "http://x:99999999/", "http://" + "a" * 70 + "/"])
def test_an_address_that_is_none_is_said(url: str) -> None:
    with pytest.raises(NoAnswerError, match=r"is no address|cannot be reached"):
        read_url(url, within_s=WITHIN_S, most_bytes=2**20)


def test_a_page_of_many_gpus_is_read_in_the_time_of_its_lines() -> None:
    def seconds(gpus: int) -> float:
        page = "".join(
            f'DCGM_FI_DEV_GPU_UTIL{{gpu="{number}",GPU_I_ID="{number % 7}",UUID="GPU-{number}"}} 5\n' for number in range(gpus)
        )
        began_s = time.process_time()
        assert len(devices_of(read_samples(page, "page"))) == gpus
        return time.process_time() - began_s

    assert seconds(20_000) < 40 * seconds(2_000)  # a hundred times where each GPU looks through all
    many = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",' + ",".join(f'l{number}="x"' for number in range(100_000)) + "} 5\n"
    began_s = time.process_time()
    assert len(read_samples(many, "page")[0].labels) == 100_001
    assert time.process_time() - began_s < 2.0
