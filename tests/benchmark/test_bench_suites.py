"""The standard suite: its plan, its arithmetic, its rounds, and every kind of point for real on this machine's CPU."""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench import protocol
from planner.hardware.measurements.measurement import UNITS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from bench_sample import CPU, H100, a_point, bench_here  # noqa: E402  # it imports torch

from bench import study, suite  # noqa: E402  # they import torch
from bench.kinds import variants  # noqa: E402  # they import torch
from bench.kinds.transformer import QWEN3_06B, QWEN3_8B, SMOKE_SHAPE  # noqa: E402  # they import torch
from bench.machine.environment import Device  # noqa: E402  # they import torch
from bench.points import Bench, UnsupportedError  # noqa: E402  # they import torch
from bench.products import grouped, matmul  # noqa: E402  # they import torch
from bench.protocol import Result  # noqa: E402  # they import torch
from bench.rounds import Rounds, combined  # noqa: E402  # they import torch
from bench.timing import LOWER_QUARTILE, quantile  # noqa: E402  # they import torch

BENCH = Path(protocol.__file__).parent
L4 = Device("cuda:0", "NVIDIA L4", 12e9, 48 * 2.0**20, 1, capability=(8, 9))


@pytest.mark.parametrize("device", [CPU, H100, L4], ids=lambda device: device.name)
@pytest.mark.parametrize("name", ["quick", "standard"])
def test_a_plan_is_stable_bounded_and_of_known_kinds(device: Device, name: str) -> None:
    options = suite.SuiteOptions(shapes=((2048, 3072, 1024), (16, 3072, 1024)), ranks=2)
    jobs = suite.jobs(name, device, options)
    points = [job.point for job in jobs]
    assert [point.id for point in points] == [job.point.id for job in suite.jobs(name, device, options)]
    assert {point.kind for point in points} <= set(UNITS)
    longest = sum(point.expected_s for point in points) + suite.SOAK_S[name] * (not device.is_cpu)
    assert longest < {"quick": 90.0 if not device.is_cpu else 60.0, "standard": 600.0}[name]
    assert suite.WALL_CAP_S["standard"] == 600
    assert {"gemm/bf16/2048x3072x1024", "gemm/bf16/16x3072x1024"} <= {point.id for point in points}
    if name == "standard":
        rounds = [sum(one.id == point.id for one in points) for point in points if point.id.startswith("gemm/bf16/8192x8192x8192")]
        assert rounds in ([], [3, 3, 3])
        assert points[-1].kind == "train-compiled"
        kinds = {point.kind for point in points}
        assert kinds == set(UNITS) - {"fault"} - ({"transfer", "attention-paged", "gemm-sparse"} if device.is_cpu else set())
        assert sum(point.kind == "collective" for point in points) == 4


def test_a_cpu_that_others_share_is_measured_in_two_rounds() -> None:
    names = [job.point.id for job in suite.jobs("quick", CPU)]
    half = len(names) // 2
    assert names[:half] == names[half:]
    assert len(set(names)) == half
    assert set(Counter(job.point.id for job in suite.jobs("quick", H100)).values()) == {1}


def test_a_small_gpu_is_not_asked_for_a_large_model() -> None:
    names = {job.point.id for job in suite.jobs("standard", L4)}
    assert not any("qwen3-8b" in name for name in names)
    assert any("qwen3-8b" in job.point.id for job in suite.jobs("standard", H100))
    assert not any(job.point.kind == "collective" for job in suite.jobs("standard", H100))


def test_published_sizes_are_those_of_their_models() -> None:
    assert QWEN3_8B.parameters == 8_190_735_360
    assert QWEN3_06B.parameters == 596_049_920


