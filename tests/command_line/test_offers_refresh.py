"""`offers refresh` against a server of this test's own: what is written, what stays, what is said, and that plans use it."""

from __future__ import annotations

import datetime as dt
import json
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from repository import RunPlanner

from planner.hardware.prices.fetch import AT_ONCE

pytestmark = pytest.mark.server

HEAD = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
NEBIUS = HEAD + (
    "cpu-d3_4vcpu-16gb,,0,4,16,0.0992,eu-north1,,\n"
    "gpu-h100-sxm_8gpu-128vcpu-1600gb,H100,8,128,1600,1.60,eu-north1,,0.80\n"
    "gpu-h200-sxm_8gpu-128vcpu-1600gb,H200,8,128,1600,28.00,eu-north1,,11.60\n"
    "gpu-x900_1gpu,X900,1,8,64,1.00,eu-north1,,\n"
)
LAMBDA = HEAD + "gpu_1x_h100_pcie,H100,1,26,200,2.22,us-east-1,,\n"
REGENERATED = ("aws", "gcp", "lambda", "runpod", "nebius", "vast", "verda", "jarvislabs", "cudo", "oci")
"""Folders that are asked where none is named."""
MODIFIED = "Thu, 19 Nov 2026 03:04:05 GMT"


class Catalogue:
    """Files by path; None: hang until the test is over."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, bytes, dict[str, str]] | None] = {}
        self.asked: list[str] = []
        self.over = threading.Event()
        self.url = ""

    def serve(self, cloud: str, text: str, status: int = 200, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.files[f"/{cloud}/vms.csv"] = (status, text.encode(), named)

    def hang(self, cloud: str) -> None:
        self.files[f"/{cloud}/vms.csv"] = None


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalogue]:
    served = Catalogue()

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            found = served.files.get(self.path, (404, b"no such file", {}))
            if found is None:
                served.over.wait(30)
                return
            status, body, headers = found
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(variable, "127.0.0.1")
    yield served
    served.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def folder(isolated: Path) -> Path:
    return isolated / "config" / "gpu-planner" / "offers"


def plan_of(run_planner: RunPlanner, provider: str) -> dict[str, Any]:
    done = run_planner("plan", "--set", f'providers=["{provider}"]', "--json")
    assert done.returncode in {0, 1}, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.process
def test_plans_use_the_new_price_and_its_date(run_planner: RunPlanner, catalogue: Catalogue, folder: Path) -> None:
    catalogue.serve("nebius", NEBIUS, Last_Modified=MODIFIED)
    done = run_planner("offers", "refresh", "--fewer", "--provider", "nebius", "--source", catalogue.url)
    assert done.returncode == 0, done.stderr
    assert "nebius: skipped, because the GPU is ambiguous: X900 (1)" in done.stderr
    assert catalogue.asked == ["/nebius/vms.csv"]
    assert [file.name for file in folder.iterdir()] == ["nebius.toml"]

    listed = json.loads(run_planner("offers", "list", "--provider", "nebius", "--json").stdout)
    assert {offer["gpus"] for offer in listed} == {8}
    assert {offer["as_of"] for offer in listed} == {"2026-11-19"}
    assert all(f"{catalogue.url}/nebius/vms.csv" in offer["source"] for offer in listed)
    assert "yours" in run_planner("offers", "list", "--provider", "nebius").stdout
    assert "shipped" in run_planner("offers", "list", "--provider", "verda").stdout

    planned = plan_of(run_planner, "nebius")
    rented = [row["offer"] for row in planned["rows"] if row.get("offer")]
    assert rented
    assert {offer["instance"] for offer in rented} <= {offer["instance"] for offer in listed}
    assert {offer["as_of"] for offer in rented} == {"2026-11-19"}
    assert planned["prices_as_of"] == "2026-11-19"
    cheap = next(offer for offer in rented if offer["instance"].startswith("gpu-h100"))
    assert cheap["usd_per_h"] / cheap["instances"] == pytest.approx(1.60)

    prices = json.loads(run_planner("doctor", "--json", "--python", "absent").stdout)["prices"]
    assert prices["own"] == {"nebius": "2026-11-19"}
    assert prices["newest"] == "2026-11-19"
    assert "yours: nebius of 2026-11-19" in run_planner("doctor", "--python", "absent").stdout


def test_a_provider_that_fails_leaves_its_offers_and_the_others_alone(
    run_planner: RunPlanner, catalogue: Catalogue, folder: Path
) -> None:
    catalogue.serve("nebius", NEBIUS)
    catalogue.serve("verda", "<html>Sign in</html>")
    catalogue.serve("vast", HEAD + "1x-H200-32-65536,H200,1,32,64.0,dear,here,,\n")
    catalogue.serve("aws", NEBIUS, Content_Length="99999")
    catalogue.hang("runpod")
    names = [word for name in ("lambda", "verda", "vast-ai", "aws", "runpod", "nebius") for word in ("--provider", name)]
    done = run_planner("offers", "refresh", "--fewer", *names, "--source", catalogue.url, "--timeout", "3", "--json")
    assert done.returncode == 0, done.stderr
    found = {one["provider"]: one for one in json.loads(done.stdout)}
    assert {name: one["state"] for name, one in found.items()} == dict.fromkeys(found, "failed") | {"nebius": "written"}
    assert len(found) == 6
    errors = {line.split(":")[1].strip(): line for line in done.stderr.splitlines() if line.startswith("error: ")}
    assert errors["lambda"] == (
        f"error: lambda: {catalogue.url}/lambda/vms.csv: was refused with HTTP 404 Not Found; its 23 offers of 2026-05-07 stay"
    )
    assert "is not a table of prices: it has no column InstanceType" in errors["verda"]
    assert "holds no offer of a known GPU" in errors["vast-ai"]
    assert "vast-ai: 1 line cannot be read; line 2: Price 'dear' is not a number" in done.stderr
    assert "broke off" in errors["aws"]
    assert "gave no answer within 3 s" in errors["runpod"]
    assert found["nebius"]["as_of"] in {
        dt.datetime.now(dt.UTC).date().isoformat(),
        (dt.datetime.now(dt.UTC) - dt.timedelta(days=1)).date().isoformat(),
    }
    assert [file.name for file in folder.iterdir()] == ["nebius.toml"]


def test_all_providers_together_have_a_limit_and_what_came_is_kept(
    run_planner: RunPlanner, catalogue: Catalogue, folder: Path
) -> None:
    for cloud in REGENERATED:
        catalogue.hang(cloud)
    catalogue.serve("nebius", NEBIUS)
    began = time.monotonic()
    done = run_planner("offers", "refresh", "--fewer", "--source", catalogue.url, "--within", "3", "--json")
    assert time.monotonic() - began < 15, "not the 60 s of a file, twice"
    assert done.returncode == 0, done.stderr
    found = {one["provider"]: one for one in json.loads(done.stdout)}
    assert list(found) == sorted(found)
    assert [name for name, one in found.items() if one["state"] == "written"] == ["nebius"]
    over = "the 3 s that all files together may take (--within); "
    late = Counter(one["detail"].partition(" the 3 s")[0] for one in found.values() if over in one["detail"])
    assert late == {"gave no answer within": AT_ONCE, "was not asked within": len(REGENERATED) - AT_ONCE - 1}
    assert done.stderr.count(over) == len(REGENERATED) - 1
    assert [file.name for file in folder.iterdir()] == ["nebius.toml"]


def test_nothing_reached_ends_with_one_and_writes_nothing(run_planner: RunPlanner, folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = run_planner("offers", "refresh", "--fewer", "--source", url, no_proxy="127.0.0.1")
    assert done.returncode == 1
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 10  # every provider that is regenerated
    assert all("cannot be reached: Connection refused" in line for line in lines)
    assert not folder.exists()


def test_a_dry_run_says_what_would_change_and_writes_nothing(run_planner: RunPlanner, catalogue: Catalogue, isolated: Path) -> None:
    catalogue.serve("nebius", NEBIUS)
    done = run_planner("offers", "refresh", "--fewer", "--provider", "nebius", "--source", catalogue.url, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would be written" in done.stdout
    lines = {line.split()[2]: line.split()[1] for line in done.stdout.splitlines() if len(line.split()) > 2}
    assert lines["gpu-h100-sxm_8gpu-128vcpu-1600gb"] == "changed"
    assert lines["gpu-b200-sxm_8gpu-160vcpu-1792gb"] == "gone"
    assert "-95.6%" in done.stdout  # 36.00 -> 1.60
    told = json.loads(
        run_planner("offers", "refresh", "--fewer", "--provider", "nebius", "--source", catalogue.url, "--dry-run", "--json").stdout
    )
    repriced = next(change for change in told[0]["changes"] if change["kind"] == "changed")
    assert (repriced["on_demand_before_usd_per_h"], repriced["on_demand_usd_per_h"]) == (36.0, 1.6)
    assert not (isolated / "config" / "gpu-planner").exists()


def test_the_file_before_is_kept_and_ones_own_is_never_touched(run_planner: RunPlanner, catalogue: Catalogue, folder: Path) -> None:
    def refresh() -> tuple[int, str]:
        done = run_planner("offers", "refresh", "--fewer", "--provider", "lambda", "--source", catalogue.url)
        return done.returncode, done.stderr

    catalogue.serve("lambda", LAMBDA)
    assert refresh()[0] == 0
    first = (folder / "lambda.toml").read_text()
    assert stat.S_ISREG((folder / "lambda.toml").stat().st_mode)
    catalogue.serve("lambda", LAMBDA.replace("2.22", "2.33"))
    assert refresh()[0] == 0
    assert "2.33" in (folder / "lambda.toml").read_text()
    assert (folder / "lambda.toml.bak").read_text() == first
    assert sorted(file.name for file in folder.iterdir()) == ["lambda.toml", "lambda.toml.bak"]

    own = first.partition("\n")[2].replace("2.22", "1.11")
    (folder / "lambda.toml").write_text(own)
    code, said = refresh()
    assert code == 1
    assert "is your own and stays" in said
    assert (folder / "lambda.toml").read_text() == own
    assert (folder / "lambda.toml.bak").read_text() == first
    assert json.loads(run_planner("offers", "list", "--provider", "lambda", "--json").stdout)[0]["on_demand_usd_per_h"] == 1.11


def test_a_folder_that_cannot_be_written_is_said(run_planner: RunPlanner, catalogue: Catalogue, folder: Path) -> None:
    catalogue.serve("lambda", LAMBDA)
    folder.parent.mkdir(parents=True)
    folder.write_text("a file where the folder should be")
    done = run_planner("offers", "refresh", "--fewer", "--provider", "lambda", "--source", catalogue.url)
    assert done.returncode == 74
    assert "cannot be written" in done.stderr
    assert "its 23 offers of 2026-05-07 stay" in done.stderr
    assert folder.read_text() == "a file where the folder should be"


def test_a_broken_file_of_ones_own_is_named_and_a_broken_refreshed_one_can_be_replaced(
    run_planner: RunPlanner, catalogue: Catalogue, folder: Path
) -> None:
    folder.mkdir(parents=True)
    broken = folder / "lambda.toml"
    broken.write_text('# Written by gpu-planner offers refresh\n[[offer]]\nprovider = "lambda"\n')
    done = run_planner("plan")
    assert done.returncode == 2
    assert str(broken) in done.stderr
    catalogue.serve("lambda", LAMBDA)
    assert run_planner("offers", "refresh", "--fewer", "--provider", "lambda", "--source", catalogue.url).returncode == 0
    assert run_planner("offers", "list", "--provider", "lambda").returncode == 0


def test_offers_of_a_tier_the_catalogue_does_not_list_stay(run_planner: RunPlanner, catalogue: Catalogue) -> None:
    catalogue.serve("runpod", HEAD + "1x_L40S_SECURE,L40S,1,16,94,0.86,US,,0.86\n")
    assert run_planner("offers", "refresh", "--fewer", "--provider", "runpod", "--source", catalogue.url).returncode == 0
    listed = json.loads(run_planner("offers", "list", "--provider", "runpod", "--json").stdout)
    assert [offer["instance"] for offer in listed if offer["tier"] == "secure"] == ["1x_L40S_SECURE"]
    community = [offer for offer in listed if offer["tier"] == "community"]
    assert len(community) == 19
    assert {offer["as_of"] for offer in community} <= {"2026-05-24", "2026-08-19", "2026-11-09"}, "those that were shipped"


def test_a_folder_serves_as_source_and_wrong_names_are_said(run_planner: RunPlanner, tmp_path: Path, folder: Path) -> None:
    (tmp_path / "copy" / "nebius").mkdir(parents=True)
    (tmp_path / "copy" / "nebius" / "vms.csv").write_text(NEBIUS)
    for source in ("copy", (tmp_path / "copy").as_uri()):
        assert run_planner("offers", "refresh", "--fewer", "--provider", "Nebius", "--source", source).returncode == 0
    assert (folder / "nebius.toml").exists()
    done = run_planner("offers", "refresh", "--fewer", "--provider", "nebbius", "--source", "copy")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Did you mean 'nebius'" in done.stderr
    done = run_planner("offers", "refresh", "--fewer", "--source", "ftp://somewhere")
    assert done.returncode == 2
    assert "neither a folder nor an http://" in done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (lambda: LAMBDA, "has offers of 1 of the "),
        (lambda: HEAD + "".join(f"i{number},H100,8,1,1,1,here,,\n" for number in range(300_000)), "has more than 200,000 lines"),
        (lambda: HEAD + f"gpu_1x_h100_pcie,H100,1,26,200,2.22,{'x' * 2**25},,\n", "is larger than 32 MiB"),
    ],
    ids=["one row", "300,000 rows", "32 MiB"],
)
def test_what_is_no_market_replaces_none(
    text: Callable[[], str], reason: str, run_planner: RunPlanner, catalogue: Catalogue, folder: Path
) -> None:
    catalogue.serve("lambda", text())
    done = run_planner("offers", "refresh", "--provider", "lambda", "--source", catalogue.url)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "its 23 offers of " in done.stderr
    assert not folder.exists()
