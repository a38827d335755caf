"""Bytes at a URL, with limits of total time and size. The only module that reads over HTTP."""

from __future__ import annotations

import io
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import planner

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

FIRST_WORDS = 300
"""Bytes shown of a server's refusal."""


class NoAnswerError(Exception):
    """Reason of a failure, to follow the name of the URL: 'gave no answer within 5 s'; `said`: the text of a refusing server."""

    def __init__(self, why: str, said: str = "") -> None:
        super().__init__(why)
        self.said = said


class Answer(NamedTuple):
    """Answer of a URL."""

    body: bytes
    modified: str | None
    """Its Last-Modified header."""


def read_url(url: str, *, within_s: float, most_bytes: float) -> Answer:
    """Content at `url`; raises `NoAnswerError` at the latest after `within_s` seconds, and for more than `most_bytes`."""
    outcome: list[Answer | NoAnswerError | Exception] = []
    until_s = time.monotonic() + within_s

    def read() -> None:
        try:
            outcome.append(_read(url, until_s, most_bytes, within_s))
        except Exception as error:  # noqa: BLE001  # raised again by the thread that waits
            outcome.append(error)

    # the reader keeps to the limit itself, but a look-up of the host's name has none
    reader = threading.Thread(target=read, name="web", daemon=True)
    reader.start()
    reader.join(within_s + 0.2)
    found = outcome[0] if outcome else NoAnswerError(_late(within_s))
    if isinstance(found, Answer):
        return found
    raise found


def _late(within_s: float) -> str:
    return f"gave no answer within {within_s:g} s"


def _read(url: str, until_s: float, most_bytes: float, within_s: float) -> Answer:
    import urllib.error
    from http.client import HTTPException, InvalidURL
    from urllib.request import Request

    try:
        request = Request(url, headers={"User-Agent": f"gpu-planner/{planner.__version__}"})  # noqa: S310  # callers check the scheme
        with _opener(until_s).open(request, timeout=within_s) as answer:
            return Answer(_whole(answer, most_bytes), answer.headers.get("Last-Modified"))
    except urllib.error.HTTPError as error:
        try:
            said = error.read(FIRST_WORDS).decode(errors="replace").strip()
        except (OSError, HTTPException):
            said = ""
        error.close()
        raise NoAnswerError(f"was refused with HTTP {error.code} {error.reason}", said) from None
    except urllib.error.URLError as error:
        late = isinstance(error.reason, TimeoutError)
        raise NoAnswerError(_late(within_s) if late else f"cannot be reached: {reason_of(error.reason)}") from None
    except TimeoutError:
        raise NoAnswerError(_late(within_s)) from None
    except (InvalidURL, ValueError) as error:
        raise NoAnswerError(f"is no address: {error}") from None
    except (OSError, HTTPException) as error:
        raise NoAnswerError(f"broke off: {reason_of(error)}") from None


def _whole(answer: HTTPResponse, most_bytes: float) -> bytes:
    parts, promised = bytearray(), answer.headers.get("Content-Length")
    while part := answer.read(1 << 18):
        parts += part
        if len(parts) > most_bytes:
            raise NoAnswerError(f"is larger than {int(most_bytes) >> 20} MiB")
    if promised is not None and promised.isdecimal() and len(promised) < 20 and len(parts) < int(promised):
        raise NoAnswerError(f"broke off after {len(parts):,} of {int(promised):,} bytes")
    return bytes(parts)


def _opener(until_s: float) -> OpenerDirector:
    """An opener whose answers are read until `until_s`: a socket's time-out restarts with every byte."""
    import http.client
    from urllib.error import URLError
    from urllib.request import FTPHandler, HTTPHandler, HTTPSHandler, build_opener

    class Limited(io.RawIOBase):
        def __init__(self, connection: Any, held: Any) -> None:
            self._connection, self._held = connection, held

        def readable(self) -> bool:
            return True

        def close(self) -> None:
            self._held.close()
            super().close()

        def readinto(self, buffer: Any) -> int | None:
            self._connection.settimeout(max(1e-3, until_s - time.monotonic()))
            got: int = self._connection.recv_into(buffer)
            return got

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:
            super().__init__(sock, *arguments, **options)
            self.fp = io.BufferedReader(Limited(sock, self.fp))

    def limited(kind: type[http.client.HTTPConnection]) -> type[http.client.HTTPConnection]:
        return type(kind.__name__, (kind,), {"response_class": Response})

    class Plain(HTTPHandler):
        def http_open(self, request: Any) -> Any:
            return self.do_open(limited(http.client.HTTPConnection), request)

    class Secure(HTTPSHandler):
        def https_open(self, request: Any) -> Any:
            return self.do_open(limited(http.client.HTTPSConnection), request)

    class Refused(FTPHandler):
        def ftp_open(self, _request: Any) -> Any:
            raise URLError("it was sent on to FTP, which is not read")

    return build_opener(Plain, Secure, Refused)


def reason_of(error: object) -> str:
    """An exception in words, without its number."""
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
