"""The box that finds and sets: what a text typed into it may mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList, Static
from tui_sample import PRESET, sample_options, settle

from widgets.app import PlannerApp
from widgets.omnibox.box_actions import run_suggestion
from widgets.omnibox.finding import ALSO, Kind, Suggestion, find, generation, near, of_fields, setting
from widgets.omnibox.screen import MOST, OmniScreen
from widgets.panes.workload.fields import FIELDS, fields_for
from widgets.screens.picker import Item, PickerScreen

SUGGESTIONS = [
    Suggestion("model", "llama-3.1-70b"),
    Suggestion("model", "qwen3-4b"),
    Suggestion("model", "qwen3-14b"),
    Suggestion("gpu", "L40S"),
    Suggestion("command", "undo", "takes the last change back"),
]
SERVICE = {"task": "serve", "model": "qwen3-14b", "request_rate_per_s": 5, "sharding": "none"}


@pytest.mark.parametrize("typed", ["llama3 70b", "llama 70b", "LLAMA31 70B", "3.1-70b"])
def test_the_signs_between_the_parts_of_a_name_may_be_left_out(typed: str) -> None:
    assert [suggestion.value for suggestion in find(typed, SUGGESTIONS)] == ["llama-3.1-70b"]


MODELS = (
    "llama-1-7b",
    "llama-2-7b",
    "llama-3-70b",
    "llama-3-8b",
    "llama-3.1-70b",
    "llama-3.1-405b",
    "llama-4-scout",
    "qwen-14b",
    "qwen-7b",
    "qwen2-57b-a14b",
    "qwen3-14b",
    "qwen3.5-27b",
    "qwen3-8b",
)


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("llama", ["llama-4-scout", "llama-3.1-70b", "llama-3.1-405b", "llama-3.1-70b-chat-service", "llama-3-8b", "llama-3-70b"]),
        ("llama-3", ["llama-3-8b", "llama-3-70b", "llama-3.1-70b"]),
        ("qwen", ["qwen3.5-27b", "qwen3-8b", "qwen3-14b", "qwen2-57b-a14b", "qwen-7b"]),
        ("qwen3", ["qwen3-8b", "qwen3-14b", "qwen3.5-27b"]),
        ("llama 70b", ["llama-3.1-70b", "llama-3-70b"]),
        ("qwen 14b", ["qwen3-14b", "qwen-14b", "qwen2-57b-a14b"]),
        ("l4", ["L4", "L40S"]),
    ],
)
def test_the_newest_generation_of_a_family_is_listed_first(typed: str, first: list[str]) -> None:
    gpus = [Suggestion("gpu", name) for name in ("L40S", "L4")]
    presets = [Suggestion("preset", "llama-3.1-70b-chat-service")]
    found = find(typed, [*(Suggestion("model", name) for name in MODELS), *gpus, *presets])
    wanted = [suggestion.value for suggestion in found if " " not in typed or suggestion.kind == "model"]
    assert wanted[: len(first)] == first


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("llama-3.1-70b", 3.1),
        ("gemma-3n-e2b", 3),
        ("kimi-k2.5", 2.5),
        ("ling-1t", 0),
        ("mixtral-8x7b", 0),
        ("command-r-08-2024", 0),
    ],
)
def test_the_generation_of_a_name_is_no_size_and_no_date(name: str, stated: float) -> None:
    assert generation(name) == stated


def test_a_name_typed_wrongly_is_told_the_names_spelled_alike() -> None:
    assert not find("qwne3-14b", SUGGESTIONS)
    assert [suggestion.value for suggestion in near("qwne3-14b", SUGGESTIONS)][:2] == ["qwen3-14b", "qwen3-4b"]
    assert not near("zzzz", SUGGESTIONS)


@pytest.mark.parametrize(
    ("typed", "settings"),
    [
        ("20 users", ["users=20", "at once=20"]),
        ("users 20", ["users=20", "at once=20"]),
        ("2.5 req/s", ["load=2.5"]),
        ("4k input", ["input=4k"]),
        ("20 at once", ["at once=20"]),
        ("p95 5", ["p95 total=5", "p95 TTFT=5", "p95 TPOT=5"]),
        ("12 tokens", ["input=12", "output=12", "cached=12", "iteration=12"]),
        ("20 people", ["users=20"]),
        ("p95 < 5", ["p95 total=5", "p95 TTFT=5", "p95 TPOT=5"]),
        ("budget<=5000", ["budget=5000"]),
        ("4 gpus", ["at most=4"]),
        ("20 cats", []),
        ("users many", []),
    ],
)
def test_an_amount_with_the_name_of_a_field_is_a_setting(typed: str, settings: list[str]) -> None:
    found = find(typed, SUGGESTIONS, fields_for(SERVICE))
    assert [suggestion.value for suggestion in found if suggestion.kind == "setting"] == settings
    for text in settings:
        assert setting(text, SERVICE)


async def test_a_command_is_found_by_the_words_beside_its_key(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("colon", *"rent or buy")
        await settle(pilot)
        assert "own" in str(app.screen.query_one(OptionList).get_option_at_index(0).prompt)


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("p95", ["p95 total", "p95 TTFT", "p95 TPOT"]),
        ("budget", ["budget"]),
        ("users", ["users", "at once"]),
        ("context", ["input", "output"]),
        ("output_tokens", ["output"]),
        ("spot", ["market"]),
    ],
)
def test_a_field_is_found_by_its_label_its_key_and_what_people_call_it(typed: str, first: list[str]) -> None:
    found = [suggestion for suggestion in find(typed, [*SUGGESTIONS, *of_fields(SERVICE)]) if suggestion.kind == "field"]
    assert [suggestion.value for suggestion in found][: len(first)] == first


def test_every_word_that_people_call_a_field_by_is_of_one() -> None:
    assert ALSO.keys() <= {field.key for field in FIELDS}


async def test_a_field_that_is_taken_has_the_cursor_and_an_amount_sets_it(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("colon", *"p95")
        await settle(pilot)
        assert "p95 total=VALUE sets it" in str(app.screen.query_one("#omni-preview", Static).content)
        await pilot.press("enter")
        await settle(pilot)
        assert (app.active_pane, app.focused and app.focused.id) == ("workload", "field-targets-p95-request-s")
        await pilot.press("escape", "colon", *"providers", "enter")
        await settle(pilot)
        assert app.focused is not None
        assert app.focused.id == "field-providers", "its group was folded"
        await pilot.press("escape", "colon", *"p95=4", "enter")
        await settle(pilot)
        assert app.form.workload["targets"]["p95_request_s"] == 4


def test_a_field_takes_the_word_that_stands_in_it_while_it_is_empty() -> None:
    assert setting("load=none", SERVICE) == {"request_rate_per_s": None}
    assert setting("slots=auto", SERVICE) == {"max_num_seqs": None}
    assert setting("sharding=none", SERVICE | {"task": "train"}) == {"sharding": "none"}, "there it is a value"
    assert setting("uneven=1", SERVICE) == {"arrival_variation": 1}
    with pytest.raises(ValueError, match="'nothing' is not a number"):
        setting("load=nothing", SERVICE)


@pytest.mark.parametrize(
    ("typed", "kind", "detail"),
    [
        ("./mine.toml", "preset", "a preset on this machine"),
        ("/models/Mine.GGUF", "model", "a GGUF file on this machine"),
        ("~/models/mine/config.json", "model", "config.json on this machine"),
        ("./mine", "model", "config.json on this machine"),
    ],
)
def test_a_path_is_what_its_end_says(typed: str, kind: Kind, detail: str) -> None:
    assert find(typed, [])[0] == Suggestion(kind, typed, detail)


async def test_a_preset_is_opened_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('title = "Mine"\nmodel = "qwen3-8b"\ntask = "generate"\ninput_tokens = 77\noutput_tokens = 5\nbatch = 1\n')
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("colon", *str(path), "enter")
        await settle(pilot)
        assert (app.preset and app.preset.name, app.form.workload["input_tokens"]) == ("mine", 77)


async def test_of_more_things_than_are_listed_the_box_says_how_many(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await app.push_screen(
            OmniScreen(
                app, lambda: [Suggestion("model", f"{'ab'[number % 2]}-{number}") for number in range(2 * MOST + 2)], "Model"
            )
        )
        assert app.screen.query_one(OptionList).option_count == MOST
        assert str(app.screen.query_one("#omnibox").border_title) == f"Model · {MOST} of {2 * MOST + 2}"
        await pilot.press("a", "hyphen", "1")
        assert str(app.screen.query_one("#omnibox").border_title) == "Model"


async def test_a_list_that_is_open_takes_the_words_of_another_width(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        detail = "one of many words (and in brackets what there is room for beside it)"
        await app.push_screen(PickerScreen("Pick", [Item("first"), Item("second-of-them", detail=detail)], "second-of-them"))
        for width, told in ((80, False), (120, True), (80, False)):
            await pilot.resize_terminal(width, 24)
            await settle(pilot)
            listing = app.screen.query_one(OptionList)
            assert ("in brackets" in str(listing.get_option_at_index(1).prompt)) is told
            assert listing.highlighted == 1


async def test_the_box_says_what_there_is_room_for_and_cuts_no_word(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path, ascii_only=True))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        found = [
            Suggestion("model", "first"),
            Suggestion("model", "beam-1.0-501b-a23b", "Beam 1.0 501B-A23B (mixture of experts, each small)"),
            Suggestion("command", "long", "one word after the other until there is no more room for any of them, and on"),
        ]
        await app.push_screen(OmniScreen(app, lambda: found, "Find"))
        await pilot.press("down", "down")
        for width, told in ((80, "Beam 1.0 501B-A23B"), (120, found[1].detail), (80, "Beam 1.0 501B-A23B")):
            await pilot.resize_terminal(width, 24)
            await settle(pilot)
            listing = app.screen.query_one(OptionList)
            assert str(listing.get_option_at_index(1).prompt).partition("a23b")[2].strip() == told
            assert listing.highlighted == 1
        cut = str(listing.get_option_at_index(2).prompt).rsplit(maxsplit=1)
        assert cut[1] == ".."
        assert found[2].detail.startswith(cut[0].partition("long")[2].strip() + " ")


async def test_the_names_spelled_alike_are_listed_and_taken_only_when_picked(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("colon", *"qwne3-0.6b")
        await settle(pilot)
        box = app.screen
        assert "no match; down selects" in str(box.query_one("#omni-preview", Static).content)
        assert "qwen3-0.6b" in str(box.query_one(OptionList).get_option_at_index(0).prompt)
        await pilot.press("enter")
        await settle(pilot)
        assert app.screen is box
        assert str(box.query_one("#omni-preview", Static).content).startswith("no match")
        await pilot.press("down", "enter")
        await settle(pilot)
        assert str(box.query_one("#omni-preview", Static).content) == "model: 'qwen3-0.6b' has no layers here.", "it was looked up"


async def test_a_model_taken_by_name_tells_what_stays_of_the_preset(tmp_path: Path) -> None:
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await app.form.change({"output_tokens": 50})
        app.clear_notifications()
        await plan_model_by_setting(pilot, "qwen3-0.6b")
        (note,) = app._notifications
        assert note.title == f"The rest is as in {PRESET}"
        assert note.message.startswith("load 16.7 req/s, input 600 tokens, weights fp8, KV cache fp8, p95 total 5 s")
        assert "output" not in note.message, "the user gave it"
        app.clear_notifications()
        await plan_model_by_setting(pilot, "llama-3.1-8b")
        assert not list(app._notifications), "it was told for this preset"


async def plan_model_by_setting(pilot: Pilot[None], name: str) -> None:
    """Take another model, which the sample's planner has no layers of, without the box that looks it up."""
    assert isinstance(pilot.app, PlannerApp)
    await run_suggestion(pilot.app, Suggestion("setting", f"model={name}"))
    await settle(pilot)


