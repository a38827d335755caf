"""Untrusted text (a label, a name, an error, a path), made harmless before it reaches a terminal or a file.

A terminal obeys control characters: C0, ESC, DEL, C1. Bidirectional and invisible signs make text read as what it is not, and some
signs end lines or are forbidden in XML and YAML.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

REPLACEMENT = "�"
"""Sign in place of one that was taken out."""
_LINE_SIGNS = "\t\n"
_SIGNS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"  # invisible, bidirectional
    "\ud800-\udfff\ufffe\uffff"  # halves of a pair, and no characters
)
_UNSAFE = f"[{_SIGNS}]"
"""A pattern, as those below: compiled where it is first needed, which is after the first paint."""
_HALVES = "[\ud800-\udfff]"
_UNSAFE_IN_LINE = f"[{_LINE_SIGNS}{_SIGNS}]"
_UNSAFE_BYTES = rb"\x7f|\xc2[\x80-\x9f\xad]|\xd8\x9c|\xe1\xa0\x8e|\xe2(?:\x80[\x8b\x8e\x8f\xa8-\xae]|\x81[\xa0-\xaf])|\xef(?:\xbb\xbf|\xbf[\xb9-\xbb\xbe\xbf])|\xf3\xa0[\x80\x81]."
"""Unsafe signs in UTF-8."""


def clean(text: str) -> str:
    """`text` without what terminals obey and readers do not see; its lines and tabs stay."""
    return text if _is_printable(text) else re.sub(_UNSAFE, REPLACEMENT, text.replace("\r\n", "\n"))


def one_line(text: str, replacement: Callable[[str], str] = lambda sign: " " if sign in _LINE_SIGNS else REPLACEMENT) -> str:
    """`text`, clean and on one line; `replacement`: substitute of a removed character."""
    return text if text.isprintable() else re.sub(_UNSAFE_IN_LINE, lambda sign: replacement(sign[0]), text)


def escaped_json(document: bytes) -> bytes:
    """JSON with unsafe characters escaped. Plain lines are not searched, which would take several times as long."""
    if _is_plain(document) or _is_printable(document.decode()):
        return document
    return b"\n".join(line if _is_plain(line) else re.sub(_UNSAFE_BYTES, _escaped, line) for line in document.split(b"\n"))


def json_document(value: object, indent: int = 0) -> bytes:
    """`value` as JSON on one line or indented; unsafe characters are escaped, lone surrogates replaced."""
    import msgspec

    try:
        document = msgspec.json.encode(value)
    except UnicodeEncodeError:  # a path or an argument that is no UTF-8
        document = msgspec.json.encode(_in_whole_signs(msgspec.to_builtins(value)))
    return escaped_json(msgspec.json.format(document, indent=indent) if indent else document)


def _in_whole_signs(value: Any) -> Any:
    if isinstance(value, dict):
        return {_in_whole_signs(key): _in_whole_signs(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_in_whole_signs(one) for one in value]
    return re.sub(_HALVES, REPLACEMENT, value) if isinstance(value, str) else value


def _is_printable(text: str) -> bool:
    """True if all lines of `text` are printable, and so without unsafe signs: known in a tenth of the time of a search."""
    return text.isprintable() or text.replace("\n", "").isprintable()


def _is_plain(document: bytes) -> bool:
    return document.isascii() and b"\x7f" not in document


def _escaped(sign: re.Match[bytes]) -> bytes:
    units = sign[0].decode().encode("utf-16-be").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4)).encode()
