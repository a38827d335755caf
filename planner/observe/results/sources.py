"""Files to import: a path, every file of a folder, an https address, or files of a data set on the Hugging Face hub."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from planner.errors import Problem, UserError
from planner.reading import kind_of, read_file, user_path
from planner.web import NoAnswerError, read_url

ENDINGS = frozenset({".json", ".jsonl", ".csv", ".md", ".txt", ".log", ".out"})
"""Endings of files that are examined in a folder; a file that is named is read whatever its ending."""
MOST_FILES = 10_000
MOST_ENTRIES = 200_000
"""Maximum number of files and folders inside a folder that are examined, whatever their ending."""
MOST_FILE_BYTES = 1 << 28
MOST_WEB_BYTES = 64 << 20
WEB_S = 60.0
HUB = "https://huggingface.co"
LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
DATASET = re.compile(r"hf://datasets/(?P<id>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+?))?(?P<path>/.*)?")


class Source(NamedTuple):
    """One file's bytes, and its name in messages."""

    where: str
    name: str
    """File name without its ending, which names the board among those of a fleet."""
    data: bytes
    chosen: bool
    """True if the user named this file, not only its folder; files of a folder without results are left out."""


def sources(given: str) -> Iterator[Source]:
    """Files that `given` names, in the order of their names; raises `UserError` for what cannot be read."""
    if given.startswith("hf://"):
        yield from _of_dataset(given)
    elif "://" in given:
        yield _of_address(given, given)
    else:
        path = user_path(given)
        if kind_of(path) == stat.S_IFDIR:
            yield from _of_folder(path)
        else:
            yield Source(given, path.stem, read_file(path, most_bytes=MOST_FILE_BYTES), chosen=True)


def _of_folder(folder: Path) -> Iterator[Source]:
    paths = sorted(_possible_results(folder))
    if not paths:
        raise UserError(Problem(str(folder), "", f"has no file that ends in {', '.join(sorted(ENDINGS))}."))
    if len(paths) > MOST_FILES:
        raise UserError(
            Problem(str(folder), "", f"has {len(paths):,} files; {MOST_FILES:,} is the most that is read from a folder.")
        )
    for path in paths:
        yield Source(str(path), path.stem, read_file(path, most_bytes=MOST_FILE_BYTES), chosen=False)


def _possible_results(folder: Path) -> Iterator[Path]:
    """Files below `folder` with one of `ENDINGS`; files that vanish meanwhile or may not be listed are skipped."""
    entries = 0
    for place, folders, names in os.walk(folder):
        entries += len(folders) + len(names)
        if entries > MOST_ENTRIES:
            raise UserError(
                Problem(str(folder), "", f"has more than {MOST_ENTRIES:,} files and folders, the most that is looked through.")
            )
        paths = (Path(place, name) for name in names)
        yield from (path for path in paths if path.suffix.lower() in ENDINGS and kind_of(path) == stat.S_IFREG)


def _of_address(address: str, where: str, *, chosen: bool = True) -> Source:
    try:
        parts = urlsplit(address)
        accepted = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOCAL_HOSTS)
    except ValueError:
        accepted = False
    if not accepted:
        raise UserError(Problem(where, "", "is not accepted; https://…, hf://datasets/OWNER/NAME or a path is."))
    try:
        answer = read_url(address, within_s=WEB_S, most_bytes=MOST_WEB_BYTES)
    except NoAnswerError as error:
        raise UserError(Problem(where, "", f"{error}.")) from None
    return Source(where, Path(parts.path).stem, answer.body, chosen)


def _of_dataset(given: str) -> Iterator[Source]:
    matched = DATASET.fullmatch(given)
    if matched is None:
        raise UserError(Problem(given, "", "is not hf://datasets/OWNER/NAME, with @REVISION and /PATH where wanted."))
    identity, revision, path = matched["id"], quote(matched["revision"] or "main", safe=""), (matched["path"] or "").strip("/")
    if Path(path).suffix.lower() in ENDINGS:
        yield _of_address(f"{HUB}/datasets/{identity}/resolve/{revision}/{quote(path)}", given)
        return
    listed = _of_address(f"{HUB}/api/datasets/{identity}/tree/{revision}/{quote(path)}?recursive=true", given)
    try:
        names = sorted(str(one["path"]) for one in json.loads(listed.data) if one.get("type") == "file")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UserError(Problem(given, "", "is listed in an unknown form.")) from None
    wanted = [name for name in names if Path(name).suffix.lower() in ENDINGS]
    if not wanted or len(wanted) > MOST_FILES:
        raise UserError(Problem(given, "", f"has {len(wanted):,} files that could be results; 1 to {MOST_FILES:,} are read."))
    for name in wanted:
        address = f"{HUB}/datasets/{identity}/resolve/{revision}/{quote(name)}"
        yield _of_address(address, f"hf://datasets/{identity}/{name}", chosen=False)
