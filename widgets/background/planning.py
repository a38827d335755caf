"""The session on a thread of its own, so that the screen never waits for it and it never runs twice at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from textual.message import Message

from planner.errors import Problem, UserError

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.answers.plan import Plan
    from planner.session import Session

Answer = TypeVar("Answer")
SETTLED_S = 0.3
"""Seconds without a newer workload after which the user has stopped typing."""


class SessionThread:
    """Asks the session one question at a time; it is opened by the first."""

    def __init__(self, open_session: Callable[[], Session]) -> None:
        self._open = open_session
        self._session: Session | None = None
        self._answering = False
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planner")

    async def ask(self, question: Callable[[Session], Answer]) -> Answer:
        """The answer to `question`; raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._answer, question)

    async def reopen(self) -> None:
        """Forget the session, once it has answered what it was asked before; the next question opens another, which reads all anew."""
        await asyncio.get_running_loop().run_in_executor(self._executor, self._forget)

    def _forget(self) -> None:
        self._session = None

    @property
    def busy(self) -> bool:
        """Whether it is answering."""
        return self._answering

    def close(self) -> None:
        """Take no more questions; the one being answered ends by itself."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _answer(self, question: Callable[[Session], Answer]) -> Answer:
        self._answering = True
        try:
            if self._session is None:
                self._session = self._open()
            return question(self._session)
        finally:
            self._answering = False


@dataclass
class PlanReady(Message):
    """A new plan for a workload."""

    plan: Plan
    workload: Mapping[str, Any]
    basis: BasisChoice
    warnings: Sequence[str] = ()
    """Faults of the measurements that it rests on."""


@dataclass
class PlanRefused(Message):
    """The workload cannot be planned as it stands."""

    problems: tuple[Problem, ...]


class PlanLoop:
    """Plans the newest workload asked for; older ones that had not begun are dropped."""

    def __init__(self, thread: SessionThread, post: Callable[[Message], object]) -> None:
        self._thread = thread
        self._post = post
        self._wanted: tuple[dict[str, Any], str, BasisChoice] | None = None
        self._running = False
        self.answered = asyncio.Event()
        """Set once there was a plan, or a refusal."""

    async def ask(self, workload: dict[str, Any], where: str, basis: BasisChoice) -> None:
        """Plan `workload`; the outcome comes as a message."""
        self._wanted = (workload, where, basis)
        if self._running:
            return
        self._running = True
        try:
            while (wanted := self._wanted) is not None:
                self._wanted = None
                await self._plan(*wanted)
        finally:
            self._running = False

    def forget(self) -> None:
        """Drop what was asked for but not begun."""
        self._wanted = None

    async def _plan(self, workload: dict[str, Any], where: str, basis: BasisChoice) -> None:
        """The ranking at once; what would help the losers when nothing newer is asked for in the meantime."""

        def ranking(session: Session) -> tuple[Plan, Sequence[str]]:
            return session.plan(session.workload(workload, where), basis=basis, levers=False), tuple(session.warnings)

        def advice(session: Session) -> Plan:
            return session.plan(session.workload(workload, where), basis=basis, hints=True)

        try:
            plan, warnings = await self._thread.ask(ranking)
        except UserError as wrong:
            self._post(PlanRefused(wrong.problems))
            return
        finally:
            self.answered.set()
        self._post(PlanReady(plan, workload, basis, warnings))
        if all(row.rank or row.here for row in plan.rows):
            return
        await asyncio.sleep(SETTLED_S)
        if self._wanted is None:
            self._post(PlanReady(await self._thread.ask(advice), workload, basis))
