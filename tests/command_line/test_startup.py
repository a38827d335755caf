"""What a start sets for itself alone: one thread of numpy's, and no trace of it in the programs it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT

NAME = "OPENBLAS_NUM_THREADS"
CODE = f"""
import os
from planner import startup
startup.prepare()
startup.prepare()
import numpy
from planner.observe.benchmark.worker import worker_environment
print(len(os.listdir("/proc/self/task")), os.environ.get("{NAME}"), worker_environment("cuda:0").get("{NAME}"))
"""


WITHOUT_OPENSSL = """
import sys
from widgets.launch import _import_asyncio
_import_asyncio()
assert "asyncio" in sys.modules and "_ssl" not in sys.modules
import ssl
assert ssl.create_default_context()
_import_asyncio()
assert sys.modules["ssl"] is ssl
"""


@pytest.mark.process
def test_the_screen_does_not_load_openssl_until_something_asks_for_it() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", WITHOUT_OPENSSL], env=environment, timeout=300, check=True)


def said(**given: str) -> list[str]:
    """Threads after the import of numpy, and the variable here and in the environment of the benchmark."""
    environment = {name: value for name, value in os.environ.items() if name != NAME} | {"PYTHONPATH": str(ROOT)} | given
    return subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, timeout=300, check=True
    ).stdout.split()


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux lists them")
def test_numpy_starts_no_threads_and_the_benchmark_does_not_hear_of_it() -> None:
    assert said() == ["1", "1", "None"]


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts threads as Linux lists them")
def test_a_number_of_threads_that_was_given_stays() -> None:
    assert said(**{NAME: "2"})[1:] == ["2", "2"]
