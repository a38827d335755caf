"""The way from the bytes of a file or answer that others wrote to an answer of the planner, for each kind."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pytest
from reader_samples import POINT, RUN, samples, write_gguf

from planner import paths
from planner.api.planner import Planner
from planner.cli.mcp.tools import call
from planner.cli.watch.table import telemetry_text
from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import load_gpus
from planner.hardware.measurements.exchange import read_document
from planner.hardware.measurements.store import FILE_NAME as STORE
from planner.hardware.measurements.store import Store
from planner.hardware.prices.api_prices import load_api_prices
from planner.hardware.prices.catalogue import catalogued_offers, load_price_catalogue
from planner.hardware.prices.catalogue_rows import UnusablePrices
from planner.hardware.prices.offers import load_offers
from planner.hardware.prices.providers import load_providers, with_discounts
from planner.observe.benchmark.journal import journal_path, recover_journals
from planner.observe.machine import match_gpu
from planner.observe.results.compared import ResultFile, compare
from planner.observe.results.read import is_exported, read_results
from planner.observe.results.result import CollectiveTimes
from planner.observe.telemetry import prometheus
from planner.observe.telemetry.exporter import devices_of, snapshot_of
from planner.observe.telemetry.exposition import prometheus_text, read_samples
from planner.observe.telemetry.recording import read_recording
from planner.observe.telemetry.window import observe, observe_fleet
from planner.observe.traffic.reading import read_traffic
from planner.predictions.learning import learned
from planner.predictions.log import FILE_NAME as PREDICTIONS
from planner.predictions.log import PredictionLog
from planner.present.traffic import traffic_sections
from planner.session import Session
from planner.workload.checkpoints.gguf_file import read_gguf
from planner.workload.checkpoints.headers import folder_tensors
from planner.workload.checkpoints.shapes import description_by_shapes
from planner.workload.huggingface.config import read_architecture
from planner.workload.huggingface.described import described_architecture
from widgets.state import config as key_bindings

SETTINGS = {"model": "llama-3.1-8b", "gpu": "H100", "gpus": 1, "engine": "vllm", "dtype": "bf16", "concurrency": 8}
UNHEARD_OF = {
    "model_type": "unheard_of",
    "hidden_size": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "num_hidden_layers": 2,
}


class ReaderKinds:
    """Readers that work in a folder of their own; each returns what is made of the content, or raises `UserError`."""

    together: ClassVar = {"calls of agents": 1, "results": 1, "recordings": 3, "exporter pages": 10, "Prometheus answers": 10}
    """Inputs at a time, of what takes long."""
    binary: ClassVar = frozenset({"GGUF files"})

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = Session.open(state=folder / "state", config=folder / "config")
        self.samples = samples(self.session)
        if write_gguf(folder / "tiny.gguf"):
            self.samples["GGUF files"] = [(folder / "tiny.gguf").read_bytes()]
        self.read: dict[str, Callable[[bytes], object]] = {
            "exporter pages": self._page,
            "Prometheus answers": self._fleet,
            "traffic": self._traffic,
            "results": self._results,
            "exported measurements": self._exported,
            "stores": self._store,
            "prediction logs": self._log,
            "journals": self._journal,
            "recordings": self._recording,
            "GPUs": lambda content: load_gpus(self._folder("gpus", content)).all,
            "token prices": lambda content: load_api_prices(self._folder("tokens", content), folder / "nosuch"),
            "offers": lambda content: load_offers(self._folder("offers", content), self.session.gpus),
            "providers": self._providers,
            "price tables": self._prices,
            "configs": self._config,
            "GGUF files": self._gguf,
            "safetensors headers": self._safetensors,
            "inventories": self._inventory,
            "key bindings": lambda content: key_bindings.read(
                self._file("config/config.toml", content).parent, ("why", "benchmark")
            ),
            "calls of agents": self._call,
        }

    def _file(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def _folder(self, name: str, content: bytes) -> Path:
        return self._file(f"{name}/one.toml", content).parent

    def _page(self, content: bytes) -> object:
        devices = devices_of(read_samples(content.decode(errors="replace"), "page"))
        snapshot = snapshot_of(devices, "page", dt.datetime(2026, 1, 1, tzinfo=dt.UTC), 0.0)
        prometheus_text(snapshot)
        telemetry_text(snapshot, 120)
        return self.session.rightsize(observe([snapshot], self.session.gpus)) if devices else snapshot

    def _fleet(self, content: bytes) -> object:
        """The first line answers for the names of the metrics, the last for each of them."""
        lines = content.decode(errors="replace").splitlines() or [""]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prometheus, "fetched", lambda url, *_: lines[0] if "/label/" in url else lines[-1])
            found = prometheus.read_fleet("http://127.0.0.1:9", 3600.0)
        return self.session.rightsize(observe_fleet(found, self.session.gpus))

    def _traffic(self, content: bytes) -> object:
        found, _ = read_traffic([self._file("traffic.log", content)], seconds=10.0)
        traffic_sections(found)
        return found

    def _results(self, content: bytes) -> object:
        if is_exported(content):
            return self._exported(content)
        found = [one for one in read_results(content, "file") if not isinstance(one, CollectiveTimes)]
        return compare(
            self.session,
            ResultFile("file", "file", found, SETTINGS),
            lambda name: match_gpu(name, None, self.session.gpus),
            self.session.models.names(),
        )

    def _exported(self, content: bytes) -> object:
        runs, rows = read_document(content, "file", "imported", self.session.part_named)
        store = Store(None)
        store.add_all(rows, runs)
        return store.latest(), store.fleet_outliers()

    def _store(self, content: bytes) -> object:
        store = Store.open(self._file(f"store/{STORE}", content).parent)
        found = store.all(), store.runs(), store.latest(), store.predictions(), store.fleet_outliers()
        store.add(POINT)
        return found

    def _log(self, content: bytes) -> object:
        log = PredictionLog(self._file(f"log/{PREDICTIONS}", content).parent)
        return [one.what for one in log.predicted()], log.seen(), list(learned(log.pairs()).values())

    def _journal(self, content: bytes) -> object:
        store, state = Store(None), self.folder / "journals"
        journal_path(state, RUN).write_bytes(content)
        recover_journals(state, store, self.session.canonical_name)
        for path in (state / "runs").iterdir():
            path.unlink()
        return store.all()

    def _recording(self, content: bytes) -> object:
        found = read_recording(self._file("recording.jsonl", content)).snapshots
        telemetry_text(found[-1], 120)
        return self.session.rightsize(observe(found, self.session.gpus)) if found[-1].devices else found

    def _providers(self, content: bytes) -> object:
        return with_discounts(self.session.shipped_offers[:20], load_providers(self._folder("providers", content)))

    @cached_property
    def _catalogue(self) -> Any:
        return load_price_catalogue(paths.presets_folder() / "catalogues" / "skypilot.toml", self.session.gpus)

    def _prices(self, content: bytes) -> object:
        provider = next(one for one in self._catalogue.provider if one.provider == "aws")
        known = self.session.shipped_offers
        try:
            return catalogued_offers(
                content.decode(errors="replace"),
                provider,
                self._catalogue,
                self.session.gpus,
                known=known,
                as_of="2026",
                source="x",
            )
        except UnusablePrices as refused:
            raise UserError(Problem("file", "", str(refused))) from None

    def _config(self, content: bytes) -> object:
        return read_architecture(self.session.models.config(str(self._file("model/config.json", content))))

    def _gguf(self, content: bytes) -> object:
        return read_architecture(read_gguf(self._file("model.gguf", content)).config)

    def _safetensors(self, content: bytes) -> object:
        path = self._file("checkpoint/model.safetensors", len(content).to_bytes(8, "little") + content)
        try:
            return described_architecture(description_by_shapes(UNHEARD_OF, folder_tensors(path.parent), "file"))
        except ValueError as refused:  # as `Inventory.architecture` tells it
            raise UserError(Problem("file", "model", str(refused))) from None

    def _inventory(self, content: bytes) -> object:
        return self.session.machines(self._file(f"machines.{'toml' if b'[[own]]' in content else 'txt'}", content))

    @cached_property
    def _planner(self) -> Planner:
        return Planner(state=self.folder / "state", config=self.folder / "config")

    def _call(self, content: bytes) -> object:
        try:
            given = json.loads(content)
        except (ValueError, RecursionError):
            return None
        if not isinstance(given, dict) or not isinstance(given.get("arguments"), dict):
            return None  # the protocol's own library refuses these
        return call(self._planner, str(given.get("name")), given["arguments"]).data
