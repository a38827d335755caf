"""Right-sizing: the verdict of each recorded window, savings worked out again by hand from the offers, slices, and rent or buy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from repository import ROOT, RunPlanner
from rightsizing_sample import H100, action, cheapest, dollars, h100, sized, window
from telemetry_sample import WINDOWS, snapshot_of

from planner.engine.advice.advice import Advice, RightSizing
from planner.engine.advice.diagnosis import judge, zones_of
from planner.engine.advice.ownership import break_even
from planner.errors import UserError
from planner.observe.snapshot import DeviceSnapshot
from planner.observe.telemetry.window import observe
from planner.session import Session
from planner.units import GIB
from planner.workload.hardware.owned import Owning


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("home")
    return Session.open(state=folder / "state", config=folder / "config")


# the five windows


def test_an_idle_gpu_is_given_back(session: Session) -> None:
    one = sized(session, window(session, "idle"))
    assert one.judgement.limiter == "idle"
    assert {zone.name: zone.zone for zone in one.judgement.zones} == dict.fromkeys(
        ("SM active", "tensor", "DRAM traffic", "memory", "power"), "low"
    )
    assert one.actions[0].kind == "release"
    price = cheapest(session, H100)
    assert one.price is not None
    assert one.price.usd_per_h == price
    assert dollars(one.actions[0]) == pytest.approx(price * 730)
    # 18.2 GiB and a tenth more are 20.02: above the 19.5 of 2g.20gb, so 3g.40gb, of which two lie on a GPU
    assert action(one, "mig").profile == "3g.40gb"
    assert dollars(action(one, "mig")) == pytest.approx(price * 730 / 2)
    assert session.gpus.find(action(one, "cheaper").gpu or "").memory_bytes >= 18.2 * 1.1 * GIB


def test_a_launch_bound_job_is_batched(session: Session) -> None:
    one = sized(session, window(session, "launch-bound"))
    assert one.judgement.limiter == "launch/host"
    readings = [line for line in (WINDOWS / "launch-bound.jsonl").read_text().splitlines() if not line.startswith("#")]
    active = sum(json.loads(line)["devices"][0]["sm_active_fraction"] for line in readings) / len(readings)
    price = cheapest(session, H100)
    first = one.actions[0]
    assert first.kind == "batch"
    assert first.saves is not None
    assert first.saves.at_most
    assert dollars(first) == pytest.approx(price * (1 - active / 0.85) * 730)
    moved = action(one, "cheaper")
    assert moved.gpu is not None
    assert dollars(moved) == pytest.approx((price - cheapest(session, moved.gpu)) * 730)
    other = session.gpus.find(moved.gpu)
    assert other.memory_bandwidth_bytes_per_s >= 1.1 * 0.088 * 3350e9
    assert other.memory_bytes >= 1.1 * 9.4 * GIB
    assert "bf16" in other.compute_flop_per_s


def kinds(one: RightSizing) -> list[str]:
    return [found.kind for found in one.actions]


def test_a_decode_bound_by_bandwidth_is_never_sent_to_a_bigger_gpu(session: Session) -> None:
    one = sized(session, window(session, "bandwidth-bound-decode"))
    assert one.judgement.limiter == "bandwidth"
    assert "would not help" in one.judgement.headline
    assert [kind for kind in kinds(one) if kind != "cheaper"] == ["batch", "quantise", "spot"]
    price = cheapest(session, H100)
    assert dollars(action(one, "quantise")) == pytest.approx(price * 730 / 2)
    assert dollars(action(one, "spot")) == pytest.approx((price - cheapest(session, H100, "spot_usd_per_h")) * 730)
    full = sized(session, h100(dram_bandwidth=0.8, tensor_active=0.1, memory_used_bytes=78 * GIB))
    assert full.judgement.limiter == "memory capacity"
    assert all(found.kind != "larger" for found in full.actions)


def test_training_bound_by_arithmetic_stays_and_is_committed(session: Session) -> None:
    seen = window(session, "compute-bound-training")
    one = sized(session, seen)
    assert one.judgement.limiter == "compute"
    assert "well used" in one.judgement.headline
    assert seen.held_back == {"power cap": pytest.approx(0.11)}
    assert kinds(one)[-1] == "spot"
    assert set(kinds(one)) <= {"cheaper", "spot"}, "as fast a GPU for less, if there is one, or the same one on other terms"
    spot = action(one, "spot")
    assert dollars(spot) == pytest.approx((cheapest(session, H100) - cheapest(session, H100, "spot_usd_per_h")) * 730)
    cheaper = next(found for found in one.actions if found.kind == "cheaper")
    assert "each 10 % more than was used" in cheaper.checks, "70.3 GiB here, where 63.9 are in use"
    kept = sized(session, seen, usd_per_h=0.5)
    assert [found.kind for found in kept.actions] == ["stay"]


def test_memory_about_to_run_out_is_relieved_before_a_larger_gpu_is_rented(session: Session) -> None:
    one = sized(session, window(session, "nearly-out-of-memory"))
    assert one.judgement.limiter == "memory capacity"
    assert {zone.name: zone.zone for zone in one.judgement.zones}["memory"] == "high"
    assert [kind for kind in kinds(one) if kind != "cheaper"] == ["checkpoint", "quantise", "larger"]
    larger = action(one, "larger")
    assert larger.gpu is not None
    room = session.gpus.find(larger.gpu)
    assert room.memory_bytes > 77.4 * 1.1 * GIB
    assert dollars(larger) == pytest.approx((cheapest(session, H100) - cheapest(session, larger.gpu)) * 730)


@pytest.mark.parametrize(
    ("changes", "limiter"),
    [
        ({"sm_clock_hz": 1400e6, "held_back": {"software thermal": 0.6}}, "thermal"),
        ({"sm_clock_hz": 1400e6, "held_back": {"power cap": 0.9}}, "power"),
        ({"sm_clock_hz": 1900e6, "held_back": {"power cap": 0.9}, "tensor_active": 0.7}, "compute"),
        ({"fp64_active": 0.8, "tensor_active": 0.0}, "compute"),
        ({"tensor_active": 0.05, "dram_bandwidth": 0.1, "link_share": 0.7}, "link"),
        ({"tensor_active": 0.05, "dram_bandwidth": 0.1}, "unknown"),
        ({"sm_active": 0.4, "tensor_active": 0.1, "dram_bandwidth": 0.1}, "launch/host"),
        ({"sm_active": 0.4, "dram_bandwidth": 0.7}, "bandwidth"),
        ({"sm_active": 0.01, "memory_used_bytes": 79 * GIB}, "idle"),
    ],
)
def test_what_the_work_waits_for(changes: dict[str, Any], limiter: str) -> None:
    assert judge(h100(**changes)).limiter == limiter


def test_what_cannot_be_told_names_each_reason_once() -> None:
    reasons = dict.fromkeys(("sm_active", "tensor_active", "dram_bandwidth"), "the log does not have it")
    seen = h100(sm_active=None, tensor_active=None, dram_bandwidth=None, reasons=reasons)
    assert judge(seen).because == ["the log does not have it (3 figures)"]


def test_a_counter_that_is_known_is_not_called_missing() -> None:
    """Slices of a divided GPU may say how busy they are and not what they read."""
    found = judge(h100(sm_active=0.27, dram_bandwidth=None, tensor_active=None)).cannot_know
    assert found[0] == "tensor and DRAM traffic: no value, so this may be what the work waits for."
    assert not any("SM" in words for words in found)


def test_work_is_judged_by_the_time_it_ran_and_pauses_by_themselves(session: Session) -> None:
    name = "NVIDIA H100 80GB HBM3"
    work = DeviceSnapshot(
        index=0, uuid="a", state="ok", name=name, sm_active_fraction=0.9, dram_bandwidth_fraction=0.8, tensor_active_fraction=0.1,
        power_w=400.0, power_limit_w=700.0, sm_clock_hz=1980e6, max_sm_clock_hz=1980e6, memory_used_bytes=60 * GIB,
    )  # fmt: skip
    rest = msgspec.structs.replace(
        work, sm_active_fraction=0.0, dram_bandwidth_fraction=0.0, tensor_active_fraction=0.0, power_w=100.0, sm_clock_hz=345e6
    )
    (seen,) = observe([snapshot_of(second, (work, rest, rest, rest)[second % 4]) for second in range(20)], session.gpus)
    assert (seen.sm_active, seen.dram_bandwidth, seen.clock_share, seen.busy) == (0.9, 0.8, 1.0, 0.25)
    assert seen.power_w == pytest.approx((400 + 3 * 100) / 4)
    one = sized(session, seen)
    assert one.judgement.limiter == "bandwidth"
    assert one.actions[0].kind == "release"
    assert dollars(one.actions[0]) == pytest.approx(cheapest(session, H100) * 0.75 * 730)
    assert one.judgement.zones[0].name == "busy"


def test_zones_begin_where_the_guide_says() -> None:
    def zone(name: str, **changes: Any) -> str:
        return next(found.zone for found in zones_of(h100(**changes)) if found.name == name)

    assert [zone("SM active", sm_active=share) for share in (0.59, 0.6, 0.85, 0.86, None)] == [
        "low",
        "right",
        "right",
        "high",
        "unknown",
    ]
    total = 100 * GIB
    at = [zone("memory", memory_used_bytes=share * GIB, memory_total_bytes=total) for share in (39, 40, 95, 96)]
    assert at == ["low", "right", "right", "high"]
    assert [zone("power", sm_active=0.3, power_w=watts, power_limit_w=400.0) for watts in (249.0, 251.0)] == ["low", "right"]


@pytest.mark.parametrize("counter", ["sm_active", "tensor_active", "dram_bandwidth", None])
def test_power_says_idle_only_where_no_counter_says_work(counter: str | None) -> None:
    low = {"sm_active": 0.3, "tensor_active": 0.1, "dram_bandwidth": 0.1, "power_w": 401.0}
    power = next(one for one in zones_of(h100(**low | ({counter: 0.78} if counter else {}))) if one.name == "power")
    assert power.zone == ("right" if counter else "low")
    assert power.text == f"401 of 700 W: {'at work, far below its limit' if counter else 'as if idle, or waiting'}"


def test_without_counters_it_says_what_cannot_be_known(session: Session) -> None:
    device = DeviceSnapshot(
        index=0,
        state="ok",
        name="NVIDIA A100-SXM4-80GB",
        kernel_resident_fraction=1.0,
        memory_total_bytes=80 * GIB,
        memory_used_bytes=20 * GIB,
        power_w=210.0,
        power_limit_w=400.0,
        reasons={"sm_active_fraction": "SM, tensor and bandwidth counters need Hopper or newer"},
    )
    snapshots = [snapshot_of(second, device) for second in range(3)]
    (seen,) = observe(snapshots, session.gpus)
    one = sized(session, seen)
    assert one.judgement.limiter == "unknown"
    assert any("says nothing about how much of the GPU" in words for words in one.judgement.cannot_know)
    assert one.actions[0].kind == "benchmark"
    assert all(found.kind not in {"cheaper", "mig"} for found in one.actions)
    idle = [snapshot_of(second, msgspec.structs.replace(device, kernel_resident_fraction=0.0)) for second in range(3)]
    assert sized(session, observe(idle, session.gpus)[0]).judgement.limiter == "idle"


def test_links_are_as_busy_as_both_directions_of_the_busier_one(session: Session) -> None:
    part = session.gpus.find(H100)
    assert part.pcie_bytes_per_s
    assert part.nvlink_bytes_per_s
    device = DeviceSnapshot(
        index=0, uuid="a", state="ok", name=part.nvml_names[0], memory_total_bytes=part.usable_memory_bytes, sm_active_fraction=0.9,
        pcie_tx_bytes_per_s=0.1 * part.pcie_bytes_per_s, pcie_rx_bytes_per_s=0.2 * part.pcie_bytes_per_s,
        nvlink_tx_bytes_per_s=0.05 * part.nvlink_bytes_per_s, nvlink_rx_bytes_per_s=0.05 * part.nvlink_bytes_per_s,
    )  # fmt: skip
    (seen,) = observe([snapshot_of(second, device) for second in range(2)], session.gpus)
    assert seen.link_share == pytest.approx(0.3)
    (alone,) = observe([snapshot_of(0, msgspec.structs.replace(device, pcie_rx_bytes_per_s=None))], session.gpus)
    assert alone.link_share == pytest.approx(0.1)


def test_a_window_keeps_gpus_apart_counts_losses_and_takes_the_most_memory(session: Session) -> None:
    name = "NVIDIA H100 80GB HBM3"
    first = [
        DeviceSnapshot(index=0, uuid="a", state="ok", name=name, sm_active_fraction=share, memory_used_bytes=used * GIB)
        for share, used in ((0.2, 5.0), (0.4, 9.0), (None, 7.0))
    ]
    lost = DeviceSnapshot(index=1, uuid="b", state="lost", name=name)
    fine = DeviceSnapshot(index=1, uuid="b", state="ok", name=name, sm_active_fraction=0.0, event_reasons=("idle", "power cap"))
    seen = observe(
        [snapshot_of(n, one, two) for n, (one, two) in enumerate(zip(first, (lost, fine, fine), strict=True))], session.gpus
    )
    assert [one.index for one in seen] == [0, 1]
    assert seen[0].sm_active == pytest.approx(0.3)
    assert seen[0].busy == 1.0
    assert seen[0].memory_used_bytes == 9 * GIB
    assert (seen[1].readings, seen[1].lost, seen[1].busy) == (3, 1, 0.0)
    assert seen[1].held_back == {"power cap": 1.0}
    assert seen[0].seconds == 2.0
    assert observe([snapshot_of(0)], session.gpus) == []


# other hardware, checked by the engine


def test_with_a_preset_the_engine_checks_fit_and_throughput(session: Session) -> None:
    workload = session.presets.load("qwen3-8b-single-user-chat").workload
    seen = window(session, "bandwidth-bound-decode")
    from planner.workload.tasks import Request

    def rate(gpu: str, **changes: Any) -> float:
        stated = {name: getattr(workload, name) for name in type(workload).__struct_fields__} | changes
        (answer,) = session.estimate([Request(**stated, gpu=gpu, gpus=1)])
        assert not isinstance(answer, UserError)
        assert answer.fits
        assert answer.tokens_per_s is not None
        return answer.tokens_per_s.value

    one = sized(session, seen, workload=workload)
    price = cheapest(session, H100)
    batch = workload.batch or 1
    assert dollars(action(one, "batch")) == pytest.approx(price * (1 - rate(H100) / rate(H100, batch=2 * batch)) * 730)
    assert dollars(action(one, "quantise")) == pytest.approx(price * (1 - rate(H100) / rate(H100, weight_dtype="fp8")) * 730)
    slower = sized(session, seen, workload=workload, tokens_per_s=rate(H100) / 4)
    moved = action(slower, "cheaper")
    assert moved.gpu is not None
    assert cheapest(session, moved.gpu) < price
    assert rate(moved.gpu) >= rate(H100) / 4
    assert any(check.startswith("fits: ") for check in moved.checks)
    assert all(found.kind != "cheaper" for found in sized(session, seen, workload=workload, tokens_per_s=rate(H100) * 3).actions)


def test_a_preset_that_cannot_be_what_was_seen_is_said(session: Session) -> None:
    workload = session.presets.load("llama-3.1-405b-pretrain").workload
    advice = session.rightsize([window(session, "compute-bound-training")], workload=workload)
    assert any(note.startswith("The preset does not match what was observed") for note in advice.notes)
    assert advice.gpus[0].judgement.limiter == "compute"


def test_a_given_price_and_provider_are_used(session: Session) -> None:
    seen = window(session, "idle")
    given = sized(session, seen, usd_per_h=4.0)
    assert dollars(given.actions[0]) == pytest.approx(4 * 730)
    assert given.price is not None
    assert given.price.provider == "you"
    one = sized(session, seen, providers=["runpod"])
    assert one.price is not None
    assert one.price.provider == "runpod"
    with pytest.raises(UserError, match="not a known provider"):
        session.rightsize([seen], providers=["nobody"])
    with pytest.raises(UserError, match="Did you mean 'aws'"):
        session.rightsize([seen], providers=["amazon"])
    with pytest.raises(UserError, match="Did you mean 'gcp'"):
        session.plan(session.workload({"model": "gpt2-xl", "task": "serve", "providers": ["Google"]}))
    unknown = session.rightsize([h100(gpu="NVIDIA Graphics Device")])
    assert unknown.gpus[0].price is None
    assert "not in the catalogue" in unknown.notes[0]


# rent or buy


def test_break_even_by_hand() -> None:
    found = break_even(
        rent_usd_per_h=2.0, purchase_usd=30000.0, utilisation=0.5, power_w=400.0,
        owning=Owning(usd_per_kwh=0.25, hosting_usd_per_month=73.0, life_years=3.0), source="",
    )  # fmt: skip
    # running: 0.4 kW · 0.25 + 73 ÷ 730 = 0.2 $/h; gained 2 · 0.5 - 0.2 = 0.8 $/h; 30,000 ÷ 0.8 = 37,500 h of which half in use
    assert found.running_usd_per_h == pytest.approx(0.2)
    assert found.hours_in_use == pytest.approx(18750)
    assert found.months == pytest.approx(37500 / 730)
    assert found.least_utilisation == pytest.approx((30000 / 26280 + 0.2) / 2)
    never = break_even(
        rent_usd_per_h=2.0, purchase_usd=1.0, utilisation=0.1, power_w=400.0, owning=Owning(usd_per_kwh=0.5), source=""
    )
    assert never.hours_in_use is None
    assert never.months is None


@pytest.mark.parametrize(("share", "text"), [(0.87, "87 %"), (0.9949, "99 %"), (0.9951, "99.5 %"), (0.9999, "99.9 %")])
def test_a_share_that_can_be_exceeded_never_reads_as_all_of_the_time(share: float, text: str) -> None:
    price = (share * 2.0 - 0.4 * 0.25) * 3 * 8760
    owning = Owning(usd_per_kwh=0.25, life_years=3.0)
    found = break_even(rent_usd_per_h=2.0, purchase_usd=price, utilisation=1.0, power_w=400.0, owning=owning, source="")
    assert f"buying pays within 3 years above {text} use" in found.text


def test_break_even_uses_the_utilisation_and_power_observed(session: Session) -> None:
    seen = window(session, "compute-bound-training")
    one = sized(session, seen, usd_per_h=3.0, owning=Owning(usd_per_kwh=0.1))
    assert one.rent_or_buy is not None
    assert (one.rent_or_buy.utilisation, one.rent_or_buy.purchase_usd) == (1.0, 30000.0)
    assert one.rent_or_buy.hours_in_use == pytest.approx(30000 / (3.0 - (seen.power_w or 0) / 1000 * 0.1))
    assert "huggingface" in one.rent_or_buy.purchase_source


# the command line


def test_the_command_answers_in_text_and_json(run_planner: RunPlanner, tmp_path: Path) -> None:
    folders = ("--state", str(tmp_path), "--config", str(tmp_path))
    done = run_planner("rightsize", "--replay", str(WINDOWS / "launch-bound.jsonl"), *folders)
    assert done.returncode == 0, done.stderr
    assert "REPLAY launch-bound.jsonl" in done.stdout
    assert "waits for the host" in done.stdout
    assert "$/month" in done.stdout
    answer = run_planner("rightsize", "--replay", str(WINDOWS / "launch-bound.jsonl"), "--seconds", "10", "--json", *folders)
    advice = msgspec.json.decode(answer.stdout.encode(), type=Advice)
    assert advice.gpus[0].judgement.limiter == "launch/host"
    assert advice.gpus[0].observed.seconds == 10.0
    assert len(run_planner("rightsize", "--demo", "--json", *folders).stdout) > len(answer.stdout)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--demo", "--preset", "qwen3-8b-single-user-chatt"), 2, "qwen3-8b-single-user-chat"),
        (("--demo", "--provider", "run-pod"), 2, "runpod"),
        (("--demo", "--source", "http://x"), 2, "exclude each other"),
        (("--demo", "--prometheus", "http://x"), 2, "--prometheus excludes"),
        (("--match", "a=b"), 2, "needs --prometheus"),
        (("--seconds", "1", "--source", "http://127.0.0.1:9/metrics"), 2, "cannot be reached"),
    ],
)
def test_what_cannot_be_judged_is_said(run_planner: RunPlanner, options: tuple[str, ...], code: int, said: str) -> None:
    done = run_planner("rightsize", *options)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


@pytest.mark.process
def test_without_a_gpu_there_is_nothing_to_judge(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "planner", "rightsize", "--seconds", "60"],
        cwd=ROOT, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LD_LIBRARY_PATH": ""}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if "H100" not in done.stdout and "H200" not in done.stdout:
        assert done.returncode == 1
        assert "no GPU to judge" in done.stderr
