"""The screen tells what is not kept: measurements that plans do without, choices, exports."""

from __future__ import annotations

from pathlib import Path

import pytest
from tui_sample import SampleSession, sample_options, settle

from widgets.actions.program import use_theme
from widgets.app import PlannerApp


@pytest.mark.screen
async def test_what_is_not_kept_is_told_on_the_screen(tmp_path: Path) -> None:
    (tmp_path / "measured").mkdir()
    (tmp_path / "measured" / "measurements.jsonl").write_bytes(b'{"layout":99}\n')
    session = SampleSession(tmp_path)
    assert session.store.latest() == ()
    state = tmp_path / "state"
    state.write_text("a file where the folder should be")
    app = PlannerApp(sample_options(tmp_path, open_session=lambda: session, state=state))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        use_theme(app, "nord")
        await pilot.pause()
        said = {note.title: note.message for note in app._notifications}
    assert "was written by a later version" in said["Measurements"]
    assert "cannot be written" in said["Not saved for the next start"]
