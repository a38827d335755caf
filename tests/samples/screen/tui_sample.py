"""A small planner with fixed answers, for tests of the terminal program."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from load_sample import sample_load

from planner.engine.answers.answer import Answer, LayoutAnswer, ParameterCounts
from planner.engine.answers.figure import Basis, Figure, Percentiles
from planner.engine.answers.memory import MemoryBytes, MemoryDetail, MemoryItem
from planner.engine.answers.plan import Counts, Flip, Lever, OfferAnswer, Plan, PlanRow, Verdict
from planner.engine.answers.time import Bound, Operator, TimeDetail, UnderLoad
from planner.errors import Problem, UserError
from planner.hardware.catalogue.gpus import Gpu, load_gpus
from planner.hardware.measurements.measurement import Measurement
from planner.hardware.measurements.store import Store
from planner.paths import presets_folder
from planner.units import GIB
from planner.workload.presets import PresetShelf, read_workload
from planner.workload.tasks import Workload
from widgets.app import PlannerApp
from widgets.options import AppOptions

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from planner.session import Session
    from planner.workload.architecture import Architecture

PRESET = "chat-70b-sla"
CHAT = """\
title = "Chat service, 70B"
model = "llama-3.1-70b"
task = "serve"
weight_dtype = "fp8"
kv_dtype = "fp8"
input_tokens = 600
output_tokens = 200
request_rate_per_s = 16.7
objective = "cheapest"

[targets]
p95_request_s = 5.0
burst = 0.2
"""
STUDY = """\
title = "Pre-training study"
model = "qwen3-0.6b"
task = "train"
recipe = "amp"
optimizer = "adamw"
sequence = 256
global_batch = 4
train_tokens = 1.0e9

