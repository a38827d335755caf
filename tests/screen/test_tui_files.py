"""Files and folders of the terminal program: presets that are saved, exports, themes, the real catalogue, everything read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from textual.widgets import Input, Static
from tui_sample import SampleSession, first_note, sample_options, settle

from planner.session import Session
from widgets.app import PlannerApp
from widgets.options import AppOptions


def app_in(folder: Path, **changes: Any) -> PlannerApp:
    return PlannerApp(sample_options(folder, **changes))


def text_of(app: PlannerApp, selector: str) -> str:
    return str(app.main.query_one(selector, Static).content)


def one_file(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


async def test_the_form_saves_as_a_preset_that_can_be_opened(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-output-tokens", Input).value = "300"
        await settle(pilot)
        await pilot.press("w")
        await pilot.pause()
        app.screen.query_one(Input).value = "mine"
        await pilot.press("enter")
        await settle(pilot)
        assert app.preset is not None
        assert app.preset.name == "mine"
        assert "output_tokens = 300" in (tmp_path / "config" / "presets" / "mine.toml").read_text()
        assert any(item.value == "mine" for item in app.form.presets)


async def test_export_and_copies_hold_the_same_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("e", "enter")
        await settle(pilot)
        exported = json.loads(one_file(tmp_path, "chat-70b-sla-*.json").read_text())
        assert exported["rows"][0]["gpu"] == "H200 SXM 141GB"
        app.form.query_one("#field-output-tokens", Input).value = "300"
        await settle(pilot)
        app.show_pane("ranking")
        await pilot.press("Y")
        await pilot.pause()
        copied = (tmp_path / "state" / "last-copy.txt").read_text().strip()
        assert copied == "gpu-planner plan chat-70b-sla --set output_tokens=300"
        await pilot.press("y")
        await pilot.pause()
        row = (tmp_path / "state" / "last-copy.txt").read_text()
        assert "4 × H200 SXM 141GB" in row
        assert "3.9 s" in row


@pytest.mark.parametrize(("typed", "suffix"), [("markdown", "report.md"), ("html", "report.html")])
async def test_the_decision_is_exported_with_its_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("e", *f"decision {typed}", "enter")
        for _ in range(200):
            await pilot.pause(0.05)
            if app._notifications:
                break
        text = one_file(tmp_path, f"chat-70b-sla-*.{suffix}").read_text()
        for words in (
            "Chat service, 70B",
            "Rent 4 × H200 SXM 141GB",
            "Candidates that are not solutions, and why",
            "gpu-planner plan chat-70b-sla",
        ):
            assert words in text


async def test_what_was_made_of_a_preset_is_no_longer_called_by_its_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        was = dict(app.form.workload)
        await app.form.change({"request_rate_per_s": 8.0})
        await settle(pilot)
        assert not {"title", "description"} & app.form.workload.keys()
        await pilot.press("e", "enter")
        await settle(pilot)
        one_file(tmp_path, "llama-3.1-70b-serve-*.json")
        await pilot.press("Y")
        await pilot.pause()
        assert (
            tmp_path / "state" / "last-copy.txt"
        ).read_text().strip() == "gpu-planner plan chat-70b-sla --set request_rate_per_s=8.0"
        await app.form.change({"request_rate_per_s": was["request_rate_per_s"]})
        assert dict(app.form.workload) == was


async def test_a_load_given_in_another_way_replaces_the_one_there_was(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-concurrency", Input).value = "20"
        await settle(pilot)
        assert (app.form.workload.get("concurrency"), app.form.workload.get("request_rate_per_s")) == (20, None)
        assert "load 16.7 → none" in await first_note(pilot)
        await app.form.undo()
        assert (app.form.workload.get("concurrency"), app.form.workload.get("request_rate_per_s")) == (None, 16.7)


async def test_the_theme_is_previewed_and_remembered(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("t")
        await pilot.pause()
        await pilot.press("down")
        await pilot.pause()
        assert app.theme == "planner-light"
        await pilot.press("enter")
        await pilot.pause()
    assert app_in(tmp_path).theme == "planner-light"
    assert app_in(tmp_path, colour=False).theme == "ansi-dark"


async def test_a_preset_that_cannot_be_opened_leaves_a_plan_on_screen(tmp_path: Path) -> None:
    app = app_in(tmp_path, preset="chat-70b-sal")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        said = await first_note(pilot)
        assert "chat-70b-sal" in said
        assert "chat-70b-sla" in said


async def test_a_fault_of_the_program_is_said_and_survived(tmp_path: Path) -> None:
    def broken() -> Any:
        raise RuntimeError("no session today")

    app = app_in(tmp_path, open_session=broken)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        assert "no session today" in await first_note(pilot)
        assert app.is_running
        assert "no session today" in (tmp_path / "state" / "last-fault.txt").read_text()
        await pilot.press("q")


async def test_the_real_planner_ranks_the_real_catalogue(tmp_path: Path) -> None:
    app = PlannerApp(AppOptions(state=tmp_path / "state", config=tmp_path / "config", telemetry=False))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        assert app.preset is not None
        assert app.preset.name == "llama-3.1-70b-chat-service"
        assert len({row.gpu for row in app.table.rows}) >= 15
        assert len(app.table.rows) >= 40
        first = app.table.rows[0]
        await pilot.press("1")
        app.form.query_one("#field-output-tokens", Input).value = "800"
        await settle(pilot)
        assert app.table.rows[0] != first
        app.form.query_one("#field-output-tokens", Input).value = "-5"
        await settle(pilot)
        assert app.form.query_one("#fault-field-output-tokens").display
        app.form.query_one("#field-output-tokens", Input).value = "800"
        for name in app.form.presets[:2]:
            await app.run_action("app.act('preset')")
            await pilot.pause()
            app.screen.dismiss(name.value)
            await settle(pilot)
            assert app.preset is not None
            assert app.preset.name == name.value
            assert app.table.rows, name
            lines = [app.table.render_line(y).text for y in range(app.table.size.height)]
            assert all(len(line) == app.table.size.width for line in lines)


async def test_r_reads_everything_again_and_keeps_the_form(tmp_path: Path) -> None:
    """A preset and a price that came in the meantime are there; what was typed stays."""
    opened: list[SampleSession] = []

    def open_session() -> Session:
        opened.append(SampleSession(tmp_path))
        return cast("Session", opened[-1])

    app = app_in(tmp_path, open_session=open_session)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-output-tokens", Input).focus()
        await pilot.press("end", "0", "escape")
        await settle(pilot)
        plan = app.plan
        (tmp_path / "config" / "presets").mkdir(parents=True)
        opened[0].presets.save("mine", opened[0].planned[-1])
        assert "mine" not in [item.value for item in app.form.presets]
        await pilot.press("r")
        await settle(pilot)
        assert len(opened) == 2, "everything comes from a session that has read nothing before"
        assert [workload.output_tokens for workload in opened[1].planned] == [2000]
        assert app.plan is not plan
        assert "mine" in [item.value for item in app.form.presets]
        assert app.form.workload["output_tokens"] == 2000


async def test_r_waits_for_a_benchmark(tmp_path: Path) -> None:
    app = app_in(tmp_path)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await settle(pilot)
        assert app.benchmark is not None
        app.benchmark.run.state = "running"
        await pilot.press("r")
        await pilot.pause()
        assert "the plan uses its results" in await first_note(pilot)