@pytest.mark.parametrize(
    ("typed", "changes"),
    [
        ("input=500 output=40", {"input_tokens": 500, "output_tokens": 40}),
        ("input_tokens=500  max_gpus=2 model=qwen3-4b", {"input_tokens": 500, "max_gpus": 2, "model": "qwen3-4b"}),
        ("p95 total=5s", {"targets.p95_request_s": 5}),
        ("at most = 4", {"max_gpus": 4}),
    ],
)
def test_several_settings_may_stand_in_one_line(typed: str, changes: dict[str, object]) -> None:
    assert setting(typed, SERVICE) == changes


def test_what_follows_a_value_and_is_no_key_belongs_to_it() -> None:
    with pytest.raises(ValueError, match="'500 cats=2' is not a number"):
        setting("output=500 cats=2", SERVICE)


def test_a_number_of_gpus_finds_them_by_any_word_of_their_name() -> None:
    cards = [Suggestion("gpu", name) for name in ("RTX 4090", "RTX 4090 D", "RTX 5090", "L40S")]
    assert [one.value for one in find("1 x 4090", cards) if one.kind == "machines"] == ["1 × RTX 4090", "1 × RTX 4090 D"]
    assert [one.value for one in find("8 x l4", cards) if one.kind == "machines"] == ["8 × L40S"]
    assert not [one for one in find("2 090", cards) if one.kind == "machines"], "not from the middle of a word"


async def test_enter_takes_nothing_from_a_box_in_which_nothing_was_typed(tmp_path: Path) -> None:
    """It took the first model of the alphabet."""
    app = PlannerApp(sample_options(tmp_path))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        before = dict(app.form.workload)
        await pilot.press("colon", "enter")
        await settle(pilot)
        assert isinstance(app.screen, OmniScreen)
        assert "down goes through the list" in str(app.screen.query_one("#omni-preview", Static).content)
        assert app.form.workload == before
        await pilot.press("down")
        assert app.screen.query_one(OptionList).highlighted == 0
