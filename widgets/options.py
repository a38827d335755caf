"""Options the terminal front end was started with."""

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from planner.session import Session


class AppOptions(NamedTuple):
    """Everything that decides how the app starts; nothing here is read from the environment."""

    preset: str | None = None
    """Name of a preset or path of a preset file; None: go on where the last start ended."""
    model: str | None = None
    """Model that is planned in place of the preset's."""
    state: Path | None = None
    """Folder of measurements and remembered choices; None: the user's own."""
    config: Path | None = None
    """Folder of the user's presets and config.toml; None: the user's own."""
    python: str | None = None
    """Interpreter the benchmark runs under; None: this one."""
    suite: str = "quick"
    """Suite that `b` measures."""
    theme: str | None = None
    """Theme to start with; None: the remembered one."""
    ascii_only: bool = False
    colour: bool = True
    """False: emit no colour at all."""
    telemetry: bool = True
    """False: do not watch this machine."""
    telemetry_interval_s: float = 1.0
    replay: Path | None = None
    """A recording to show instead of this machine."""
    tour: bool = False
    """Explain the screen at the first start."""
    demo: bool = False
    """Show the recording that is shipped."""
    today: dt.date | None = None
    """Date the age of prices is counted from; None: the clock's."""
    keymap: Mapping[str, str] = MappingProxyType({})
    """Action id -> keys, separated by commas."""
    open_session: Callable[[], "Session"] | None = None
    """Opener of the planner; None: `Session.open` with the folders above."""

    def session(self) -> "Session":
        """Open the planner."""
        if self.open_session is not None:
            return self.open_session()
        from planner.session import Session

        return Session.open(state=self.state, config=self.config)
