"""Contents of one result file, decoded once for every reader that looks at it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from planner.errors import Problem, UserError
from planner.reading import check_depth, too_deep


@dataclass(frozen=True)
class Contents:
    """Bytes of a file and where they came from. Raises `UserError` where it is asked for text or JSON that the bytes are not."""

    where: str
    data: bytes

    @cached_property
    def text(self) -> str:
        """The bytes as UTF-8, without a byte order mark."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UserError(Problem(self.where, "", "is not text in UTF-8.")) from None

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text."""
        return self.text.splitlines()

    @cached_property
    def whole_lines(self) -> list[str]:
        """The lines that end: the last may have lost digits where a file was cut off."""
        return self.lines if self.text.endswith(("\n", "\r")) else self.lines[:-1]

    @cached_property
    def is_json(self) -> bool:
        """Whether the text begins as a JSON object or list does."""
        return self.data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"{", b"["}

    @cached_property
    def json(self) -> Any:
        """The JSON document; a file of one object a line is a list of them. Infinity and NaN, which Python writes, are accepted."""
        try:
            found = self._decoded()
        except RecursionError:
            raise too_deep(self.where) from None
        check_depth(found, self.where)
        return found

    def _decoded(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError as error:  # a number of thousands of digits is one too
            if getattr(error, "msg", "") != "Extra data":
                raise UserError(Problem(self.where, "", f"is not whole JSON, or was cut off: {error}.")) from None
        found = []
        for number, line in enumerate(self.lines, 1):
            try:
                found += [json.loads(line)] if line.strip() else []
            except ValueError as error:
                raise UserError(Problem(f"{self.where}:{number}", "", f"is not whole JSON, or was cut off: {error}.")) from None
        return found

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        """The JSON objects of the file: the one it is, or those of its list or lines; empty for a file that is no JSON."""
        if not self.is_json:
            return []
        listed = self.json if isinstance(self.json, list) else [self.json]
        return [one for one in listed if isinstance(one, dict)]

    def have(self, *keys: str) -> bool:
        """Whether every JSON object has all of `keys`, and there is one."""
        return bool(self.objects) and all(key in one for one in self.objects for key in keys)
