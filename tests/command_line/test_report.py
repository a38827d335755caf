"""The decision as a file: what it says, in every form, and what it rests on."""

from __future__ import annotations

import datetime as dt
import html.parser
import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from repository import RunPlanner

from planner.engine.procurement.paying import Terms
from planner.present.cells import Code, Fact, Facts, Paragraph, Points, Section, text_table
from planner.present.files.document import as_html, as_markdown
from planner.present.money.owning import owned
from planner.session import Session
from planner.workload.hardware.owned import Owning

pytestmark = pytest.mark.usefixtures("planned_once")
SERVICE = ("llama-3.1-70b-chat-service", "--gpu", "H200 SXM")


def test_settings_are_told_as_they_were_given(run_planner: RunPlanner) -> None:
    text = run_planner("report", "qwen3-8b-grpo", "--gpu", "MI350X", "--set", "compile=true").stdout
    assert "\n| companions | role reference, weight_dtype bf16 |\n" in text
    assert "\n| compile | true |\n" in text
    assert not re.search(r"\b(None|True|False)\b", text)


@pytest.mark.sweep
def test_the_report_says_what_to_take_and_why(run_planner: RunPlanner) -> None:
    done = run_planner("report", *SERVICE)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert text.startswith("# Llama 3.1 70B chat, 1000 requests a minute\n")
    assert re.search(
        r"\*\*Rent [\d,]+ × H200 SXM(?: \([\d,]+ paid\))? at \S+, .* \$/month .*\*\*\n\nRent [\d,]+ × H200 SXM .* from \S+ .* \$/h, .* \$ a month: ",
        text,
    )
    for heading in ("Decision", "What was asked", "What else there is", "Money", "Memory of the fullest GPU", "Where the time goes",
                    "What it rests on", "Ask it again"):  # fmt: skip
        assert f"\n## {heading}\n" in text
    assert "| whole request, p95 |" in text
    assert "< 5.00 s" in text
    assert "gpu-planner plan llama-3.1-70b-chat-service --gpu 'H200 SXM'" in text
    assert "Buy: " in text
    assert "a million tokens cost" in text
    assert "| model | llama-3.1-70b |" in text


def test_a_figure_says_how_old_its_price_is_and_where_none_of_its_kind_is_published(run_planner: RunPlanner) -> None:
    asked = ("--gpu", "B200 SXM", "--set", "model=qwen3-14b", "--set", "task=serve", "--set", "concurrency=20")
    told = json.loads(run_planner("report", *asked, "--json").stdout)
    row = told["plan"]["rows"][0]
    missing = row["answer"]["assumed"]["ranges_without_source"]
    assert "time per output token" in missing
    assert "serving throughput" not in missing
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in run_planner("report", *asked).stdout.splitlines()}
    assert lines["next token, p95"].endswith("of the GPU's rates; none of this figure |")
    assert lines["output tokens/s"].endswith("○ published measurement |")
    days = (dt.date.fromisoformat(told["made_on"]) - dt.date.fromisoformat(row["offer"]["as_of"])).days
    assert lines["a month"].endswith(f"price of {row['offer']['as_of']}, {days:,} days old |")


def test_nothing_fits_is_a_decision_too(run_planner: RunPlanner) -> None:
    done = run_planner(
        "report", "qwen3-8b-single-user-chat", "--gpu", "RTX 4090", "--set", "input_tokens=38000", "--set", "max_gpus=1"
    )
    assert done.returncode == 1, done.stderr
    assert "None of " in done.stdout
    assert "## What would change it" in done.stdout
    assert "--set weight_dtype=fp8" in done.stdout
    assert "## Money" not in done.stdout


class Tags(html.parser.HTMLParser):
    """True if every tag that is opened is closed."""

    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_form_of_file_tells_the_same_decision(run_planner: RunPlanner, tmp_path: Path) -> None:
    for name in ("r.md", "r.html", "r.json"):
        done = run_planner("report", "llama-3.1-8b-lora", "--gpu", "L40S", "--out", str(tmp_path / name))
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
        assert name in done.stderr
    told = json.loads((tmp_path / "r.json").read_text())
    assert {"made_on", "command", "decision", "plan", "memory_detail", "time_detail", "owned"} <= told.keys()
    assert told["plan"]["rows"][0]["rank"] == 1
    page = Tags()
    page.feed((tmp_path / "r.html").read_text())
    assert page.open == []
    assert told["decision"] in page.text
    assert f"\n{told['decision']}\n" in (tmp_path / "r.md").read_text()


@pytest.mark.parametrize(
    ("out", "words", "code"), [("r.txt", "use .md, .html or .json", 2), ("no/such/r.md", "cannot be written", 74)]
)
def test_a_file_that_cannot_be_written_is_told(run_planner: RunPlanner, tmp_path: Path, out: str, words: str, code: int) -> None:
    done = run_planner("report", "llama-3.1-8b-lora", "--gpu", "L40S", "--out", str(tmp_path / out))
    assert done.returncode == code
    assert words in done.stderr
    assert not list(tmp_path.rglob("*.part"))


