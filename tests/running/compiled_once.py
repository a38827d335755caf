"""Compiling a fresh clone once: each process of the tests compiles a share of the files, and then reads what all have compiled."""

from __future__ import annotations

import py_compile
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir, try_makedirs
from repository import ROOT

MODULES = ("planner", "widgets", "bench", "scripts", "tests/samples", "tests/fuzz", "tests/oracles", "tests/durability")
"""Folders of what tests import."""


def compile_share(config: pytest.Config, number: int, count: int) -> None:
    """Compile every `count`-th file from `number` on, where that was not done since it changed."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    modules = sorted(
        module for folder in MODULES for module in (ROOT / folder).rglob("*.py") if not module.name.startswith("test_")
    )
    for module in modules[number::count]:
        compiled = Path(cache_from_source(str(module)))
        if not _is_newer(compiled, module):
            py_compile.compile(str(module), cfile=str(compiled), quiet=1)
    for test in tests[number::count]:
        compiled = get_cache_dir(test) / (test.stem + PYC_TAIL)
        if not _is_newer(compiled, test):
            _rewrite(test, compiled, config)


def _rewrite(test: Path, compiled: Path, config: pytest.Config) -> None:
    """Compile a file of tests with its assertions written out, as pytest does when it imports one."""
    try:
        stat, code = _rewrite_test(test, config)
    except SyntaxError:
        return  # told when it is read
    if try_makedirs(compiled.parent):
        _write_pyc(config.stash[assertstate_key], code, stat, compiled)


def _is_newer(compiled: Path, source: Path) -> bool:
    """True if it was compiled after the last change."""
    return compiled.exists() and compiled.stat().st_mtime >= source.stat().st_mtime
