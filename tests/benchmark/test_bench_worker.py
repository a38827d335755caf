"""The worker alone: its messages, its arithmetic, and that nothing gets in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from bench import protocol
from bench.kinds.transformer import BATCH, CPU_SHAPE, GPU_SHAPE, SEQUENCE, SMOKE_SHAPE, Qwen3Shape

BENCH = Path(protocol.__file__).parent
POINT = protocol.Point(id="gemm/fp32/64x64x64", kind="gemm", label="GEMM", device="cpu", expected_s=1.0, cap_s=1.0)
RESULT = protocol.Result(
    point=POINT.id,
    kind="gemm",
    dtype="fp32",
    parameters={"m": 64},
    value=1e9,
    low=0.9e9,
    high=1.1e9,
    unit="FLOP/s",
    status="ok",
    samples_s=(0.25, 0.5),
    flop=524288.0,
)
MESSAGES: tuple[protocol.Message, ...] = (
    protocol.Hello(schema=1, method=1, pid=7, device="cpu", device_name="A CPU", machine={"cores": 2}, software={}, environment={}),
    protocol.Plan(suite="smoke", points=(POINT,)),
    protocol.Start(point=POINT.id),
    protocol.Progress(point=POINT.id, fraction=0.5, eta_s=2.0),
    RESULT,
    protocol.Skip(point=POINT.id, reason="too slow"),
    protocol.Error(name="NoTorch", message="no torch", point=None),
    protocol.Heartbeat(elapsed_s=1.0),
    protocol.Bye(reason="finished"),
)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.type)
def test_a_message_survives_the_wire(message: protocol.Message) -> None:
    line = protocol.encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert protocol.decode(line) == message


def test_a_stream_cut_anywhere_gives_the_same_messages() -> None:
    stream = b"".join(protocol.encode(message) for message in MESSAGES)
    for size in (1, 7, 100):
        lines = protocol.MessageReader()
        heard = [message for start in range(0, len(stream), size) for message in lines.feed(stream[start : start + size])]
        assert tuple(heard) == MESSAGES


def test_foreign_and_broken_lines_are_passed_over() -> None:
    newer = b'{"type": "start", "point": "p", "colour": "blue"}\n'
    stream = b'{"type": "telemetry"}\nnot json\n[1]\n{"type": "start"}\n\n' + newer + b'{"type": "by'
    assert list(protocol.MessageReader().feed(stream)) == [protocol.Start(point="p")]


def test_a_value_that_is_no_number_becomes_unknown() -> None:
    line = protocol.encode(protocol.Progress(point="p", fraction=float("nan"), eta_s=float("inf")))
    assert json.loads(line)["fraction"] is None


def test_a_fingerprint_names_machine_and_software_apart() -> None:
    machine, software = {"device": "A", "cores": 2}, {"torch": "2.13"}
    first = protocol.fingerprint(machine, software)
    assert first == protocol.fingerprint(dict(reversed(machine.items())), software)
    assert first.split("-")[0] == protocol.machine_key(machine) == protocol.fingerprint(machine, {"torch": "2.14"}).split("-")[0]
    assert first != protocol.fingerprint(machine, {"torch": "2.14"})
    assert protocol.hidden("GPU-ABC") == protocol.hidden("abc") != protocol.hidden("abd")


@pytest.mark.parametrize("shape", [CPU_SHAPE, GPU_SHAPE, SMOKE_SHAPE], ids=lambda shape: shape.name)
@pytest.mark.parametrize("tied", [True, False])
def test_the_formula_counts_what_torch_counts(torch: ModuleType, shape: Qwen3Shape, tied: bool) -> None:
    import dataclasses

    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from bench.kinds.training import Qwen3

    shape = dataclasses.replace(shape, tied=tied)
    with torch.device("meta"):
        model = Qwen3(shape)
        tokens = torch.randint(shape.vocabulary, (BATCH, SEQUENCE))
    assert sum(parameter.numel() for parameter in model.parameters()) == shape.parameters
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        logits = model(tokens)
        forward = counter.get_total_flops()
        logits.float().sum().backward()
    assert forward == shape.forward_flop(BATCH, SEQUENCE)
    assert counter.get_total_flops() == shape.step_flop(BATCH, SEQUENCE)
    attention = 3 * BATCH * SEQUENCE * 4 * shape.heads * shape.head_dim * SEQUENCE * shape.depth
    assert shape.step_flop(BATCH, SEQUENCE) - shape.causal_step_flop(BATCH, SEQUENCE) == attention / 2


def test_a_training_step_learns_and_looks_only_back(torch: ModuleType) -> None:
    from bench.kinds.training import Qwen3

    torch.manual_seed(0)
    model = Qwen3(SMOKE_SHAPE)
    tokens = torch.randint(SMOKE_SHAPE.vocabulary, (2, 32))
    before = model(tokens)
    changed = tokens.clone()
    changed[:, 20:] = 0
    after = model(changed)
    assert torch.allclose(before[:, :20], after[:, :20], atol=1e-5)
    assert not torch.allclose(before[:, 20:], after[:, 20:], atol=1e-3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(12):
        loss = torch.nn.functional.cross_entropy(model(tokens).view(-1, SMOKE_SHAPE.vocabulary), tokens.roll(-1, 1).view(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3


def test_the_interval_of_a_quantile_is_the_tabulated_one() -> None:
    from bench.timing import judge, quantile, quantile_interval

    # 95 % order-statistic ranks: n=10 -> 2nd and 9th, n=20 -> 6th and 15th, n=100 -> 40th and 61st (Conover, table A3)
    assert quantile_interval(range(1, 11)) == (2, 9)
    assert quantile_interval(range(1, 21)) == (6, 15)
    assert quantile_interval(range(1, 101)) == (40, 61)
    assert quantile_interval([3.0]) == (3.0, 3.0)
    assert quantile_interval([2.0, 1.0, 3.0]) == (1.0, 3.0)
    # of n=20 and the lower quartile: P(at most 1 below) = 0.0243, P(at most 8 below) = 0.9591, P(at most 9) = 0.9861
    assert quantile_interval(range(1, 21), 0.25) == (2, 10)
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.25) == 1.75
    assert judge([1.0] * 20)[0] == "ok"
    assert judge([1.0, 1.2] * 10)[0] == "noisy"
    assert judge([1.0, 2.0] * 10)[0] == "unstable"


def test_time_others_took_is_noticed() -> None:
    from bench.timing import CpuUse

    begin = CpuUse(0.0, 0.0, 0.0)
    assert CpuUse(1.0, 2.0, 0.1).crowding_since(begin, 2) == ""
    assert "waited 33%" in CpuUse(1.0, 1.2, 0.6).crowding_since(begin, 2)
    assert "50% of the time of 2 threads" in CpuUse(1.0, 1.0, None).crowding_since(begin, 2)
    assert CpuUse(1.0, 1.0, None).crowding_since(begin, 0) == ""


def test_a_machine_that_others_keep_busy_is_seen_though_no_thread_had_to_wait() -> None:
    from bench.timing import CpuUse

    begin = CpuUse(0.0, 0.0, 0.0, (100.0, 50.0))
    assert "they ran 45% of the machine's time" in CpuUse(1.0, 1.1, 0.0, (102.0, 50.0)).crowding_since(begin, 2)
    assert CpuUse(1.0, 1.9, 0.0, (102.0, 50.0)).crowding_since(begin, 2) == ""
    # 64 cores, half of them idle: others run, and are in nobody's way
    assert CpuUse(1.0, 1.9, 0.0, (132.0, 82.0)).crowding_since(begin, 2) == ""


def run_worker(
    tmp_path: Path, *arguments: str, before: str = ""
) -> tuple[list[dict[str, object]], subprocess.CompletedProcess[bytes]]:
    """Run the worker in `tmp_path`, its messages on a descriptor of their own; `before` is put into sitecustomize."""
    if before:
        (tmp_path / "sitecustomize.py").write_text(before)
    reading, writing = os.pipe()
    done = subprocess.run(
        [sys.executable, "-u", str(BENCH), "--suite", "smoke", "--device", "cpu", "--fd", str(writing), *arguments],
        pass_fds=[writing],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)} if before else None,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
        check=False,
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        return [json.loads(line) for line in stream], done


def test_a_heartbeat_that_comes_late_is_not_sent_after_the_end(tmp_path: Path) -> None:
    from bench.channel import Channel
    from bench.protocol import Bye, Heartbeat

    reading, writing = os.pipe()
    channel = Channel(writing, str(tmp_path / "journal"))
    for message in (Heartbeat(elapsed_s=1.0), Bye(reason="failed"), Heartbeat(elapsed_s=2.0)):
        channel.send(message)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        assert [json.loads(line)["type"] for line in stream] == ["heartbeat", "bye"]
    assert channel._journal is not None
    channel._journal.close()


@pytest.mark.usefixtures("torch_here")
def test_the_self_test_measures_three_points_under_python_as_a_folder(tmp_path: Path) -> None:
    (tmp_path / "timing.py").write_text("raise SystemExit('a module of the current folder was taken')")
    noise = """
