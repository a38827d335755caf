"""What every test gets: folders of its own, a terminal that is always the same, and the command line as a process."""

from __future__ import annotations

import gc
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, wraps
from inspect import iscoroutinefunction
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import tomli
from catalogue_once import share_catalogue
from compiled_once import compile_share
from fewer_examples import try_fewer
from hypothesis import HealthCheck, settings
from nvml_stub import ControlFile, build
from order_of_tests import ordered, report_results_alone
from parsed_once import parsed_once
from repository import ROOT, RunPlanner

from planner.observe.benchmark.interpreter import Interpreter, probe_interpreter

TERMINAL = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
TERMINAL |= {"HF_HUB_OFFLINE": "1"}
XDG_FOLDERS = (("XDG_CONFIG_HOME", "config"), ("XDG_STATE_HOME", "state"), ("XDG_CACHE_HOME", "cache"), ("XDG_DATA_HOME", "data"))
NEEDS = {
    "planner_process": ("process",),
    "library": ("process",),
    "shell": ("process",),
    "snap_compare": ("screen",),
    "sleeper": ("process",),
    "torch_here": ("process", "torch"),
    "torch": ("torch",),
    "wheel": ("process",),
}
"""Markers a test has by the fixtures it asks for."""
MEASURING_FILES = frozenset(
    {
        "test_bench_endings.py",
        "test_bench_nodes.py",
        "test_bench_quiet.py",
        "test_bench_restart.py",
        "test_bench_run.py",
        "test_study_bench.py",
    }
)
"""Each of their tests loads PyTorch in processes of its own and waits for what they measure."""
STARTS = ((subprocess.Popen, "__init__"), *((os, name) for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system")))
"""Ways to start a process."""
FOLDERS = count()
"""Numbers of the folders of tests; pytest's own numbers are found by listing all folders there are, for every test again."""
INHERITED_SWITCHES = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLORTERM", "SSH_CONNECTION", "PYTHONWARNINGS")


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors: many tests wait for a process or a screen."""
    return (os.cpu_count() or 1) + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files that load PyTorch where its tests are left out, and all that do not name it where nothing else is tried."""
    wanted = config.option.markexpr
    if collection_path.suffix != ".py" or "torch" not in wanted:
        return None
    if wanted.startswith("not"):
        return loads_torch(collection_path) or None
    return (wanted.startswith("torch_inside and") and "torch" not in collection_path.read_text(encoding="utf-8")) or None


@cache
def loads_torch(file: Path) -> bool:
    """True if reading this file of tests loads PyTorch."""
    return "\npytestmark = pytest.mark.torch\n" in file.read_text(encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Have rules tried on the same examples whatever else is imported: Hypothesis would take constants from the sources of all loaded modules."""
    if not config.getoption("--hypothesis-profile"):
        from hypothesis.internal.conjecture import providers

        vars(providers)["_get_local_constants"] = lambda: providers._local_constants


gc.disable()
"""While tests are read: all of it stays, so that looking for garbage takes as long as reading and finds none."""


def pytest_collection_finish() -> None:
    """Look for garbage in what the tests make, and not in the modules and tests that stay; as seldom as a command does."""
    gc.freeze()
    gc.set_threshold(300_000, 20, 20)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Collect what the last tests left once, so that their warnings are seen; pytest looks through all that is left five times.

    A process of pytest-xdist prints no summary of snapshots: syrupy would look for unused ones among all tests, for more than five seconds.
    """
    if hasattr(session.config, "workerinput"):
        session.config._syrupy.report = SimpleNamespace(lines=())  # type: ignore[attr-defined]
    gc.collect()
    gc.freeze()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Share the compiling of a fresh clone among the processes, which report results alone."""
    worker: dict[str, Any] | None = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    if session.config.option.durations is None:
        report_results_alone(session.config)
    if not sys.dont_write_bytecode:
        compile_share(session.config, int(worker["workerid"].removeprefix("gw")), worker["workercount"])


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Mark each test by what it needs, so that `make test-quick` can leave out what is slow to set up; put those that are left in order."""
    for item in items:
        if not (config.getoption("--hypothesis-profile") or item.get_closest_marker("thorough")):
            try_fewer(item)
        names = getattr(item, "fixturenames", ())
        markers = {marker for fixture in names for marker in NEEDS.get(fixture, ())}
        if "screen" in item.path.parts and iscoroutinefunction(getattr(item, "function", None)):
            markers.add("screen")
        if item.path.name in MEASURING_FILES:
            markers.add("measuring")
        for marker in markers:
            item.add_marker(marker)
        if item.get_closest_marker("torch") and (loads_torch(item.path) or not item.get_closest_marker("process")):
            item.add_marker("torch_inside")
    yield
    items[:] = ordered(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


started: list[str] = []
"""Processes that the test which runs has started."""


def noted(owner: Any, name: str) -> Callable[..., Any]:
    """A way to start a process that leaves its name; an audit hook would be called for each `id`, of which a screen asks a hundred thousand."""
    start = getattr(owner, name)

    @wraps(start)
    def note_and_start(*given: Any, **named: Any) -> Any:
        started.append(f"{owner.__name__}.{name}")
        return start(*given, **named)

    return note_and_start


for place, way in STARTS:
    if hasattr(place, way):  # Windows has no fork
        setattr(place, way, noted(place, way))


vars(tomli)["loads"] = parsed_once(tomli.loads)
share_catalogue()
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell has it for what runs in its background
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT) if sys.platform != "win32" else ():  # as `nohup` has them
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
BESIDE_OTHERS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("new examples", BESIDE_OTHERS)
settings.register_profile("the same examples", BESIDE_OTHERS, derandomize=True, database=None)
settings.load_profile("the same examples")
os.environ.setdefault("OMP_NUM_THREADS", "1")
"""One thread of PyTorch, here and in the workers of benchmarks: several tests measure at the same time."""


@pytest.fixture(autouse=True)
def _marked(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that starts a process says so: without its marker it would slow the quick tests down unseen."""
    started.clear()
    yield
    assert not started or request.node.get_closest_marker("process"), f"{started[0]}: mark this test with @pytest.mark.process"


@pytest.fixture(scope="session")
def _same_terminal() -> Iterator[None]:
    """The terminal and the switches of all tests."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in [*INHERITED_SWITCHES, *(name for name in os.environ if name.startswith("TEXTUAL"))]:
            patch.delenv(variable, raising=False)
        for variable, value in TERMINAL.items():
            patch.setenv(variable, value)
        yield


@pytest.fixture(autouse=True)
def isolated(_same_terminal: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this test alone: the developer's presets, measurements and terminal never decide a test."""
    home = tmp_path_factory.getbasetemp() / f"home-{next(FOLDERS)}"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for variable, folder in XDG_FOLDERS:
        monkeypatch.setenv(variable, f"{home}/{folder}")
    return home


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test alone, named after it."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = tmp_path_factory.getbasetemp() / f"{name}-{next(FOLDERS)}"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _unhurried_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Screens are drawn when their tests act; tests without Textual do not pay for it."""
    if "textual" in sys.modules:
        from headless import quicken

        quicken(monkeypatch)


@pytest.fixture(scope="module")
def known() -> dict[tuple[str, bytes], Any]:
    """Answers of the engine that the tests of one file share."""
    return {}


@pytest.fixture
def planned_once(monkeypatch: pytest.MonkeyPatch, known: dict[tuple[str, bytes], Any]) -> None:
    """What workloads are asked of the engine is answered once, however often the tests of a file have it laid out.

    Not where a test has a configuration or measurements of its own.
    """
    import msgspec

    from planner.session import Session

    def once(ask: Callable[..., Any]) -> Callable[..., Any]:
        def answer(session: Session, *given: Any, **more: Any) -> Any:
            if session.config.exists() or session.store.all():
                return ask(session, *given, **more)
            key = ask.__name__, msgspec.json.encode((given, more), enc_hook=lambda task: task.workload)
            if key not in known:
                known[key] = ask(session, *given, **more)
            return known[key]

        return answer

    for name in ("_ranking", "fit", "plan", "with_flips"):
        monkeypatch.setattr(Session, name, once(getattr(Session, name)))


@pytest.fixture
def fewer_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of one family of models for `fit`; tests/engine/fit uses the whole one."""
    from planner.engine.fit import fit

    of_all = fit.fit_models

    def of_fewer(base: Any, gpu: Any, gpus: int, catalogue: dict[str, Any], *given: Any, **more: Any) -> Any:
        family = {name: found for name, found in catalogue.items() if name.startswith("qwen3-")}
        return of_all(base, gpu, gpus, family or catalogue, *given, **more)

    monkeypatch.setattr(fit, "fit_models", of_fewer)


@pytest.fixture
def run_planner(tmp_path: Path) -> RunPlanner:
    """Run the command line in this process, in an empty folder: its streams and its exit code, as a process would have them."""

    def run(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        from planner.cli import main

        streams = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdin", "stdout", "stderr")}
        streams["stdin"].buffer.write(stdin.encode())
        streams["stdin"].seek(0)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path)
            for variable, value in environment.items():
                patch.setenv(variable, value)
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            interrupt = signal.getsignal(signal.SIGINT)
            code = main(argv=arguments)
            signal.signal(signal.SIGINT, interrupt)
        said = [written(streams[name]) for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(arguments, int(code), *said)

    return run


def written(stream: io.TextIOWrapper) -> str:
    """All that was written to `stream`."""
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.fixture
def planner_process(tmp_path: Path) -> RunPlanner:
    """Run the command line in a process of its own, in an empty folder; warnings are errors there too."""

    def run(
        *arguments: str, stdin: str | None = None, timeout_s: float = 300, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        options: dict[str, Any] = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "planner", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            **options,
        )

    return run


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """PyTorch in this process; the test is skipped where it is not installed."""
    module: ModuleType = pytest.importorskip("torch")
    return module


@pytest.fixture(scope="session")
def torch_here() -> None:
    """PyTorch in the interpreter that a benchmark starts; the test is skipped where it is not installed."""
    if not isinstance(probe_interpreter(None), Interpreter):
        pytest.skip("this interpreter has no torch")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for the driver's library, compiled once."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def control(tmp_path: Path) -> ControlFile:
    """What the stand-in is told to say; no GPU at first."""
    file = ControlFile(tmp_path / "control")
    file.write()
    return file
