"""This machine as a device: instruction sets, cores, limits, names, read from files like those of real systems."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from planner.errors import UserError
from planner.hardware.catalogue.gpus import Gpu, GpuCatalogue, load_gpus
from planner.observe import host
from planner.observe.cpu import clock_hz, flop_per_cycle, last_level_cache_bytes, read_cpu, usable_cores
from planner.observe.driver.helper import cuda_ordinals
from planner.observe.driver.messages import GpuFacts
from planner.observe.host import cpu_name
from planner.observe.machine import LocalGpu, Machine, match_gpu, read_machine
from planner.paths import presets_folder

XEON_FLAGS = "fpu sse2 avx fma avx2 avx512f avx512_bf16 avx512_vnni avx512_fp16 amx_bf16 amx_tile amx_int8"


def system(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def x86_cpuinfo(
    cores: int, threads_per_core: int, flags: str = XEON_FLAGS, model: str = "Intel(R)  Xeon(R) Platinum 8480+", mhz: float = 2000.0
) -> str:
    return "\n".join(
        f"processor\t: {core + thread * cores}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel name\t: {model}\ncpu MHz\t\t: {mhz}\n"
        f"physical id\t: 0\nsiblings\t: {cores * threads_per_core}\ncore id\t\t: {core}\nflags\t\t: {flags}\n"
        for thread in range(threads_per_core)
        for core in range(cores)
    )


MEMINFO = "MemTotal:       67108864 kB\nMemFree:        1000000 kB\nMemAvailable:   33554432 kB\n"


def test_a_server_cpu_counts_cores_not_threads(tmp_path: Path) -> None:
    root = system(tmp_path, {"proc/cpuinfo": x86_cpuinfo(4, 2), "proc/meminfo": MEMINFO})
    cpu = read_cpu(root, allowed=frozenset(range(8)))
    assert cpu.name == "Intel(R) Xeon(R) Platinum 8480+"
    assert cpu.kind == "cpu"
    assert cpu.sm_count == 4
    assert cpu.memory_bytes == 64 * 2**30
    assert cpu.compute_flop_per_s == {"bf16": 4 * 2e9 * 2048, "fp16": 4 * 2e9 * 128, "fp32": 4 * 2e9 * 64, "int8": 4 * 2e9 * 4096}
    assert cpu.memory_bandwidth_bytes_per_s == 51.2e9
    assert cpu.confidence == "low"
    assert "bandwidth assumed" in cpu.note


def test_only_the_cpus_this_process_may_use_count(tmp_path: Path) -> None:
    root = system(tmp_path, {"proc/cpuinfo": x86_cpuinfo(4, 2), "proc/meminfo": MEMINFO})
    assert read_cpu(root, allowed=frozenset({0, 4})).sm_count == 1  # both threads of core 0
    assert read_cpu(root, allowed=frozenset({0, 1, 5})).sm_count == 2


def test_control_groups_limit_cores_and_memory(tmp_path: Path) -> None:
    limits = {
        "proc/cpuinfo": x86_cpuinfo(8, 1),
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/pod/box\n",
        "sys/fs/cgroup/pod/cpu.max": "250000 100000\n",
        "sys/fs/cgroup/pod/box/cpu.max": "400000 100000\n",
        "sys/fs/cgroup/pod/box/memory.max": str(8 * 2**30),
        "sys/fs/cgroup/pod/memory.max": "max\n",
    }
    root = system(tmp_path, limits)
    cpu = read_cpu(root, allowed=frozenset(range(8)))
    assert cpu.memory_bytes == 8 * 2**30
    assert cpu.compute_flop_per_s["fp32"] == 2.5 * 2e9 * 64
    assert "allows 2.5" in cpu.note
    assert "memory limited" in cpu.note


def test_the_older_control_groups_count_too(tmp_path: Path) -> None:
    limits = {
        "proc/self/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box\n",
        "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "150000",
        "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "1073741824",
    }
    root = system(tmp_path, limits)
    assert host.cgroup_cpu_quota(root) == 1.5
    assert host.cgroup_memory_limit_bytes(root) == 2**30
    (root / "sys/fs/cgroup/memory/box/memory.limit_in_bytes").unlink()
    assert host.cgroup_memory_limit_bytes(root) is None  # of the other, near 2^63, the kernel means none


def test_waiting_for_a_disk_is_idle_and_time_taken_by_a_hypervisor_is_busy(tmp_path: Path) -> None:
    #                                               user nice system idle iowait irq softirq steal guest
    root = system(tmp_path, {"proc/stat": "cpu  100 10 50 700 40 5 5 90 60 0\ncpu0 1 1 1 1\n"})
    assert host.busy_time(root) == host.BusyTime(total_ticks=1000, busy_ticks=260)


@pytest.mark.parametrize(
    ("flags", "fp32", "bf16"),
    [
        ("sse2", 8, None),
        ("sse2 avx", 16, None),
        ("sse2 avx avx2 fma", 32, None),
        ("avx2 fma avx512f", 64, None),
        ("avx2 fma avx512f avx512_bf16", 64, 128),
        ("avx2 fma avx512f avx512_bf16 amx_bf16", 64, 2048),
        ("fp asimd", 16, None),
        ("fp asimd asimdhp bf16", 16, 64),
        ("", None, None),
    ],
)
def test_operations_per_cycle_follow_the_instruction_set(flags: str, fp32: float | None, bf16: float | None) -> None:
    rates = flop_per_cycle(frozenset(flags.split()))
    assert rates.get("fp32") == fp32
    assert rates.get("bf16") == bf16


@pytest.mark.parametrize(
    ("flags", "int8"),
    [("avx2 fma", None), ("avx2 fma avx_vnni", 128), ("avx512f avx512_vnni", 256), ("avx512f amx_int8", 4096), ("asimd i8mm", 128)],
)
def test_whole_numbers_of_a_byte_have_rates_where_there_are_instructions(flags: str, int8: float | None) -> None:
    assert flop_per_cycle(frozenset(flags.split())).get("int8") == int8


def test_zen_4_runs_wide_instructions_on_narrow_pipes() -> None:
    flags = frozenset(["avx2", "fma", "avx512f", "avx512_bf16"])
    assert flop_per_cycle(flags, vendor="AuthenticAMD", family=25) == {"fp32": 32, "bf16": 64}
    assert flop_per_cycle(flags, vendor="AuthenticAMD", family=26)["fp32"] == 64


def test_arm_has_a_name_and_says_that_its_clock_is_assumed(tmp_path: Path) -> None:
    block = "processor\t: {}\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd asimdhp bf16 i8mm sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
    root = system(tmp_path, {"proc/cpuinfo": "\n".join(block.format(number) for number in range(4)), "proc/meminfo": MEMINFO})
    assert cpu_name(root) == "Neoverse-V1"
    cpu = read_cpu(root, allowed=frozenset(range(4)))
    assert cpu.compute_flop_per_s["fp32"] == 4 * 2.5e9 * 32
    assert "clock assumed" in cpu.note
    assert cpu.boost_clock_hz is None


def test_the_clock_prefers_the_highest_the_system_names(tmp_path: Path) -> None:
    root = system(tmp_path, {"proc/cpuinfo": x86_cpuinfo(1, 1, model="Intel(R) Core(TM) i7 CPU @ 3.40GHz", mhz=0.0)})
    listed = host.processors(root)
    assert clock_hz(listed, root)[0] == 3.4e9
    system(tmp_path, {"sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "5200000\n"})
    assert clock_hz(listed, root)[0] == 5.2e9


def test_the_last_level_cache_is_the_highest_level(tmp_path: Path) -> None:
    cache = "sys/devices/system/cpu/cpu0/cache/index"
    sizes = {"0": ("1", "48K"), "2": ("2", "2048K"), "3": ("3", "105M")}
    for index, (level, size) in sizes.items():
        system(tmp_path, {f"{cache}{index}/level": level, f"{cache}{index}/size": size})
    assert last_level_cache_bytes(tmp_path) == 105 * 2**20
    assert last_level_cache_bytes(tmp_path / "elsewhere") is None


def test_an_empty_system_still_has_a_cpu(tmp_path: Path) -> None:
    cpu = read_cpu(tmp_path, allowed=frozenset({0, 1}))
    assert cpu.name
    assert cpu.sm_count == 2
    assert "clock assumed" in cpu.note
    assert usable_cores((), None, None).usable == (os.cpu_count() or 1)
    assert host.busy_time(tmp_path) is None


def test_this_computer_is_read_without_a_driver() -> None:
    machine = read_machine(GpuCatalogue([]))
    assert machine.cpu.compute_flop_per_s.get("fp32", 1) > 1e9
    assert machine.cpu.memory_bytes > 2**28
    assert machine.nvml_detail
    assert machine.devices[-1] is machine.cpu
    assert machine.cpu.name in machine.describe()
    assert msgspec.json.decode(msgspec.json.encode(machine.cpu), type=Gpu) == machine.cpu


def test_a_gpu_is_matched_by_its_whole_name_and_its_memory() -> None:
    catalogue = load_gpus(presets_folder() / "gpus")
    h100 = match_gpu("NVIDIA H100 80GB HBM3", 85520809984, catalogue)
    assert h100 is not None
    assert "NVIDIA H100 80GB HBM3" in h100.nvml_names
    assert match_gpu("NVIDIA H100 80GB HBM3", None, catalogue) is h100
    assert match_gpu("NVIDIA H100 80GB HBM3", 2 * 85520809984, catalogue) is None
    assert match_gpu("NVIDIA H10", None, catalogue) is None


def test_names_near_an_unknown_one_are_looked_for_only_where_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue, asked = load_gpus(presets_folder() / "gpus"), list[str]()
    monkeypatch.setattr(GpuCatalogue, "nearest", lambda _, name: asked.append(name))
    assert match_gpu("NVIDIA H10", None, catalogue) is None
    assert asked == []
    with pytest.raises(UserError):
        catalogue.find("NVIDIA H10")
    assert asked == ["NVIDIA H10"]


def test_every_driver_name_of_the_catalogue_is_matched_with_what_the_driver_reports() -> None:
    catalogue = load_gpus(presets_folder() / "gpus")
    for gpu in catalogue.all:
        for name in gpu.nvml_names:
            assert match_gpu(name, gpu.usable_memory_bytes, catalogue) is gpu


def facts(index: int, name: str, memory_bytes: float | None = None) -> GpuFacts:
    return GpuFacts(uuid=f"GPU-{index}", index=index, nvml_name=name, memory_total_bytes=memory_bytes)


def test_a_machine_names_each_part_once() -> None:
    catalogue = load_gpus(presets_folder() / "gpus")
    part = catalogue.all[0]
    twins = tuple(LocalGpu(facts(index, "NVIDIA"), part) for index in range(2))
    machine = Machine(read_cpu(), (*twins, LocalGpu(facts(2, "NVIDIA New", 8e9), None)), "ready", "NVML answers")
    assert machine.devices == (part, machine.cpu)
    assert "NVIDIA New, 7.5 GiB, not in the catalogue" in machine.describe()


def test_a_limit_below_the_vendors_is_told() -> None:
    catalogue = load_gpus(presets_folder() / "gpus")
    part = catalogue.find("A100 80GB SXM")
    limits = (400.0, 300.0, 250.0)
    told = [msgspec.structs.replace(facts(index, "NVIDIA"), power_limit_w=limit) for index, limit in enumerate(limits)]
    assert Machine(read_cpu(), (LocalGpu(told[0], part),), "ready", "").power_limits_w == {}
    machine = Machine(read_cpu(), tuple(LocalGpu(one, part) for one in told), "ready", "")
    assert machine.power_limits_w == {part.name: 250.0}
    assert "limited to 250 W" in machine.describe()


def test_a_gpu_that_is_cut_is_its_slices() -> None:
    catalogue = load_gpus(presets_folder() / "gpus")
    whole = catalogue.find("A100 80GB SXM")
    cut = msgspec.structs.replace(facts(0, "NVIDIA A100-SXM4-80GB"), mig_profiles=("1g.10gb", "1g.10gb", "3g.40gb"))
    empty = msgspec.structs.replace(facts(1, "NVIDIA A100-SXM4-80GB"), mig_profiles=())
    machine = Machine(read_cpu(), (LocalGpu(cut, whole), LocalGpu(empty, whole)), "ready", "NVML answers")
    names = [device.name for device in machine.devices]
    assert names == ["A100 80GB SXM 1g.10gb", "A100 80GB SXM 3g.40gb", machine.cpu.name]
    small = machine.devices[0]
    assert small.usable_memory_bytes == pytest.approx(9.75 * 2**30)
    assert small.memory_bandwidth_bytes_per_s == pytest.approx(whole.memory_bandwidth_bytes_per_s / 8)
    assert small == catalogue.find("A100 80GB SXM 1g.10gb")
    assert len(LocalGpu(cut, whole).devices) == 3


TWO = [("GPU-aa11", "A"), ("GPU-bb22", "A")]
MIXED = [("GPU-aa11", "A"), ("GPU-bb22", "B")]


@pytest.mark.parametrize(
    ("devices", "environment", "expected"),
    [
        (TWO, {}, {"GPU-aa11": 0, "GPU-bb22": 1}),
        (TWO, {"CUDA_VISIBLE_DEVICES": ""}, {}),
        (TWO, {"CUDA_VISIBLE_DEVICES": "-1"}, {}),
        (TWO, {"CUDA_VISIBLE_DEVICES": "1,7,0"}, {"GPU-bb22": 0}),
        (TWO, {"CUDA_VISIBLE_DEVICES": "1, 0"}, {"GPU-bb22": 0, "GPU-aa11": 1}),
        (TWO, {"CUDA_VISIBLE_DEVICES": "0,0"}, {}),
        (TWO, {"CUDA_VISIBLE_DEVICES": "GPU-bb"}, {"GPU-bb22": 0}),
        (TWO, {"CUDA_VISIBLE_DEVICES": "GPU-"}, {}),
        (TWO, {"CUDA_VISIBLE_DEVICES": "MIG-1f,GPU-bb"}, {"GPU-bb22": 1}),
        (MIXED, {}, {}),
        (MIXED, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, {"GPU-aa11": 0, "GPU-bb22": 1}),
        (MIXED, {"CUDA_VISIBLE_DEVICES": "GPU-bb22"}, {"GPU-bb22": 0}),
    ],
)
def test_cuda_numbers_are_claimed_only_where_they_are_known(
    devices: list[tuple[str, str]], environment: dict[str, str], expected: dict[str, int]
) -> None:
    assert cuda_ordinals(devices, environment) == expected