def result(point: str, seconds: tuple[float, ...], **changes: Any) -> Result:
    middle = sorted(seconds)[len(seconds) // 2]
    base = Result(
        point=point,
        kind="gemm",
        dtype="bf16",
        parameters={"m": 1},
        value=100.0 / middle,
        low=100.0 / max(seconds),
        high=100.0 / min(seconds),
        unit="FLOP/s",
        status="ok",
        samples_s=seconds,
        flop=100.0,
    )
    return dataclasses.replace(base, **changes)


def test_rounds_add_up_and_drift_is_said() -> None:
    rounds = Rounds(["a", "b", "a", "a"])
    first = rounds.add(result("a", (1.0, 1.0, 1.0)))
    assert (first.round, first.rounds, first.value) == (1, 3, 100.0)
    assert rounds.add(result("b", (1.0,))).rounds == 1
    second = rounds.add(result("a", (1.06, 1.06, 1.06)))
    assert second.samples_s == (1.0, 1.0, 1.0, 1.06, 1.06, 1.06)
    assert second.value == pytest.approx(100 / 1.03)
    assert second.parameters["drift"] == 0.06
    assert second.status == "ok"
    assert "2 rounds differ by 6%" in second.detail
    (cut,) = rounds.unfinished()
    assert (cut.round, cut.rounds, cut.value) == (2, 2, second.value)
    last = rounds.add(result("a", (1.2, 1.2, 1.2)))
    assert (last.round, last.status) == (3, "noisy")
    assert rounds.unfinished() == []


def test_a_disturbed_round_is_left_out_where_others_are_sound() -> None:
    sound, shared = result("a", (1.0, 1.0)), result("a", (9.0, 9.0), status="shared", detail="others")
    assert combined([sound, shared, sound]).value == 100.0
    assert combined([sound, shared, sound]).status == "ok"
    both = combined([shared, shared])
    assert (both.status, both.detail) == ("shared", "others")
    seconds = result("launch", (2.0, 2.0), unit="s", value=2.0)
    assert combined([seconds, dataclasses.replace(seconds, samples_s=(4.0, 4.0))]).value == 3.0
    slower = result("a", (2.0, 4.0), value=100 / 2.5)  # its own lower quartile is 2.5
    assert combined([dataclasses.replace(slower, samples_s=(1.0, 2.0)), slower], 0.25).value == pytest.approx(100 / 1.75)
    failed = dataclasses.replace(shared, point="x", samples_s=(), value=None, low=None, high=None, status="unsupported")
    rounds = Rounds(["x", "x"])
    rounds.add(failed)
    assert rounds.gave_nothing("x")
    assert not rounds.gave_nothing("a")


def test_networks_are_counted_as_torch_counts() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    for network, inputs, flop in (
        (variants.perceptron(64, 3), torch.randn(8, 64), variants.perceptron_flop(64, 3, 8)),
        (variants.convolutional(8), torch.randn(2, 3, 32, 32), variants.convolutional_flop(8, 32, 2)),
    ):
        with FlopCounterMode(display=False) as counter:
            network(inputs).sum().backward()
        assert counter.get_total_flops() == flop


def test_adapters_train_alone_and_are_counted() -> None:
    from bench.kinds.training import Qwen3

    model = variants.with_adapters(Qwen3(SMOKE_SHAPE))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert sum(parameter.numel() for parameter in trained) == variants.adapter_parameters(SMOKE_SHAPE)
    frozen = model.layers[0].gate.frozen.weight.clone()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randint(SMOKE_SHAPE.vocabulary, (2, 16))).float().square().mean()
    loss.backward()
    assert model.layers[0].gate.frozen.weight.grad is None
    assert any(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in trained)
    assert torch.equal(model.layers[0].gate.frozen.weight, frozen)


