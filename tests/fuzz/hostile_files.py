"""Files that no reader should trip over, and some that can be used."""

from __future__ import annotations

import os
import random
from pathlib import Path

SERVICE = 'model = "llama-3.1-8b"\ntask = "serve"\n'
CONFIG = '{"model_type":"llama","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":4,"num_attention_heads":8,"vocab_size":32000}'
TEXTS = {
    "a.toml": SERVICE,
    "bom.toml": "\ufeff" + SERVICE,
    "empty.toml": "",
    "nul.toml": "title = '\0'",
    "escape.toml": f'title = "\\u001b[31mTITLE\\u009b\\u0007"\n{SERVICE}',
    "deep.toml": f"{SERVICE}a = {'[' * 3000}{']' * 3000}",
    "nested.toml": f"{SERVICE}a = {'{a=' * 400}1{'}' * 400}",
    "dots.toml": f"a{'.a' * 3000} = 1",
    "digits.toml": f"{SERVICE}batch = {'9' * 5000}",
    "nan.toml": f"{SERVICE}request_rate_per_s = inf\n[targets]\np95_request_s = nan",
    "keys.toml": "".join(f"unknown{number} = 1\n" for number in range(20_000)),
    "large.toml": f"{SERVICE}# {'x' * (2 << 20)}",
    "config.json": CONFIG,
    "bom.json": "\ufeff" + CONFIG,
    "bad.json": "[" * 100_000,
    "surrogate.json": '{"model_type":"\\ud800"}',
    "layers.json": CONFIG.replace('"num_hidden_layers":4', '"num_hidden_layers":4000000000'),
    "lines.jsonl": '{"id":1,"model":"gpt2","gpu":"T4","task":"generate"}\n[\n{"id":"\x00"}\n',
}


def make_hostile_files(folder: Path, rng: random.Random) -> list[str]:
    """Write them into `folder`; their paths, and some of what is there anyway or nowhere."""
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "binary.toml").write_bytes(rng.randbytes(500))
    (folder / "folder.toml").mkdir()
    (folder / "loop.toml").symlink_to(folder / "loop.toml")
    os.mkfifo(folder / "pipe.toml")
    (folder / "endless.json").symlink_to("/dev/zero")
    (folder / "prices" / "aws").mkdir(parents=True)
    return [*map(str, sorted(folder.iterdir())), "nosuch.toml", "no/such.json", "~nosuch/x.toml", "/dev/zero", f"{'a' * 300}.toml"]
