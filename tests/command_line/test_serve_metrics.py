"""`watch --serve-metrics`: a page for Prometheus, of the latest reading, on this machine alone unless asked otherwise."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from repository import ROOT, RunPlanner

from planner.cli.watch.serving import Latest, address_of, served
from planner.errors import UserError
from planner.observe.telemetry.exporter import read_exporter
from planner.observe.telemetry.exposition import PREFIX, read_samples
from planner.observe.telemetry.metrics import metrics
from planner.observe.telemetry.recording import read_demo


def status_of(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310  # our own address
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.process
def test_the_demonstration_is_served_and_read_back() -> None:
    command = [sys.executable, "-m", "planner", "watch", "--demo", "--serve-metrics", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        address = re.search(r"http://\S+/metrics", said)
        assert address is not None, said
        for _ in range(1200):
            if status_of(address[0]) == 200:
                break
            time.sleep(0.05)
        seen = read_exporter(address[0])
        assert status_of(address[0].replace("/metrics", "/other")) == 404
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) in {0, 130}
    assert [device.name for device in seen.devices] == [device.name for device in read_demo().snapshots[0].devices]


def test_without_a_reading_the_page_says_so() -> None:
    latest = Latest()
    with served(latest, "127.0.0.1:0") as address:
        assert status_of(address) == 503
        latest.keep(read_demo().snapshots[0], stale=False)
        assert status_of(address) == 200
        latest.keep(None, stale=True)
        assert status_of(address) == 503
        with (
            pytest.raises(UserError, match="cannot listen"),
            served(latest, address.removeprefix("http://").removesuffix("/metrics")),
        ):
            pass


@pytest.mark.parametrize("listen", ["nonsense", "host:", "host:99999", "9835"])
def test_an_address_to_listen_on_that_is_none(run_planner: RunPlanner, listen: str) -> None:
    done = run_planner("watch", "--serve-metrics", "--listen", listen)
    assert done.returncode == 2
    assert "is not ADDRESS:PORT" in done.stderr


def test_addresses_to_listen_on() -> None:
    assert address_of(":9835") == ("", 9835)
    assert address_of("[::1]:80") == ("::1", 80)


def test_options_that_do_not_go_together(run_planner: RunPlanner) -> None:
    assert run_planner("watch", "--listen", "127.0.0.1:1").returncode == 2
    assert run_planner("watch", "--serve-metrics", "--once").returncode == 2


def test_names_and_labels_in_utf_8_are_read_and_a_bad_line_costs_itself_alone() -> None:
    text = '{"gpu_planner_sm_active_ratio", gpu="0", "größe.team"="ü"} 0.5\nnot a line at all {\ngpu_planner_up{gpu="0"} 1 1700000000.5\n'
    (first, second) = read_samples(text, "page")
    assert (first.name, first.labels, first.value) == ("gpu_planner_sm_active_ratio", {"gpu": "0", "größe.team": "ü"}, 0.5)
    assert second.value == 1.0
    with pytest.raises(UserError, match="line 1"):
        read_samples("nothing here\nnor here", "page")


def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    dashboard = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    ours = {f"{PREFIX}{metric.exported}" for metric in metrics().values()} | {
        f"{PREFIX}{name}" for name in ("up", "clock_held_back", "health_warning")
    }
    used = {name for text in asked for name in re.findall(rf"{PREFIX}\w+", text)}
    assert used <= ours
    assert len(asked) >= 8
    identities = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identities)) == len(identities)
