"""Products of experts, in blocks of their own scale, of sparse weights, and pages of a cache: real where this machine has them."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from bench_sample import CPU, H100, a_point, bench_here  # noqa: E402  # it imports torch

from bench.points import UnsupportedError  # noqa: E402  # as above
from bench.products import grouped, matmul  # noqa: E402  # as above


@pytest.mark.parametrize("tokens", [1, 5])
def test_products_of_experts_are_those_of_each_alone(tokens: int) -> None:
    rows, weights, ends = grouped.grouped_operands("cpu", "fp32", 3, tokens, 16, 32)
    together = torch._grouped_mm(rows, weights, offs=ends)
    apart = torch.cat([part @ weight for part, weight in zip(rows.split(tokens), weights, strict=True)])
    torch.testing.assert_close(together, apart)
    here = grouped.measure_grouped(bench_here(), a_point("grouped"), "fp32", 3, tokens, 16, 32)
    assert (here.flop, here.bytes) == (2 * 3 * tokens * 16 * 32, 4 * 3 * (tokens * 32 + 32 * 16 + tokens * 16))


def test_an_mxfp8_product_is_what_torch_accepts_on_a_gpu() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert matmul.product("cuda", "mxfp8", 200, 48, 96)().shape == (200, 48)
    assert matmul.scale_count("mxfp8", 200, 96) == 2 * 128 * 4  # by hand: two tiles of 128 rows, 3 blocks of 32 padded to 4
    assert matmul.input_bytes("mxfp8") == 1.03125


def test_what_a_part_or_its_torch_has_not_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.kinds import attention

    here = bench_here()
    with pytest.raises(UnsupportedError, match="no units that skip zeros"):
        grouped.measure_sparse(here, a_point("gemm-sparse"), "bf16", 64, 64, 64)
    with pytest.raises(UnsupportedError, match="no paged attention on a CPU"):
        attention.measure_paged_attention(here, a_point("attention-paged"), "bf16", 1, 4, 2, 32, 256)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(UnsupportedError, match=r"2:4 sparse products need compute capability 8\.0"):
        grouped.refuse_unsparse(dataclasses.replace(H100, capability=(7, 5)))
    with pytest.raises(UnsupportedError, match=r"mxfp8 needs compute capability 10\.0"):
        matmul.refuse_unsupported(H100, "mxfp8")
    monkeypatch.delattr(torch, "_grouped_mm")
    with pytest.raises(UnsupportedError, match="torch refuses grouped products here"):
        grouped.measure_grouped(here, a_point("grouped"), "fp32", 2, 2, 16, 16)


def test_a_torch_without_pages_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.nn.attention import varlen

    from bench.kinds import attention

    def older(query: object, key: object, value: object, *rest: object, enable_gqa: bool = False) -> None:
        """The function as PyTorch had it before 2.12."""

    here = dataclasses.replace(bench_here(), device=H100)
    monkeypatch.setattr(varlen, "varlen_attn", older)
    monkeypatch.setattr(attention, "refuse_unsupported", lambda *_: None)
    with FakeTensorMode(), pytest.raises(UnsupportedError, match=r"torch refuses a paged cache here: .* unexpected keyword"):
        attention.measure_paged_attention(here, a_point("attention-paged"), "bf16", 2, 4, 2, 32, 512)


def test_a_gpu_of_amd_is_measured_in_its_own_types_behind_its_own_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.machine import environment

    def properties(architecture: str) -> object:
        return SimpleNamespace(gcnArchName=architecture, L2_cache_size=4 * 2**20)

    assert environment.amd_architecture("cuda:0") == ""  # this torch is NVIDIA's or none's
    monkeypatch.setattr(torch.version, "hip", "7.2.53211", raising=False)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties("gfx942:sramecc+:xnack-"))
    assert matmul.eight_bit(environment.amd_architecture("cuda:0")) is torch.float8_e4m3fnuz
    assert environment.last_cache_bytes("cuda:0") == 256 * 2**20
    assert environment.software_parts(CPU)["hip"] == "7.2"
    amd = dataclasses.replace(bench_here(), device=dataclasses.replace(H100, capability=None))
    monkeypatch.setattr(matmul, "refuse_unsupported", lambda *_: None)
    with pytest.raises(UnsupportedError, match="AMD's units add up in fp32 alone"):
        matmul.measure_gemm(amd, a_point("gemm"), "fp8", 64, 64, 64, fast=True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties("gfx1201"))
    assert matmul.eight_bit(environment.amd_architecture("cuda:0")) is torch.float8_e4m3fn
    assert environment.last_cache_bytes("cuda:0") == 4 * 2**20
