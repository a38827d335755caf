"""The GPU catalogue: every part found, every figure possible and sourced, every fault of a file named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from each_case import each_case

from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue, load_gpus, spellings
from planner.hardware.catalogue.spelling import Spelled, is_commonest, spelled
from planner.paths import presets_folder
from planner.units import GIB, MIB

# Labels of published measurements -> the part they mean.
PUBLISHED_LABELS = {
    "H100-SXM-80GB": "H100 SXM5 80GB",
    "H100 SXM": "H100 SXM5 80GB",
    "H100-80GB": "H100 SXM5 80GB",
    "H100-PCIe-80GB": "H100 PCIe",
    "H100-NVL-94GB": "H100 NVL",
    "H200-SXM-141GB": "H200 SXM",
    "H200-NVL-141GB": "H200 NVL",
    "H800-SXM-80GB": "H800 SXM",
    "H20-96GB": "H20",
    "A100-SXM-80GB": "A100 80GB SXM",
    "A100-80GB": "A100 80GB SXM",
    "A100-SXM-40GB": "A100 40GB SXM",
    "A100-40GB": "A100 40GB SXM",
    "A100-PCIe-80GB": "A100 80GB PCIe",
    "A100-PCIe-40GB": "A100 40GB PCIe",
    "A800-80GB": "A800 80GB SXM",
    "GH200-96GB": "GH200 96GB",
    "GH200-480GB (96GB HBM3)": "GH200 96GB",
    "GH200-144GB": "GH200 144GB",
    "B200": "B200 SXM",
    "B300": "B300 SXM",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX PRO 6000 Blackwell Server",
    "V100-16GB": "V100 SXM2 16GB",
    "V100-SXM-16GB": "V100 SXM2 16GB",
    "V100-SXM-32GB": "V100 SXM2 32GB",
    "RTX 3080": "RTX 3080 10GB",
    "RTX 4070 Ti Super": "RTX 4070 Ti SUPER",
    "GB10 (DGX Spark class)": "GB10 (DGX Spark)",
}
SAME_NAME = (
    *("A10", "A10G", "A30", "A40", "L4", "L40", "L40S", "T4", "GB200", "GB300", "MI300X", "MI325X", "MI355X", "RTX A6000"),
    *("RTX 3090", "RTX 3090 Ti", "RTX 4090", "RTX 4080", "RTX 4070 Ti", "RTX 5090", "RTX 6000 Ada", "RTX A4000", "RTX A5000"),
    "RTX PRO 6000 Blackwell Server",
)
TYPED = {
    "h100": "H100 SXM5 80GB",
    "A100 80GB": "A100 80GB SXM",
    "4090": "RTX 4090",
    "l40s": "L40S",
    "NVIDIA H100 80GB HBM3": "H100 SXM5 80GB",
    "NVIDIA A100-SXM4-80GB": "A100 80GB SXM",
    "NVIDIA H200": "H200 SXM",
    "Tesla T4": "T4",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "NVIDIA GH200 480GB": "GH200 96GB",
    "H100-SXM5-80GB": "H100 SXM5 80GB",
    "h100 sxm 80 GB HBM3": "H100 SXM5 80GB",
    "A100_SXM4_40GB": "A100 40GB SXM",
    "AMD Instinct MI300X OAM": "MI300X",
    "GeForce RTX 4090": "RTX 4090",
    "RTX4070TiSUPER": "RTX 4070 Ti SUPER",
    "RTX 4090D": "RTX 4090 D",
    "L40S-48GB": "L40S",
    "Tesla V100 PCIe 32GB": "V100 PCIe 32GB",
    "2080Ti": "RTX 2080 Ti",
    "Radeon RX 7900 XTX 24GB": "RX 7900 XTX",
    "Strix Halo": "Ryzen AI Max+ 395 (Strix Halo)",
    "H100SXM": "H100 SXM5 80GB",
    "h100sxm5": "H100 SXM5 80GB",
    "V100PCIe 32GB": "V100 PCIe 32GB",
    "Vera Rubin NVL72": "VR200",
    "R200": "VR200",
    "AMD Instinct MI455X": "MI455X",
    "MI450X": "MI455X",
    "Apple M2 Ultra": "Apple M2 Ultra 192GB",
}
FEWER_LANES = {"GB10 (DGX Spark)", "RTX 5060 Ti 16GB", "RTX 4060 Ti 16GB", "A2", "Arc B580", "Jetson AGX Orin 64GB"}
COMMONEST = {
    "A100": "A100 80GB SXM",
    "nvidia a100-pcie": "A100 80GB PCIe",
    "V100": "V100 SXM2 16GB",
    "Tesla P100": "P100 PCIe 16GB",
    "A800": "A800 80GB SXM",
    "RTX PRO 6000": "RTX PRO 6000 Blackwell Server",
    "GeForce RTX 3060": "RTX 3060 12GB",
    "Jetson AGX Orin": "Jetson AGX Orin 64GB",
    "M4 Max": "Apple M4 Max 128GB",
}


@pytest.fixture(scope="module")
def gpus() -> GpuCatalogue:
    return load_gpus(presets_folder() / "gpus")


def test_parts_that_no_ranking_has_are_read_when_a_name_is_not_among_the_others() -> None:
    folder = presets_folder() / "gpus"
    read: list[str] = []
    every = load_gpus(folder).all
    rare = [gpu for gpu in every if gpu.only_named]

    def read_rare() -> list[Gpu]:
        read.append("read")
        return rare

    catalogue = GpuCatalogue([gpu for gpu in every if not gpu.only_named], read_rare)
    assert catalogue.find("H100 SXM5 80GB").name == "H100 SXM5 80GB"
    assert not read
    assert catalogue.find("RTX 3070").only_named
    assert catalogue.find("rtx 3080 ti").only_named
    assert read == ["read"]
    assert load_gpus(folder / "only_named").names() == tuple(name for gpu in rare for name in spellings(gpu))


def test_all_parts_are_there(gpus: GpuCatalogue) -> None:
    assert len(gpus.all) >= 107
    assert {gpu.vendor for gpu in gpus.all} == {"NVIDIA", "AMD", "Intel", "Apple"}


@each_case("spelling, name", [*PUBLISHED_LABELS.items(), *TYPED.items(), *((same, same) for same in SAME_NAME)])
def test_spellings_people_use_name_one_part(gpus: GpuCatalogue, spelling: str, name: str) -> None:
    assert gpus.find(spelling).name == name
    assert gpus.find(f" {spelling.upper()} ").name == name


@pytest.mark.parametrize(("spelling", "name"), COMMONEST.items())
def test_a_name_of_several_parts_is_the_commonest_of_them(gpus: GpuCatalogue, spelling: str, name: str) -> None:
    assert gpus.find(spelling).name == name
    assert is_commonest(spelling, gpus.find(spelling))
    assert not is_commonest(name, gpus.find(name))


@pytest.mark.parametrize(
    "vague", ["RTX 6000", "H1", "", "sxm", "80GB", "A100 120GB", "RTX 4090 Laptop", "V100 NVL", "H100 3g.40gb 1g", "TPU v5e"]
)
def test_a_name_of_no_part_or_of_several_generations_is_no_name(gpus: GpuCatalogue, vague: str) -> None:
    with pytest.raises(UserError, match="is not a known GPU"):
        gpus.find(vague)


@pytest.mark.parametrize("given", ["8xH100", "8 × H100", "H100:8", "H100 x8", "8*h100"])
def test_a_number_beside_a_name_is_told_from_it(gpus: GpuCatalogue, given: str) -> None:
    with pytest.raises(UserError, match=r"is a number and a GPU: give '[Hh]100', and 8 as the number of GPUs\.$"):
        gpus.find(given)
    with pytest.raises(UserError, match="is not a known GPU"):
        gpus.find(given.casefold().replace("h100", "h9"))


def test_a_slice_is_found_by_any_spelling_of_its_gpu(gpus: GpuCatalogue) -> None:
    assert gpus.find("NVIDIA H100-SXM5-80GB 3g.40gb").name == "H100 SXM5 80GB 3g.40gb"
    assert gpus.find("Tesla V100-SXM2 16GB 1/4").name == "V100 SXM2 16GB 1/4"


def test_no_two_parts_are_spelled_alike(gpus: GpuCatalogue) -> None:
    """Signs and words that do not count tell no parts apart; names of several are of the one that they are taken for."""
    taken: dict[Spelled, str] = {}
    for gpu in gpus.all:
        for spelling in (*spellings(gpu), *gpu.commonest_of):
            alike = taken.setdefault(spelled(spelling), gpu.name)
            assert alike == gpu.name or spelling in {"NVIDIA A100 80GB", "NVIDIA A100 40GB"}, "a price list's words for PCIe"


def test_a_miss_suggests_the_parts_meant(gpus: GpuCatalogue) -> None:
    with pytest.raises(UserError) as caught:
        gpus.find("A100 30GB")
    assert set(caught.value.problems[0].nearest) == {"A100 80GB SXM", "A100 80GB PCIe", "A100 40GB SXM", "A100 40GB PCIe"}
    with pytest.raises(UserError, match="'RTX 4090'"):
        gpus.find("RTX 409O")
    for mistyped in ("4090ti", "H10", "A100SXM480GB"):
        near = gpus.nearest(mistyped)
        assert len({gpus.find(name).name for name in near}) == len(near) > 1, "each part once"


def test_driver_names_are_matched_exactly(gpus: GpuCatalogue) -> None:
    found = gpus.find_nvml("NVIDIA L4")
    assert found is not None
    assert found.name == "L4"
    assert gpus.find_nvml("L4") is None
    assert gpus.find_nvml("NVIDIA H100") is None


def test_no_spelling_is_written_twice(gpus: GpuCatalogue) -> None:
    for gpu in gpus.all:
        folded = [spelling.casefold() for spelling in (gpu.name, *gpu.aliases)]
        assert len(folded) == len(set(folded)), gpu.name


def test_figures_that_are_often_printed_wrong(gpus: GpuCatalogue) -> None:
    def rate(name: str, dtype: str) -> float | None:
        return gpus.find(name).compute_flop_per_s.get(dtype)

    assert rate("H100", "bf16") == 989.4e12
    assert rate("H100", "fp8") == 1978.9e12
    assert rate("H100 PCIe", "bf16") == 756.5e12
    assert rate("A100 80GB", "fp32") == 19.5e12
    assert rate("A100 80GB", "fp8") is None
    assert rate("A10G", "bf16") == 70e12
    assert rate("L40S", "bf16") == 362.05e12
    assert rate("RTX 4090", "bf16") == 165.2e12
    assert rate("RTX 4090", "fp8") == 330.3e12
    assert rate("T4", "bf16") is None
    assert rate("T4", "fp16") == 65e12
    assert rate("V100-16GB", "tf32") is None
    assert rate("RTX 2080 Ti", "fp16") == pytest.approx(53.8e12, rel=1e-3)
    assert rate("Titan RTX", "fp16") == pytest.approx(130.5e12, rel=1e-3)
    assert rate("MI100", "bf16") == pytest.approx(92.3e12, rel=1e-3)
    assert rate("K80", "fp16") is None
    assert gpus.find("RTX 3090").nvlink_bytes_per_s == 112.5e9
    assert gpus.find("RTX 4090").nvlink_bytes_per_s is None
    assert gpus.find("H800 SXM").nvlink_bytes_per_s == 400e9
    assert gpus.find("A10G").usable_memory_bytes == 22587 * MIB
    assert gpus.find("H100").memory_bytes == 80 * GIB
    usable = gpus.find("H100").usable_memory_bytes
    assert usable is not None
    assert usable / GIB == pytest.approx(79.19, abs=1e-6)


def test_figures_are_physically_possible(gpus: GpuCatalogue) -> None:
    for gpu in gpus.all:
        rates = gpu.compute_flop_per_s
        shared = (gpu.memory_type or "").endswith("(unified)")
        assert 8 * GIB <= gpu.memory_bytes <= (512 if shared else 432) * GIB, gpu.name
        assert (0.65 if shared else 0.9) < (gpu.usable_memory_bytes or gpu.memory_bytes) / gpu.memory_bytes <= 1, gpu.name
        assert 6e10 < gpu.memory_bandwidth_bytes_per_s < 3e13, gpu.name
        assert all(1e11 < rate < 5e16 for rate in rates.values()), gpu.name
        assert 30 <= (gpu.tdp_w or 100) <= 2500, gpu.name
        assert 5e8 < (gpu.boost_clock_hz or 1e9) < 3e9, gpu.name
        if gpu.pcie_generation is None:
            assert gpu.form_factor == "SoC" or "PCIe" in gpu.note, f"{gpu.name}: pcie_generation, or in note why it has none"
            assert gpu.pcie_bytes_per_s is None, gpu.name
        else:
            lanes = (gpu.pcie_bytes_per_s or 0) / {3: 2e9, 4: 4e9, 5: 8e9, 6: 16e9}[gpu.pcie_generation]
            assert lanes == 16 or (lanes in {4, 8} and gpu.name in FEWER_LANES), gpu.name
        assert (gpu.nvlink_bytes_per_s or 100e9) >= 100e9, gpu.name


def test_rates_are_dense_and_not_sparse(gpus: GpuCatalogue) -> None:
    """With sparsity a datasheet prints twice the rate: then FP8 would be 4 × BF16, as it is by design since 2026, or a clock would be impossible."""
    flop_per_clock_per_sm = {
        "Volta": 1024, "Turing": 1024, "Hopper": 4096, "Ada Lovelace": 1024, "Ampere": 2048, "Blackwell": 8192,
        "CDNA 2": 1024, "CDNA 3": 2048, "CDNA 4": 4096,
    }  # fmt: skip
    for gpu in gpus.all:
        rates = gpu.compute_flop_per_s
        if gpu.vendor != "Intel" and {"fp8", "bf16"} <= rates.keys():
            doubled = {"Rubin": 35 / 8, "CDNA 5": 4}.get(gpu.architecture, 2)
            assert rates["fp8"] / rates["bf16"] == pytest.approx(doubled, rel=0.03), gpu.name
        if gpu.architecture in flop_per_clock_per_sm and gpu.sm_count and gpu.boost_clock_hz:
            ceiling = flop_per_clock_per_sm[gpu.architecture] * gpu.sm_count * gpu.boost_clock_hz
            assert rates["fp16"] <= 1.01 * ceiling, gpu.name


def test_mig_slices_fit_their_part(gpus: GpuCatalogue) -> None:
    sliced = [gpu for gpu in gpus.all if gpu.mig]
    assert {gpu.name for gpu in sliced} >= {"A30", "A100 80GB SXM", "H100 SXM5 80GB", "H200 SXM", "B200 SXM"}
    for gpu in sliced:
        for profile in gpu.mig:
            found = re.fullmatch(r"([1-7])g\.(\d+)gb", profile.name)
            assert found, (gpu.name, profile.name)
            assert int(found[2]) * profile.count * GIB <= 1.03 * gpu.memory_bytes, (gpu.name, profile.name)
            assert int(found[1]) * profile.count <= 7


def test_everything_has_a_source(gpus: GpuCatalogue) -> None:
    for gpu in gpus.all:
        assert len(gpu.source) > 20, gpu.name
        assert gpu.retrieved.year >= 2026
        if gpu.usable_memory_bytes is not None:
            assert "usable_memory_bytes" in gpu.figure_sources, gpu.name
        if gpu.mig:
            assert "mig" in gpu.figure_sources, gpu.name
        if gpu.purchase is not None:
            assert gpu.purchase.source, gpu.name
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", gpu.purchase.as_of)
    assert sum(gpu.purchase is not None for gpu in gpus.all) >= 49


ENTRY = """
[[gpu]]
name = "{name}"
vendor = "V"
architecture = "A"
memory_bytes = 1e9
memory_bandwidth_bytes_per_s = 1e11
compute_flop_per_s = {{ bf16 = 1e12 }}
source = "datasheet"
retrieved = 2026-01-01
{more}
"""


def test_every_fault_of_every_file_is_named(tmp_path: Path) -> None:
    broken = ENTRY.format(name="X1", more='memory_bandwith_bytes_per_s = 1\ntdp_w = "70 W"\nconfidence = "hihg"\nretreived = 1')
    (tmp_path / "a.toml").write_text(broken.replace("memory_bytes = 1e9", "memory_bytes = -1"))
    (tmp_path / "b.toml").write_text(ENTRY.format(name="X2", more="").replace("bf16", "bf61"))
    (tmp_path / "c.toml").write_text("[[gpu]\n")
    with pytest.raises(UserError) as caught:
        load_gpus(tmp_path)
    text = str(caught.value)
    assert "gpu[X1].memory_bandwith_bytes_per_s: unknown key. Did you mean 'memory_bandwidth_bytes_per_s'" in text
    assert "gpu[X1].tdp_w: '70 W' is not accepted; it has to be a number" in text
    assert "gpu[X1].confidence: 'hihg' is not accepted" in text
    assert "Did you mean 'high'" in text
    assert "gpu[X1].retreived: unknown key" in text
    assert "gpu[X1].memory_bytes: -1 is not accepted; it has to be a number above 0" in text
    assert "gpu[X2].compute_flop_per_s.bf61: unknown dtype" in text
    assert "Did you mean 'bf16'" in text
    assert "c.toml: is not valid TOML" in text
    assert len(caught.value.problems) == 7
    assert {Path(problem.where).name for problem in caught.value.problems} == {"a.toml", "b.toml", "c.toml"}


def test_a_spelling_of_two_parts_names_both_files(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(ENTRY.format(name="X1", more='aliases = ["Common"]'))
    (tmp_path / "b.toml").write_text(ENTRY.format(name="X2", more='nvml_names = ["COMMON"]') + ENTRY.format(name="X2", more=""))
    with pytest.raises(UserError) as caught:
        load_gpus(tmp_path)
    first, second = caught.value.problems
    assert first.where.endswith("b.toml")
    assert "'X1'" in first.message
    assert "a.toml" in first.message
    assert "'X2' already names 'X2'" in second.message


def test_defaults_are_overlaid_key_by_key(tmp_path: Path) -> None:
    text = '[defaults]\nvendor = "D"\nfigure_sources = { tdp_w = "d", l2_bytes = "d" }\n' + ENTRY.format(
        name="X1", more='figure_sources = { l2_bytes = "own" }'
    )
    (tmp_path / "a.toml").write_text(text)
    gpu = load_gpus(tmp_path).find("x1")
    assert gpu.vendor == "V"
    assert gpu.figure_sources == {"tdp_w": "d", "l2_bytes": "own"}


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="contains no catalogue"):
        load_gpus(tmp_path)