[targets]
deadline_h = 48.0
"""
MODELS = {"llama-3.1-70b": "Llama 3.1 70B", "llama-3.1-8b": "Llama 3.1 8B", "qwen3-0.6b": "Qwen3 0.6B"}

# gpu, count, layout, memory share, output tokens/s, spread, basis, $/h, provider, verdict, limit, why
ROWS: tuple[tuple[str, int, dict[str, Any], float, float, float, Basis, float, str, Verdict, str, str], ...] = (
    ("H200 SXM 141GB", 4, {"tp": 2, "dp": 2}, 0.78, 5210, 0.04, "measured", 12.36, "runpod", "fits", "bandwidth", "Cheapest that meets p95 < 5 s: 3.9 s at 1.2 × the load."),
    ("H100 SXM5 80GB", 8, {"tp": 4, "dp": 2}, 0.91, 6480, 0.14, "transferred", 16.32, "lambda", "fits", "bandwidth", "32 % dearer than the first; its KV cache is tight at 91 %."),
    ("B200 180GB", 2, {"tp": 2}, 0.64, 5890, 0.21, "public", 11.98, "modal", "fits", "bandwidth", "Two cards meet the load; a third of the memory stays free."),
    ("L40S", 16, {"tp": 4, "dp": 4}, 0.80, 4900, 0.22, "public", 16.50, "vast", "fits", "PCIe", "All-reduce over PCIe takes 41 % of a step."),
    ("RTX PRO 6000 Blackwell Server", 8, {"tp": 2, "dp": 4}, 0.83, 5020, 0.25, "spec", 15.12, "runpod", "fits", "PCIe", "No NVLink; eight cards for the load."),
    ("MI300X", 4, {"tp": 2, "dp": 2}, 0.57, 4410, 0.35, "spec", 13.96, "hotaisle", "fits", "bandwidth", "Large memory, but nothing was measured of it."),
    ("A100 SXM4 80GB", 4, {"tp": 2, "dp": 2}, 0.97, 2210, 0.12, "public", 7.56, "lambda", "misses-target", "bandwidth", "misses p95: 7.2 s > 5 s → 8 GPUs meet it at 15.1 $/h"),
    ("RTX 4090", 8, {"tp": 8}, 1.18, 0, 0, "spec", 3.52, "vast", "does-not-fit", "memory", "does not fit by 4.1 GiB → int4 weights fit"),
    ("T4", 8, {"tp": 8}, 0.0, 0, 0, "spec", 2.8, "gcp", "not-supported", "compute", "no FP8 and no bf16 → fp16 weights on 16 GPUs"),
)  # fmt: skip
SHARED = {"nvml_names": (), "only_named": False, "vendor": "NVIDIA"}


def _figure(value: float, spread: float, basis: Basis) -> Figure:
    return Figure(value, value / (1 + spread), value * (1 + spread), basis)


def _memory(share: float, capacity_gib: float, basis: Basis) -> MemoryBytes:
    used = share * capacity_gib
    parts = {"weights": 0.304, "kv_cache": 0.587, "activations": 0.047, "overhead": 0.062}
    sizes = {name: used * part * GIB for name, part in parts.items()}
    rest = dict.fromkeys(("gradients", "optimizer", "logits", "buffers"), 0.0)
    return MemoryBytes(**sizes, **rest, total=_figure(used * GIB, 0.05, basis), capacity=capacity_gib * GIB, usable_share=0.9)


def _row(place: int, entry: tuple[Any, ...], basis: Literal["measured", "spec"], scale: float) -> PlanRow:
    gpu, count, degrees, share, rate, spread, known, price, provider, verdict, limit, why = entry
    if basis == "spec":
        known, spread = "spec", max(spread, 0.3)
    fits = verdict == "fits"
    capacity = {"H200 SXM 141GB": 139.8, "RTX 4090": 23.6, "B200 180GB": 178.4}.get(gpu, 79.2)
    throughput = _figure(rate * scale, spread, known) if rate else None
    answer = Answer(
        fits=fits,
        reason=None if fits else why,
        bottleneck=limit,
        memory_bytes=_memory(share, capacity, known) if share else None,
        parameters=ParameterCounts(total=70_553_706_496, active=70_553_706_496, embedding=1_050_673_152, trainable=0),
        tokens_per_s=throughput,
        output_tokens_per_s=throughput,
        tokens_per_s_per_gpu=_figure(rate * scale / count, spread, known) if rate else None,
        decode_tokens_per_s=_figure(rate * scale / 80, spread, known) if rate else None,
        ttft_s=Percentiles(mean=_figure(0.21, spread, known), p95=_figure(0.48, spread, known)) if rate else None,
        request_s=Percentiles(mean=_figure(2.9, spread, known), p95=_figure(3.9, spread, known)) if rate else None,
        max_concurrency=412 if fits else None,
        max_context=121_344 if fits else None,
        usd_per_million_tokens=_figure(price / 3600 / (rate * scale) * 1e6, spread, known) if rate else None,
        flop_per_usd=_figure(rate * scale * 1.41e11 * 3600 / price, spread, known) if rate else None,
        seconds_by_class={"gemm": 0.0212, "attention": 0.0104, "all-reduce": 0.0031, "elementwise": 0.0011, "launch": 0.0004}
        if rate
        else {},
        assumed={"engine": "vllm", "memory_fraction": 0.9, "link": "nvlink"},
        layout=LayoutAnswer(gpus=count, gpus_per_node=count, **degrees),
        version="0.1.0",
    )
    offer = OfferAnswer(
        provider=provider,
        instance=f"{count}x {gpu}",
        region="us",
        gpus=count,
        instances=1,
        usd_per_h=price,
        market="on-demand",
        as_of="2026-07-20",
        source=f"https://{provider}.example/pricing",
    )
    return PlanRow(
        rank=place if fits else None,
        gpu=gpu,
        verdict=verdict,
        why=why,
        answer=answer,
        here=known == "measured",
        basis=known,
        offer=offer,
        other_offers=3,
        usd_per_h=Figure(price, price, price, "public"),
        usd_per_month=Figure(price * 730, price * 730, price * 730, "public"),
        job_h=_figure(1e9 / (rate * scale) / 3600, spread, known) if rate else None,
        job_usd=_figure(1e9 / (rate * scale) / 3600 * price, spread, known) if rate else None,
    )


def sample_plan(workload: Workload, basis: Literal["measured", "spec"]) -> Plan:
    """Nine rows whose speed grows with the output length, so that a change of the form is seen."""
    output = workload.output_tokens
    scale = (output if isinstance(output, int) else 200) / 200
    kept = [
        entry
        for entry in ROWS
        if (not workload.gpus_considered or entry[0] in workload.gpus_considered)
        and (not workload.providers or entry[8] in workload.providers)
    ]
    rows = [_row(place, entry, basis, scale) for place, entry in enumerate(kept, start=1)]
    stated = {key: value for key, value in msgspec.to_builtins(workload).items() if value is not None}
    return Plan(
        task={**stated, "engine": "vllm"},
        rows=rows,
        counts=Counts(considered=1312, fit=214 if len(kept) == len(ROWS) else 12, shown=len(rows)),
        levers=[Lever(change={"weight_dtype": "int4"}, text="int4 weights fit on an RTX 4090")],
        prices_as_of="2026-07-20",
        notes=["Prices of 20 providers; taxes are not in them."],
        version="0.1.0",
    )


FORMULAS = {
    "weights": ("weights", "(68,450,000,000 · 0.5312 + 2,101,354,496 · 2) ÷ 2", "the storage format"),
    "kv_cache": (
        "keys and values",
        "412 sequences · 800 tokens · 80 layers · 2 · 1,024 · 1 ÷ 2",
        "two tensors a layer, in whole blocks",
    ),
    "activations": (
        "the prompt in its largest layer",
        "8,192 tokens · (6 · 28,672 + 8 · 8,192) · 2 ÷ 2",
        "gate, up and product of the MLP",
    ),
    "overhead": ("context, libraries and graphs", "1.4 GiB", "the engine's record"),
}


def sample_detail(row: PlanRow) -> MemoryDetail | None:
    """An item a component; the overhead has two."""
    memory = row.answer.memory_bytes
    if memory is None:
        return None
    items = [MemoryItem(name, what, getattr(memory, name), formula, source) for name, (what, formula, source) in FORMULAS.items()]
    *whole, overhead = items
    split = [msgspec.structs.replace(overhead, name=name, bytes=overhead.bytes / 2) for name in (overhead.name, "communicators")]
    return MemoryDetail(
        items=[*whole, *split],
        total_bytes=memory.total.value,
        label_bytes=memory.capacity * 1.01,
        capacity_bytes=memory.capacity,
        capacity_source="what the driver gives",
        memory_fraction=0.9,
        headroom=0.1,
        usable_bytes=memory.capacity * 0.81,
    )


# phase, class, name, ms, bound, count, (m, n, k), TFLOP, GiB
OPERATORS: tuple[tuple[str, str, str, float, Bound, float, tuple[float, float, float] | None, float, float], ...] = (
    ("prefill", "matmul", "MLP gate", 7.3, "compute", 80, (600, 7168, 8192), 5.64, 6.2),
    ("prefill", "matmul", "MLP up", 7.3, "compute", 80, (600, 7168, 8192), 5.64, 6.2),
    ("prefill", "attention", "attention scores", 1.1, "compute", 2560, (600, 300, 128), 0.39, 0.05),
    ("prefill", "communication", "all-reduce of activations", 5.1, "link", 160, None, 0, 4.7),
    ("decode", "matmul", "MLP gate", 410.0, "bandwidth", 15920, (52, 7168, 8192), 97.2, 950.0),
    ("decode", "matmul", "q projection", 96.0, "bandwidth", 15920, (52, 2048, 8192), 27.8, 250.0),
    ("decode", "head", "output head", 31.0, "bandwidth", 199, (52, 32064, 8192), 5.4, 98.0),
    ("decode", "elementwise", "norms", 9.0, "bandwidth", 15920, None, 0, 24.0),
    ("decode", "communication", "all-reduce of activations", 120.0, "link", 31840, None, 0, 80.0),
    ("decode", "latency", "starting and ending products", 88.0, "latency", 63680, None, 0, 0),
    ("decode", "latency", "small kernels", 1.2, "latency", 95520, None, 0, 0),
    ("decode", "attention", "attention values", 1.9, "bandwidth", 1e6, (1, 128, 700), 0.01, 5.0),
    ("decode", "host", "engine between passes: scheduling, sampling", 199.0, "host", 0, None, 0, 0),
)  # fmt: skip


def sample_time(row: PlanRow) -> TimeDetail | None:
    """Operators of a prompt and of its decoding."""
    if not row.answer.seconds_by_class:
        return None
    operators = [
        Operator(
            phase=phase,
            kind=kind,
            name=name,
            seconds=ms / 1e3,
            bound=bound,
            count=count,
            m=shape[0] if shape else None,
            n=shape[1] if shape else None,
            k=shape[2] if shape else None,
            dtype="bf16" if shape else "",
            flop=tflop * 1e12,
            bytes=gib * GIB,
        )
        for phase, kind, name, ms, bound, count, shape, tflop, gib in OPERATORS
    ]
    return TimeDetail(
        work="one request",
        operators=operators,
        total_s=sum(one.seconds for one in operators),
        dtype="bf16",
        flop_per_s=778e12,
        peak_flop_per_s=989e12,
        bytes_per_s=4.2e12,
        peak_bytes_per_s=4.8e12,
    )


def shipped_gpu(name: str) -> Gpu:
    """The catalogue's own GPU of that name."""
    return load_gpus(presets_folder() / "gpus").find(name.removesuffix(" 141GB"))


