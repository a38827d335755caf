"""What disturbs a measurement on a GPU, or makes it fail, and what is done about it; with stand-ins for what is not here."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from bench_sample import H100, a_point, bench_here  # noqa: E402  # it imports torch

from bench.kinds import training  # noqa: E402  # as above
from bench.kinds.transformer import SMOKE_SHAPE  # noqa: E402  # as above
from bench.machine import cuda  # noqa: E402  # as above
from bench.machine.nvml import HW_THERMAL, POWER_BRAKE, POWER_CAP, SW_THERMAL, Meter, Reading, between  # noqa: E402  # as above


class Library:
    """NVML as far as one test asks it; whatever else is not supported."""

    def __init__(self, busy: list[int] = [], mig: int = 0) -> None:  # noqa: B006  # it is read only
        self.busy, self.mig = list(busy), mig

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 3

    def nvmlInitWithFlags(self, _: int) -> int:  # noqa: N802  # NVML's name
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802  # as above
        count._obj.value = 1
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, *_: Any) -> int:  # noqa: N802  # as above
        return 0

    def nvmlDeviceGetMigMode(self, _: Any, now: Any, __: Any) -> int:  # noqa: N802  # as above
        now._obj.value = self.mig
        return 0

    def nvmlDeviceGetUtilizationRates(self, _: Any, rates: Any) -> int:  # noqa: N802  # as above
        rates._obj.gpu = self.busy.pop(0)
        return 0


@pytest.mark.parametrize(("busy", "least", "looks"), [([60, 3], 3, 2), ([60, 40, 30], 30, 3), ([0], 0, 1)])
def test_a_desktop_that_draws_now_and_then_shares_nothing(
    monkeypatch: pytest.MonkeyPatch, busy: list[int], least: int, looks: int
) -> None:
    monkeypatch.setattr("bench.machine.nvml.time.sleep", lambda _: None)
    library = Library(busy)
    assert Meter(library, ctypes.c_void_p()).busy_percent() == least
    assert len(busy) - len(library.busy) == looks


@pytest.mark.parametrize(("mig", "opened"), [(0, True), (1, False)])
def test_the_parent_of_slices_tells_nothing_of_one(monkeypatch: pytest.MonkeyPatch, mig: int, opened: bool) -> None:
    monkeypatch.setattr("bench.machine.nvml.ctypes.CDLL", lambda _: Library(mig=mig))
    assert (Meter.open(None) is not None) is opened


@pytest.mark.parametrize(
    ("answered", "bits", "held"),
    [
        ((POWER_CAP,), 0x20, True),  # no counter of heat answers: its bit counts
        ((POWER_CAP, SW_THERMAL, HW_THERMAL, POWER_BRAKE), 0x20, False),  # it answers, and says that nothing was held down
        ((POWER_CAP, SW_THERMAL), 0x40, True),
        ((), 0x8, True),
        ((POWER_CAP, SW_THERMAL), 0x4, False),  # the power cap is part of the board
    ],
)
def test_throttling_is_seen_where_some_counters_do_not_answer(answered: tuple[int, ...], bits: int, held: bool) -> None:
    first, last = (Reading(at_s, {"reasons": float(bits)}, dict.fromkeys(answered, 5)) for at_s in (0.0, 1.0))
    _, why = between(first, last)
    assert bool(why) is held


def test_clocks_are_read_while_the_device_works() -> None:
    """The last reading comes after more work was queued and before it ends."""
    happened: list[str] = []

    timer = SimpleNamespace(
        flushing="read",
        settle=lambda _: 1e-3,
        batch=lambda *_: [1e-3] * 50,
        keep_busy=lambda *_: happened.append("work queued"),
    )

    class Noted(Meter):
        def __init__(self) -> None:
            self._samples = []

        def read(self) -> Reading:
            happened.append("read")
            return Reading(float(len(happened)), {}, {})

    here = bench_here()
    here.timer, here.meter = timer, Noted()
    here.time(lambda: None, 0.01, whole=False)
    assert happened == ["read", "work queued", "read"]


def test_a_way_of_flushing_ends_with_its_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """A point that runs out of memory leaves the next one its cold cache."""
    from bench.kinds import bandwidth
    from bench.points import Bench

    def fails(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    here = bench_here()
    monkeypatch.setattr(Bench, "time", fails)
    with pytest.raises(torch.OutOfMemoryError):
        bandwidth.measure_gemv(here, a_point("gemv"), "fp32", 64, 64, "write")
    assert here.timer.flushing == "read"


def test_a_model_is_made_where_it_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a host a wide one takes half a minute and 19 GiB."""
    made: list[str] = []

    def model(_: Any) -> Any:
        made.append(str(torch.get_default_device()))
        return torch.nn.Linear(2, 2)

    monkeypatch.setattr(training, "Qwen3", model)
    training.training_step(SMOKE_SHAPE, "meta", 1, 8, "fp32")
    assert made == ["meta"]


@pytest.mark.parametrize(("release", "limited"), [("5.15.167.4-microsoft-standard-WSL2", True), ("6.8.0-45-generic", False)])
def test_under_wsl_torch_keeps_to_the_memory_of_the_gpu(monkeypatch: pytest.MonkeyPatch, release: str, limited: bool) -> None:
    limits: list[float] = []
    monkeypatch.setattr("bench.machine.cuda.platform.release", lambda: release)
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda share, _: limits.append(share))
    cuda.never_spill("cuda:0")
    assert limits == ([0.9] if limited else [])


def test_a_refusal_before_any_point_is_a_state_and_no_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernels for the part, or no memory for what flushes its cache."""
    from bench import worker
    from bench.run import Run, options

    sent: list[Any] = []
    channel = SimpleNamespace(send=sent.append, has_reader=True)
    monkeypatch.setattr("bench.machine.environment.find_device", lambda _: H100)
    monkeypatch.setattr(worker, "_hello", lambda _: SimpleNamespace(machine={}, software={}))
    monkeypatch.setattr("bench.machine.environment.local_ranks", lambda _: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (12, 0))
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80", "sm_90"])
    failed = worker._measure(Run(channel, 10.0, die_with_ui=False), options(["--suite", "smoke", "--wall-cap-s", "10"]))  # type: ignore[arg-type]  # as far as it is used
    assert failed is not None
    assert (failed.name, failed.retryable) == ("NoDevice", False)
    assert "has no kernels for compute capability 12.0" in failed.message
