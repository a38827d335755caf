"""Headers of safetensors files: those of a local folder, or of a repository of the hub by its `hub` extra.

A file begins with the length of its header, 8 bytes little endian, and the header, JSON that gives every tensor's dtype, shape
and offsets (https://github.com/huggingface/safetensors#format, read 2026-11-22). No values are read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec

from planner.errors import Problem, UserError
from planner.reading import open_file, parse_json, read_file
from planner.workload.checkpoints.tensors import StoredTensor

MOST_HEADER_BYTES = 100_000_000
"""Largest header that the safetensors library reads."""
MOST_FILES = 2_000


_Size = Annotated[int, msgspec.Meta(ge=0, le=2**60)]


class _Entry(msgspec.Struct):
    """A header's entry of one tensor."""

    dtype: str
    shape: Annotated[tuple[_Size, ...], msgspec.Meta(max_length=8)]
    data_offsets: tuple[_Size, _Size]


def folder_tensors(folder: Path) -> tuple[StoredTensor, ...]:
    """Tensors of the safetensors files in `folder`, if any; raises `UserError` for a broken one.

    With an index only the files that it names count, so that two copies of the weights in one folder count once.
    """
    index = folder / "model.safetensors.index.json"
    paths = sorted(folder.glob("*.safetensors"))
    if index.is_file():
        named = parse_json(read_file(index, "model", MOST_HEADER_BYTES), str(index), "model")
        mapped = named.get("weight_map") if isinstance(named, dict) else None
        wanted = {name for name in mapped.values() if isinstance(name, str)} if isinstance(mapped, dict) else set[str]()
        if missing := sorted(name for name in wanted if not (folder / name).is_file()):
            raise UserError(
                Problem(str(index), "model", f"names {missing[0]} and {len(missing) - 1} more that are not in the folder.")
            )
        paths = [path for path in paths if path.name in wanted]
    elif len(paths) > 1 and (whole := folder / "model.safetensors") in paths:
        paths = [whole]
    return tuple(tensor for path in paths[:MOST_FILES] for tensor in _tensors(path))


def _tensors(path: Path) -> Iterator[StoredTensor]:
    with open_file(path, "model") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= MOST_HEADER_BYTES:
            raise UserError(Problem(str(path), "model", f"is not a safetensors file: its header would have {length:,} bytes."))
        header = parse_json(file.read(length), str(path), "model")
    if not isinstance(header, dict):
        raise UserError(Problem(str(path), "model", "is not a safetensors file: its header is not a JSON object."))
    for name, entry in header.items():
        if name != "__metadata__":
            yield _tensor(path, name, entry)


def _tensor(path: Path, name: str, entry: Any) -> StoredTensor:
    try:
        found = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError as error:
        raise UserError(Problem(str(path), "model", f"has an unusable entry for {json.dumps(name)}: {error}.")) from None
    start, end = found.data_offsets
    if end < start:
        raise UserError(Problem(str(path), "model", f"has an unusable entry for {json.dumps(name)}: it ends before it begins."))
    return StoredTensor(name, found.dtype, found.shape, end - start)


_BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "U32": 32, "U16": 16, "U64": 64}  # fmt: skip


def hub_tensors(name: str) -> tuple[StoredTensor, ...]:
    """Tensors of the hub's repository `name`, from the headers of its files; empty if they cannot be read."""
    try:
        from huggingface_hub import get_safetensors_metadata
    except ImportError:
        return ()
    try:
        found = get_safetensors_metadata(name)
    except Exception:  # noqa: BLE001  # errors of whichever HTTP library this version of huggingface_hub is built on
        return ()
    return tuple(
        StoredTensor(key, one.dtype, tuple(one.shape), math.prod(one.shape) * _BITS.get(one.dtype, 16) // 8)
        for file in found.files_metadata.values()
        for key, one in file.tensors.items()
    )