class SampleModels:
    """Three models."""

    def names(self) -> tuple[str, ...]:
        return tuple(MODELS)

    def find(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, title=MODELS[name])

    def heads(self) -> dict[str, tuple[SimpleNamespace, str]]:
        return {name: (self.find(name), "llama") for name in self.names()}


class SampleSession:
    """Answers like the real session, at once and always the same."""

    def __init__(self, folder: Path) -> None:
        shipped = folder / "shipped"
        shipped.mkdir(parents=True, exist_ok=True)
        (shipped / f"{PRESET}.toml").write_text(CHAT)
        (shipped / "study-600m.toml").write_text(STUDY)
        self.presets = PresetShelf(shipped, folder / "config")
        self.models = SampleModels()
        self.gpus: Any = SimpleNamespace(
            all=tuple(SimpleNamespace(name=name, aliases=(name.split()[0],), **SHARED) for name, *_ in ROWS), find=shipped_gpu
        )
        self.offers = tuple(SimpleNamespace(provider=entry[8], region="us") for entry in ROWS)
        self.machine = SimpleNamespace(gpus=(SimpleNamespace(name="H200 SXM 141GB"),), nvml_state="ready")
        self.store = Store.open(folder / "measured")
        self.refreshed = False
        self.planned: list[Workload] = []

    @property
    def warnings(self) -> Sequence[str]:
        return self.store.warnings

    def workload(self, fields: Mapping[str, Any], where: str) -> Workload:
        workload = read_workload(fields, where)
        if workload.model not in MODELS:
            raise UserError(Problem(where, "model", f"{workload.model!r} is not a known model.", tuple(MODELS)[:1]))
        if workload.request_rate_per_s is not None and workload.request_rate_per_s > 10_000:
            raise UserError(Problem(where, "request_rate_per_s", "is 20000; a rate above 0 and up to 10,000 req/s is accepted."))
        return workload

    def architecture(self, model: str, where: str = "") -> Architecture:
        raise UserError(Problem(where, "model", f"{model!r} has no layers here."))

    def stores_less(self, *_asked: object) -> bool:
        return False

    def part_named(self, name: str) -> Gpu | None:
        try:
            return shipped_gpu(name)
        except UserError:
            return None

    def begin_machine(self) -> None:
        """Its machine needs no asking."""

    def refresh(self) -> None:
        self.refreshed = True

    def log_prediction(self, measured: Measurement) -> None:
        del measured

    def memory_detail(self, workload: Workload, row: PlanRow, *, basis: str = "measured") -> MemoryDetail | None:
        del workload, basis
        return sample_detail(row)

    def time_detail(self, workload: Workload, row: PlanRow, *, basis: Literal["measured", "spec"]) -> TimeDetail | None:
        del workload, basis
        return sample_time(row)

    def under_load(self, *_asked: object, **_basis: object) -> UnderLoad:
        return sample_load()

    def costs(self, *_asked: object, **_terms: object) -> None:
        """Nothing is known of years here."""

    def levers(self, workload: Workload, row: PlanRow) -> list[Lever]:
        del workload
        change = {"weight_dtype": "int4"}
        text = f"int4 weights: then 8 × {row.gpu} fits"
        enough = Lever(change=change, text=text, gpu=row.gpu, gpus=8, costs="precision", saves_bytes=3.2 * GIB, slowdown=-0.2)
        slow = Lever(
            change={"concurrency": 8}, text="8 at once: not enough alone", costs="time", saves_bytes=2 * GIB, slowdown=0.31
        )
        return [enough, slow]

    def with_flips(self, workload: Workload, plan: Plan, *, basis: Literal["measured", "spec"]) -> Plan:
        del workload, basis
        return msgspec.structs.replace(plan, flips=[Flip(key="output_tokens", gpu="B200 180GB", value=238, factor=1.19)])

    def plan(
        self, workload: Workload, *, basis: Literal["measured", "spec"] = "measured", levers: bool = True, hints: bool = False
    ) -> Plan:
        del levers  # the sample has its levers either way
        if not hints:
            self.planned.append(workload)
        return sample_plan(workload, basis)


def sample_options(folder: Path, **changes: Any) -> AppOptions:
    """Options under which every start looks the same."""
    given: dict[str, Any] = {
        "preset": PRESET,
        "state": folder / "state",
        "telemetry": False,
        "today": dt.date(2026, 8, 30),
        "open_session": lambda: cast("Session", SampleSession(folder)),
    }
    return AppOptions(**{**given, **changes})


async def settle(pilot: Pilot[None]) -> None:
    """Until the first answer is there, and the last change is answered."""
    app = pilot.app
    assert isinstance(app, PlannerApp)
    for _ in range(500):
        if app.plan is not None and app.here:
            break
        await pilot.pause(0.02)
    for _ in range(2):
        await app.workers.wait_for_complete()
        await pilot.pause()


async def first_note(pilot: Pilot[None]) -> str:
    """The first notification, waited for."""
    for _ in range(500):
        for note in pilot.app._notifications:
            return note.message
        await pilot.pause(0.02)
    raise AssertionError("nothing was said")
