"""What is typed into the form: refused in the words of the form, and never taken for something else."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.widgets import Input
from tui_sample import PRESET, first_note, sample_options, settle

from planner.errors import Problem
from planner.present.labels import key_of, problem_text, with_labels
from planner.workload.changes import LABELS
from planner.workload.tasks import Request, Targets
from widgets.actions.sessions import open_session
from widgets.app import PlannerApp
from widgets.panes.answer import AnswerLine
from widgets.panes.headline import Headline
from widgets.panes.workload import values
from widgets.panes.workload.field_line import FieldInput
from widgets.panes.workload.fields import FIELDS
from widgets.start import open_preset
from widgets.state.state_files import session_names


def test_every_field_has_a_label_and_every_label_a_field() -> None:
    assert {field.key for field in FIELDS} == set(LABELS)
    assert all(len(label) <= 10 for label in LABELS.values())
    fields = set(Request.__struct_fields__) | {f"targets.{name}" for name in Targets.__struct_fields__} | {"lora.rank", "lora.base"}
    assert set(LABELS) <= fields


@pytest.mark.parametrize(
    ("label", "key"),
    [("users", "daily_users"), ("Load", "request_rate_per_s"), ("at once", "concurrency"), ("p95 TTFT", "targets.p95_ttft_s")],
)
def test_a_label_leads_to_its_key(label: str, key: str) -> None:
    assert key_of(label) == key


def test_a_key_is_no_label() -> None:
    assert [key_of(key) for key in ("batch", "model", "requests", "gpus", "daily_users", "nothing")] == [""] * 6


def test_a_message_names_labels_beside_keys() -> None:
    assert problem_text(Problem("", "daily_users", "is not accepted beside request_rate_per_s.")) == (
        "users (daily_users): is not accepted beside load (request_rate_per_s)."
    )
    assert with_labels("of the batch, beside targets.p95_request_s and my_daily_users_file") == (
        "of the batch, beside p95 total (targets.p95_request_s) and my_daily_users_file"
    )
    assert problem_text(Problem("", "engine", "is unknown.")) == "engine: is unknown."


@pytest.mark.parametrize(
    ("text", "says"), [("1.5", "not a whole number; a fraction is accepted as a mean"), ("abc", "is not a number")]
)
def test_a_length_is_whole(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        values.parse("lengths", text)
    assert values.parse("lengths", "1.5/4") == {"mean": 1.5, "p95": 4.0}


async def test_a_sign_before_a_number_is_never_dropped_in_silence(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        entry = app.form.query_one("#field-input-tokens", FieldInput)
        app.show_pane("workload")
        entry.focus()
        entry.value = ""
        await pilot.press(*"-5")
        await settle(pilot)
        assert entry.value == "-5"
        assert app.form.faults or "-5" in str(app.main.query_one(AnswerLine).content)
        entry.value = "512"
        entry.action_select_all()
        await pilot.press("-", "5")
        assert entry.value == "5"
        assert "took the next value down" in await first_note(pilot)


@pytest.mark.parametrize(
    ("typed", "says"), [("600/100", "p95 = 100 is below the mean of 600"), ("0", "or mean/p95, such as 600/1500")]
)
async def test_what_no_request_can_have_is_said_at_its_field(tmp_path: Path, typed: str, says: str) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.show_pane("workload")
        app.form.query_one("#field-input-tokens", FieldInput).focus()
        await pilot.press(*typed)
        await settle(pilot)
        assert says in str(app.form.query_one("#fault-field-input-tokens").content)  # type: ignore[attr-defined]


def headline(app: PlannerApp) -> str:
    return str(app.main.query_one(Headline).content)


async def test_an_answer_to_what_was_asked_before_is_told_as_such(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-input-tokens", FieldInput).focus()
        for typed in ("abc", "0"):  # cannot be read, cannot be planned
            await pilot.press("home", "shift+end", *typed)
            await settle(pilot)
            assert "last answer: " in headline(app), typed
        await pilot.press("home", "shift+end", *"700")
        await settle(pilot)
        assert "last answer" not in headline(app)
        assert "700 in" in headline(app)


@pytest.mark.parametrize("typed", ["0", "abc"])
async def test_a_refused_value_that_was_put_back_does_not_return_by_undo(tmp_path: Path, typed: str) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.show_pane("workload")
        await app.form.change({"output_tokens": 300})
        await settle(pilot)
        app.form.query_one("#field-input-tokens", FieldInput).focus()
        await pilot.press(*typed)
        await settle(pilot)
        assert app.form.query(".-faulty")
        await pilot.press("ctrl+r")
        await settle(pilot)
        assert (app.form.workload["input_tokens"], app.form.workload["output_tokens"]) == (600, 300)
        await app.form.undo()
        assert (app.form.workload["input_tokens"], app.form.workload["output_tokens"]) == (600, 200)


async def test_a_form_that_was_changed_is_kept_when_another_preset_is_opened(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await open_preset(app, "study-600m")
        await settle(pilot)
        assert not session_names(app.options.state), "nothing was changed"
        await app.form.change({"micro_batch": 3})
        await settle(pilot)
        await open_preset(app, PRESET)
        await settle(pilot)
        (name,) = session_names(app.options.state)
        assert f"J restores {name}" in await first_note(pilot)
        open_session(app, name)
        await settle(pilot)
        assert app.form.workload["micro_batch"] == 3


@pytest.mark.parametrize(
    "burst",
    [
        ["backspace", *"2048"],
        pytest.param(["backspace"] * 3 + [*"2048"], marks=pytest.mark.thorough),
        pytest.param([*"20", "left", *"48"], marks=pytest.mark.thorough),
        pytest.param([*"700", "tab", *"90"], marks=pytest.mark.thorough),
        ["down", "down", "up", "backspace", *"50", "shift+tab", *"800"],
    ],
)
async def test_a_burst_of_keys_is_typed_in_its_order(tmp_path: Path, burst: list[str]) -> None:
    """Keys that wait together, as on a slow connection, give what slow ones give."""
    texts = []
    for together in (True, False):
        app = PlannerApp(sample_options(tmp_path))
        async with app.run_test(size=(120, 40)) as pilot:
            await settle(pilot)
            editor = app.form.query_one("#field-input-tokens", Input)
            editor.focus()
            await pilot.pause()
            for key in burst:
                app.post_message(events.Key(key, key if len(key) == 1 else None))
                if not together:
                    await pilot.pause()
            await settle(pilot)
            texts.append((editor.value, *(app.form.workload[key] for key in ("input_tokens", "output_tokens"))))
    assert texts[0] == texts[1]


async def test_what_cannot_be_read_stays_while_another_field_is_edited(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        entry = app.form.query_one("#field-input-tokens", FieldInput)
        entry.focus()
        await pilot.press(*"12x", "tab", *"300")
        await settle(pilot)
        assert app.form.workload["output_tokens"] == 300
        assert entry.value == "12x", "the words below it speak of it"
        await app.form.change({"input_tokens": 800})
        assert (entry.value, app.form.faults) == ("800", {}), "what is set elsewhere takes its place"


async def test_a_chosen_value_is_never_cut_within_its_number(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        app.form.filled_in({"concurrency": 12345})
        entry = app.form.query_one("#field-concurrency", FieldInput)
        assert entry.placeholder == "12345"
        await pilot.resize_terminal(80, 24)
        await pilot.press("1")
        await settle(pilot)
        assert entry.placeholder == "auto 12345", "there is room for both"


@pytest.mark.parametrize(
    ("key", "typed", "value"),
    [
        ("targets.deadline_h", "10h", 10),
        ("targets.deadline_h", "1 d", 24),
        ("targets.budget_usd", "20 $", 20),
        ("targets.burst", "20 %", 0.2),
        ("targets.p95_request_s", "500ms", 0.5),
        ("input_tokens", "4k tokens", 4000),
        ("max_gpus", "2 GPUs", 2),
    ],
)
def test_a_field_takes_its_own_unit_behind_the_number(key: str, typed: str, value: float) -> None:
    field = next(one for one in FIELDS if one.key == key)
    assert field.read(typed) == value


async def test_users_in_place_of_a_load_say_what_is_taken_for_granted_of_them(tmp_path: Path) -> None:
    """The note gave the first digit typed as the number of users, and nothing said how much each of them asks."""
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 40)) as pilot:
        await settle(pilot)
        app.form.query_one("#field-daily-users", FieldInput).focus()
        await pilot.press("5", "0")
        await settle(pilot)
        said = await first_note(pilot)
        assert (
            said
            == "load 16.7 → none. Taken for granted of the users: 10 messages a day each, and 3 times the mean in the busiest hour."
        )
        assert app.form.workload["daily_users"] == 50
