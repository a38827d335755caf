"""Several workloads on one stock: the mix for a file of them, and what to own, commit to and rent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent
from typing import TYPE_CHECKING

from textual import on
from textual.widgets import Input

from widgets.base_app import BaseApp
from widgets.drawing.text_field import TextField
from widgets.screens.decisions.turning import TurningScreen

if TYPE_CHECKING:
    from planner.engine.procurement.portfolio.records import Portfolio
    from planner.present.cells import Section
    from planner.session import Session


def open_screen(app: BaseApp) -> None:
    """Ask for the file."""
    app.push_screen(PortfolioScreen(app))


EXAMPLE = """\
months = 12
own = [{ gpu = "L40S", count = 8 }]

[[workload]]
name = "chat"
preset = "llama-3.1-70b-chat-service"
load = [2, 1, 1, 1, 1, 2, 4, 6, 8, 10, 10, 10,
    9, 9, 10, 10, 9, 8, 8, 7, 6, 5, 4, 3]

[[workload]]
name = "tuning"
preset = "llama-3.1-8b-lora"
runs_per_month = 4"""
"""A small example of the file: a service whose load varies over the day, and a job."""


class PortfolioScreen(TurningScreen):
    """Path of a file above the mix for it."""

    DEFAULT_CSS = """
    PortfolioScreen {
        TextField { height: 1; border: none; background: $panel; }
        #text { margin: 1 0 0 0; }
    }
    """
    KEYS = "enter reads the file · esc back"
    WAITING = f"enter computes what runs where, and what to own, commit to and rent.\n\nSuch a file:\n\n{indent(EXAMPLE, '    ')}"
    ASKS_AT_ONCE = False
    AUTO_FOCUS = "#portfolio-file"

    def __init__(self, app: BaseApp) -> None:
        super().__init__(app, "Portfolio")

    def above(self) -> Iterator[TextField]:
        """Path."""
        yield TextField(placeholder="path of a .toml file of workloads", id="portfolio-file")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self.ask_again()

    async def sections(self, _chosen: Mapping[str, str]) -> Sequence[Section]:
        """Assignment of workloads to pools, and what is used of each pool."""
        from planner.engine.procurement.portfolio.records import PortfolioFile
        from planner.present.money.portfolio import portfolio_sections
        from planner.reading import read_toml, user_path
        from planner.schema import read_struct

        given, basis = self.query_one("#portfolio-file", TextField).value.strip(), self._planner.basis

        def asked(session: Session) -> Portfolio:
            path = user_path(given)
            return session.portfolio(read_struct(PortfolioFile, read_toml(path), str(path)), str(path), basis=basis)

        return portfolio_sections(await self._planner.ask(asked))