import os, threading, time
def chatter():
    while os.fstat(1).st_ino != os.fstat(2).st_ino:  # the worker keeps its standard output for nobody
        time.sleep(0.01)
    print("library chatter", flush=True)
threading.Thread(target=chatter, daemon=True).start()
print('{"type":"bye"}')
"""
    journal = tmp_path / "journal.jsonl"
    said, done = run_worker(tmp_path, "--journal", str(journal), before=noise)
    assert done.returncode == 0
    kinds = [str(message["type"]) for message in said]
    assert [kind for kind in kinds if kind not in {"heartbeat", "progress"}] == ["hello", "plan", *["start", "result"] * 3, "bye"]
    assert b"library chatter" in done.stderr
    results = [message for message in said if message["type"] == "result"]
    assert [message["kind"] for message in results] == ["gemm", "copy", "train"]
    for result in results:
        low, value, high = (float(str(result[name])) for name in ("low", "value", "high"))
        assert 0 < low <= value <= high
    written = [json.loads(line) for line in journal.read_bytes().splitlines()]
    assert [message["type"] for message in written if message["type"] == "result"] == ["result"] * 3
    assert written[-1] == {"type": "bye", "reason": "finished"}
    assert_hello_tells_the_machine_and_nobody(next(message for message in said if message["type"] == "hello"), tmp_path)


def assert_hello_tells_the_machine_and_nobody(hello: dict[str, object], folder: Path) -> None:
    text = json.dumps(hello)
    for private in (os.uname().nodename, str(Path.home()), str(BENCH), str(folder)):
        assert len(private) < 4 or private not in text
    machine = hello["machine"]
    assert isinstance(machine, dict)
    assert machine["cores"] >= 1


@pytest.mark.measuring
@pytest.mark.usefixtures("torch_here")
def test_points_that_are_left_out_are_told(tmp_path: Path) -> None:
    said, _ = run_worker(tmp_path, "--skip", "gemm/fp32/128x128x128", "copy/memory", "train/qwen3-smoke/fp32/2x32")
    assert [message["type"] for message in said if message["type"] != "heartbeat"] == [
        "hello",
        "plan",
        "skip",
        "skip",
        "skip",
        "bye",
    ]


@pytest.mark.measuring
@pytest.mark.usefixtures("torch_here")
def test_a_device_that_is_not_there_is_an_answer(tmp_path: Path) -> None:
    said, done = run_worker(tmp_path, "--device", "cuda:99")
    assert done.returncode == 3
    error = next(message for message in said if message["type"] == "error")
    assert error["name"] == "NoDevice"
    assert said[-1] == {"type": "bye", "reason": "failed"}


@pytest.mark.measuring
@pytest.mark.usefixtures("torch_here")
def test_no_run_goes_on_without_bound(tmp_path: Path) -> None:
    said, done = run_worker(tmp_path, "--suite", "quick", "--wall-cap-s", "0.5")
    assert done.returncode == 0
    assert said[-1] == {"type": "bye", "reason": "wall-cap"}
    assert sum(message["type"] == "result" for message in said) < 6


@pytest.mark.measuring
@pytest.mark.usefixtures("torch_here")
def test_orders_come_on_standard_input() -> None:
    with subprocess.Popen(
        [sys.executable, "-u", str(BENCH), "--suite", "quick", "--device", "cpu"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        for line in worker.stdout:
            if json.loads(line)["type"] == "start":
                break
        worker.stdin.write(b"st")
        worker.stdin.flush()
        worker.stdin.write(b"op\n")
        worker.stdin.flush()
        *_, last = worker.stdout
    assert json.loads(last) == {"type": "bye", "reason": "stopped"}
    assert worker.returncode == 0