def test_a_form_is_printed_where_no_file_is_named(run_planner: RunPlanner) -> None:
    done = run_planner("report", "llama-3.1-8b-lora", "--gpu", "L40S", "--json")
    assert json.loads(done.stdout)["decision"].startswith("Rent ")
    assert run_planner("report", "llama-3.1-8b-lora", "--gpu", "L40S", "--html").stdout.startswith("<!doctype html>")
    done = run_planner("report", "--json", "--out", "x.md")
    assert done.returncode == 2
    assert "--out" in done.stderr


def test_what_is_wrong_with_the_workload_is_told_as_by_plan(run_planner: RunPlanner) -> None:
    assert run_planner("report", "--set", "max_gpu=3").stderr == run_planner("plan", "--set", "max_gpu=3").stderr


def test_owning_adds_up(tmp_path: Path) -> None:
    session = Session.open(state=tmp_path / "state", config=tmp_path / "config")
    preset = session.presets.load("llama-3.1-8b-lora")
    row = next(row for row in session.plan(preset.workload, top=40).rows if row.gpu == "H100 SXM5 80GB" and row.rank)
    part = session.part_named(row.gpu)
    assert part is not None
    assert part.purchase is not None
    terms = Owning(usd_per_kwh=0.30, hosting_usd_per_month=73.0, life_years=4.0)
    workload = replace(preset.workload, owning=terms)
    costs = session.costs(workload, row, Terms(months=48, use=0.5))
    found = owned(costs, row)
    assert costs is not None
    assert found is not None
    assert found.least_use == next(ways.break_even_use for ways in costs.ways if ways.way.name == "bought")
    assert f"{found.least_use:.0%}".replace("%", " %") in found.in_short
    assert row.answer.layout is not None
    each = part.purchase.price_usd / (4 * 8760) + 0.7 * (0.1 + 0.9 * 0.5) * 0.30 + 0.1
    assert found.usd_per_h == pytest.approx(row.answer.layout.gpus * each)
    assert row.answer.tokens_per_s is not None
    assert found.usd_per_million_tokens == pytest.approx(found.usd_per_h / (0.5 * row.answer.tokens_per_s.value * 3600) * 1e6)
    assert found.tokens_per_year == pytest.approx(0.5 * row.answer.tokens_per_s.value * 3600 * 8760)
    assert "in use 50 % of the time" in " ".join(found.sentences())
    assert "server, network" in " ".join(found.sentences())
    assert owned(None, row) is None


def test_own_gpus_are_asked_for_and_priced_in_words(run_planner: RunPlanner, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[[own]]\ngpu = "A100 80GB SXM"\ncount = 8\n')
    text = run_planner("report", "llama-3.1-8b-full-finetune", "--gpu", "A100 80GB SXM", "--own", str(own)).stdout
    assert "| own | gpu A100 80GB SXM, count 8 |" in text
    assert "| an hour |" in text
    assert "| rent |" not in text
    rented = run_planner("report", "llama-3.1-8b-full-finetune", "--gpu", "A100 80GB SXM").stdout
    assert "| rent |" in rented


def test_a_document_escapes_what_its_form_would_read() -> None:
    table = text_table(("n", "a|b"), [("1", "c|d")], ("n",))
    facts = Facts([Fact("e<f", "2", "g|h")])
    sections = [Section("a < b", [Paragraph("x & y"), Points(["<i>", "see `a < b`"]), table, facts, Code("a && b")], 1)]
    assert "| 1 | c\\|d |" in as_markdown(sections)
    assert "| e\\<f | 2 | g\\|h |" in as_markdown(sections)
    page = as_html(sections)
    assert '<td class="short">e&lt;f</td>' in page
    assert "<title>a &lt; b</title>" in page
    assert "<li>&lt;i&gt;</li>" in page
    assert "<li>see <code>a &lt; b</code></li>" in page
    assert '<td class="right">1</td><td class="words">c|d</td>' in page
    assert "a &amp;&amp; b" in page
    assert "http" not in page


def test_offers_are_in_the_order_of_the_price_they_show(run_planner: RunPlanner) -> None:
    lines = run_planner("offers", "show", "RTX 4090").stdout.splitlines()
    assert "$/GPU-h" in lines[0]
    start = lines[0].index("$/GPU-h")
    prices = [float(price) for line in lines[1:] if (price := line[start : start + 7].strip())]
    assert prices == sorted(prices)
    assert len(prices) > 5
    assert "3 years $/h" not in lines[0]
    assert "3 years $/h" in run_planner("offers").stdout.splitlines()[0]


def test_gpus_are_compared_by_what_they_give_for_their_price(run_planner: RunPlanner) -> None:
    done = run_planner("gpus", "list", "--value")
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert "GB/s per k$" in head
    h100 = next(line for line in lines if line.startswith("H100 SXM5 80GB"))
    assert " 112 " in h100  # 3,350 GB/s for 30,000 $
    assert " 33.0 " in h100  # 989 TFLOP/s for them