def test_a_step_of_adapters_is_counted_as_torch_counts() -> None:
    """But for the gradients of what goes into the first layer, which nothing needs."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from bench.kinds.training import Qwen3

    shape, batch, sequence = SMOKE_SHAPE, 2, 16
    with torch.device("meta"):
        model = variants.with_adapters(Qwen3(shape)).float()
        tokens = torch.randint(shape.vocabulary, (batch, sequence))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(tokens).sum().backward()
    projected = (shape.heads + 2 * shape.kv_heads) * shape.head_dim + 3 * variants.RANK
    unneeded = 2 * batch * sequence * shape.width * projected
    assert counter.get_total_flops() == variants.adapter_step_flop(shape, batch, sequence) - unneeded


def test_generating_with_a_cache_gives_what_the_whole_prompt_gives() -> None:
    from bench.kinds.inference import _decode_layer, prompt_pass, serving_model
    from bench.kinds.training import rotary

    torch.manual_seed(1)
    model = serving_model(SMOKE_SHAPE, "cpu", "fp32")
    tokens = torch.randint(SMOKE_SHAPE.vocabulary, (2, 9))
    with torch.inference_mode():
        wanted = prompt_pass(model, tokens)
        shape = SMOKE_SHAPE
        keys, values = (torch.zeros(shape.depth, 2, shape.kv_heads, 9, shape.head_dim) for _ in range(2))
        cosine, sine = rotary(9, shape.head_dim, "cpu")
        for place in range(9):
            x = model.embedding(tokens[:, place : place + 1])
            for number, layer in enumerate(model.layers):
                here = slice(place, place + 1)
                kept = (keys[number][:, :, : place + 1], values[number][:, :, : place + 1])
                x = _decode_layer(layer, x, cosine[here], sine[here], *kept, torch.tensor([place]))
        assert torch.equal(model.head(model.norm(x)).argmax(dim=-1), wanted)


def test_a_step_that_cannot_fit_is_not_planned() -> None:
    options = study.StudyOptions(axis="width")
    every = study.steps(options, on_cpu=False, memory_bytes=1e15)
    assert [step.shape.width for step in every] == list(study.GPU_WIDTHS)
    first = every[0]
    logits, layers = 1024 * 151936 * 16, 1024 * 60 * 1024 * 5  # bytes of 1024 tokens
    assert first.needs_bytes == 18 * first.shape.parameters + logits + layers
    assert first not in study.steps(options, on_cpu=False, memory_bytes=first.needs_bytes - 1)
    fitting = study.steps(options, on_cpu=False, memory_bytes=first.needs_bytes)
    assert fitting[0] == first
    assert all(step.needs_bytes <= first.needs_bytes for step in fitting)


def test_what_a_call_computes_and_moves_is_as_by_hand() -> None:
    from bench.kinds import attention, bandwidth, inference

    here = bench_here()
    dtype, layers, vocabulary, width = "fp32", SMOKE_SHAPE.depth, SMOKE_SHAPE.vocabulary, SMOKE_SHAPE.width
    matrices = layers * SMOKE_SHAPE.layer_matrix_parameters + vocabulary * width
    scores = 4 * SMOKE_SHAPE.heads * SMOKE_SHAPE.head_dim * 32 * layers  # of one token over 32
    prompt = 32 * (2 * matrices + scores) - 31 * 2 * vocabulary * width  # logits of the last token alone
    cache = 2 * 2 * 32 * layers * SMOKE_SHAPE.kv_heads * SMOKE_SHAPE.head_dim
    for measured, flop, moved in (
        (matmul.measure_gemm(here, a_point("gemm"), dtype, 32, 48, 64), 2 * 32 * 48 * 64, 4 * (32 * 64 + 64 * 48 + 32 * 48)),
        (bandwidth.measure_gemv(here, a_point("gemv"), dtype, 48, 64), 2 * 48 * 64, 4 * 48 * 64),
        (bandwidth.measure_copy(here, a_point("copy"), 2**20), None, 2**20),
        (bandwidth.measure_triad(here, a_point("triad"), 3 * 2**20), None, 3 * 2**20),
        (bandwidth.measure_read(here, a_point("read"), 2**20), None, 2**20),
        (
            attention.measure_prefill_attention(here, a_point("attention"), dtype, 1, 4, 2, 32, 64),
            2 * 4 * 32 * 64**2,  # half of the square
            4 * 64 * 32 * (2 * 4 + 2 * 2),
        ),
        (
            attention.measure_decode_attention(here, a_point("attention-decode"), dtype, 2, 4, 2, 32, 64),
            4 * 2 * 4 * 32 * 64,
            4 * 2 * 2 * 2 * 64 * 32,
        ),
        (inference.measure_prefill(here, a_point("prefill"), SMOKE_SHAPE, dtype, 1, 32), prompt, None),
        (
            inference.measure_decode(here, a_point("decode"), SMOKE_SHAPE, dtype, 2, 32),
            (2 * (2 * matrices + scores)) / 2,
            4 * (matrices + cache) / 2,
        ),
    ):
        assert measured.flop == flop, measured.kind
        assert measured.bytes == moved, measured.kind
        amount = {"FLOP/s": flop, "B/s": moved, "token/s": 2}[measured.unit]
        assert amount is not None
        assert measured.value == pytest.approx(amount / quantile(measured.samples_s, LOWER_QUARTILE), rel=1e-4), measured.kind


def test_an_operator_is_a_share_of_the_sample_it_is_launched_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.kinds import overheads
    from bench.timing import Timing

    monkeypatch.setattr(Bench, "time", lambda *_, **__: Timing((0.2, 0.4), 0.3, 0.2, 0.4, 0.0, "ok", ""))
    operator = overheads.measure_eager(bench_here(), a_point("launch"))
    assert overheads.OPERATORS == 200
    assert (operator.value, operator.low, operator.high) == pytest.approx((0.3 / 200, 0.2 / 200, 0.4 / 200))
    assert operator.samples_s == pytest.approx((0.2 / 200, 0.4 / 200))


def test_data_that_fits_the_cache_twice_is_warm() -> None:
    from bench.kinds.bandwidth import cache_state

    here = dataclasses.replace(bench_here(), device=dataclasses.replace(CPU, cache_bytes=2.0**20))
    assert [cache_state(here, size) for size in (2**21 - 1, 2**21)] == ["warm", "cold"]


def test_each_kind_of_point_measures_here() -> None:
    from bench.kinds import attention, bandwidth, inference, overheads

    here = bench_here()
    dtype = "fp32"
    done = [
        bandwidth.measure_triad(here, a_point("triad"), 2**22),
        bandwidth.measure_read(here, a_point("read"), 2**22),
        attention.measure_prefill_attention(here, a_point("attention"), dtype, 1, 4, 2, 32, 64),
        attention.measure_decode_attention(here, a_point("attention-decode"), dtype, 2, 4, 2, 32, 64),
        inference.measure_prefill(here, a_point("prefill"), SMOKE_SHAPE, dtype, 1, 32),
        inference.measure_decode(here, a_point("decode"), SMOKE_SHAPE, dtype, 2, 32),
        variants.measure_perceptron(here, a_point("network"), dtype, 64, 2, 8),
        variants.measure_convolutional(here, a_point("network"), dtype, 8, 16, 2),
        overheads.measure_context(here, a_point("memory")),
        grouped.measure_grouped(here, a_point("grouped"), "fp32", 4, 3, 16, 32),
    ]
    for one in done:
        assert one.unit == UNITS[one.kind], one.kind
        assert one.value is not None
        assert one.low is not None
        assert one.high is not None
        assert 0 < one.low <= one.value <= one.high, one.kind
        assert one.kind == "memory" or one.spread is not None
    decode = next(one for one in done if one.kind == "decode")
    assert decode.bytes is not None
    assert decode.value is not None
    assert decode.bytes * decode.value == pytest.approx(decode.parameters["bytes_per_s"])
    assert decode.parameters["step_bytes"] == 4 * (
        SMOKE_SHAPE.depth * SMOKE_SHAPE.layer_matrix_parameters + 512 * 64 + 2 * 2 * 32 * SMOKE_SHAPE.depth * 1 * 32
    )
    with pytest.raises(UnsupportedError):
        overheads.measure_slack(here, a_point("memory"), 1, 8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=[pytest.mark.process, pytest.mark.measuring])])
def test_compiling_is_timed_apart_or_refused_with_its_reason(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    """The first traces the step forwards and backwards, as the usual backend does, and leaves out the half minute of its C++ compiler."""
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")  # a pool of compiling processes takes longer to start than it saves
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend=backend))
    shape = dataclasses.replace(SMOKE_SHAPE, depth=1)
    try:
        found = variants.measure_compiled(bench_here(), a_point("train-compiled"), shape, "fp32", 1, 16)
    except UnsupportedError as refused:
        assert "torch.compile fails here: " in str(refused)  # noqa: PT017  # either outcome is right
        return
    assert found.parameters["compiled"] is True
    assert found.parameters["compile_s"] > 0
    assert found.value is not None


def test_others_on_the_gpu_before_the_run_make_every_figure_shared() -> None:
    here = bench_here()
    here.crowded = "another program kept the GPU busy"
    timed = here.time(lambda: sum(range(1000)), 0.1)
    assert (timed.status, timed.detail) == ("shared", "another program kept the GPU busy")


def test_fp4_is_measured_where_the_device_has_it_and_refused_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    b200 = Device("cuda:0", "NVIDIA B200", 180e9, 126 * 2.0**20, 1, capability=(10, 0))
    assert "gemm/fp4/8192x8192x8192" in {job.point.id for job in suite.jobs("quick", b200)}
    with pytest.raises(UnsupportedError, match="this CPU has no fp4"):
        matmul.refuse_unsupported(CPU, "fp4")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(UnsupportedError, match=r"fp4 needs compute capability 10\.0, this GPU has 9\.0"):
        matmul.refuse_unsupported(H100, "fp4")


@pytest.mark.parametrize(("m", "n", "k"), [(8192, 8192, 8192), (128, 128, 128), (200, 48, 96)])
def test_an_fp4_product_is_what_torch_accepts_on_a_gpu(m: int, n: int, k: int) -> None:
    """Torch's own check of a CUDA product, on tensors without data: shapes, strides and the number of scales."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        out = matmul.product("cuda", "fp4", m, n, k)()
    assert out.shape == (m, n)
    assert out.dtype == torch.bfloat16
    # by hand: 200 rows take two tiles of 128, 96 elements are 6 blocks of 16, padded to 8
    assert matmul.scale_count("fp4", 200, 96) == 2 * 128 * 8
    assert matmul.input_bytes("fp4") == 0.5625


def test_an_fp4_product_with_scales_too_few_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    monkeypatch.setattr(matmul, "scale_count", lambda _, rows, k: rows * k // 16 - 1)
    with FakeTensorMode(), pytest.raises(RuntimeError, match="scale_a should have 1024 elements"):
        matmul.product("cuda", "fp4", 128, 128, 128)()
