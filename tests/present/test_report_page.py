"""The report as a page: opened in a browser it asks for nothing, says nothing on the console, and shows three charts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from browser import background, needs_browser, opened
from repository import RunPlanner

pytestmark = pytest.mark.usefixtures("planned_once")


@pytest.fixture
def page(run_planner: RunPlanner, tmp_path: Path) -> Path:
    """A report on a service, which has several ways to be paid."""
    done = run_planner("report", "llama-3.1-70b-chat-service", "--use", "0.5", "--out", str(tmp_path / "report.html"))
    assert done.returncode == 0, done.stderr
    return tmp_path / "report.html"


@needs_browser
@pytest.mark.browser
@pytest.mark.process
def test_the_page_asks_for_nothing_and_draws_its_charts(page: Path, tmp_path: Path) -> None:
    found = opened(page, tmp_path)
    assert found.console == []
    assert found.requests == []
    charts = re.findall(r'<svg class="chart".*?</svg>', found.document, re.DOTALL)
    titles = [title for chart in charts for title in re.findall(r"<title>(.*?)</title>", chart)[:1]]
    assert [title.split(" of ")[0] for title in titles] == [
        "Cost against time",
        "Whole request against load",
        "Cumulative cost, in use 50 %",
        "What 36 months cost, by the time in use",
    ]
    assert "NaN" not in found.document
    assert background(page, tmp_path, dark=False) == (255, 255, 255)
    assert max(background(page, tmp_path, dark=True)) < 64


@needs_browser
@pytest.mark.browser
@pytest.mark.process
def test_a_page_that_errs_or_asks_is_noticed(tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<!doctype html><script>console.error('broken')</script><img src='http://page.invalid/x.png'>")
    found = opened(bad, tmp_path)
    assert any("broken" in line for line in found.console)
    assert "http://page.invalid/x.png" in found.requests


def test_nothing_in_the_page_could_be_fetched_or_run(page: Path) -> None:
    text = page.read_text()
    assert not re.search(r"<(script|link|img|iframe|object|embed)\b", text)
    assert not re.search(r"(src|href)\s*=|url\(|@import", text)
