"""Session behind the screen, which never waits for it: searches in a process of their own, short questions in a thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from textual.message import Message

from planner.errors import Problem, UserError
from widgets.background import questions
from widgets.background.opened import PlanQuestion
from widgets.background.planner_process import Forgotten, PlannerProcess, UnansweredError

if TYPE_CHECKING:
    from planner.ceilings_cache import BasisChoice
    from planner.engine.answers.plan import Plan, PlanRow
    from planner.session import Session

Answer = TypeVar("Answer")
SETTLED_S = 0.3
"""Seconds without a newer workload after which the user has stopped typing."""


class SessionThread:
    """Puts questions to the session one at a time; the first opens it. A planner process, where there is one, has a session of its own."""

    def __init__(self, open_session: Callable[[], Session]) -> None:
        self._open = open_session
        self._session: Session | None = None
        self.busy = False
        """True if it is answering."""
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planner")
        self.process: PlannerProcess | None = None
        """A process for questions that take long; None: they are asked here too."""
        self._waiting = ThreadPoolExecutor(max_workers=1, thread_name_prefix="planner-process")
        """Thread that waits for the process."""

    async def ask(self, question: Callable[[Session], Answer]) -> Answer:
        """Answer to `question`; raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._answer, question)

    async def search(self, question: Callable[..., Answer], asked: PlanQuestion, *rows: PlanRow) -> Answer:
        """Answer to a question of `widgets.background.questions` about the workload of `asked`, or `rows` of its plan; raises what it raises."""
        if self.process is not None:
            with contextlib.suppress(UnansweredError):
                answer: Answer = await asyncio.get_running_loop().run_in_executor(
                    self._waiting, self.process.ask, question.__name__, asked, rows
                )
                return answer
        return await self.ask(lambda session: questions.about(session, question, asked, rows))

    async def first_plan(self, asked: PlanQuestion) -> tuple[Plan, Sequence[str]] | None:
        """Plan that the process began with, once it is there; None if that answers another question than `asked`."""
        if self.process is None:
            return None
        return await asyncio.get_running_loop().run_in_executor(self._waiting, self.process.first_plan, asked)

    async def refresh(self) -> None:
        """Forget the measurements read so far."""
        self._outdated("measurements")
        await self.ask(_refreshed)

    async def reopen(self) -> None:
        """Forget the session once earlier questions are answered; the next question opens another, which reads everything anew."""
        self._outdated("session")
        await asyncio.get_running_loop().run_in_executor(self._executor, self._forget)

    def _outdated(self, what: Forgotten) -> None:
        if self.process is not None:
            self.process.forget(what)

    def _forget(self) -> None:
        self._session = None

    def close(self) -> None:
        """Take no more questions; the one being answered in a thread ends by itself."""
        if self.process is not None:
            self.process.end()
        for executor in (self._waiting, self._executor):
            executor.shutdown(wait=False, cancel_futures=True)

    def _answer(self, question: Callable[[Session], Answer]) -> Answer:
        self.busy = True
        try:
            if self._session is None:
                self._session = self._open()
            return question(self._session)
        finally:
            self.busy = False


def _refreshed(session: Session) -> None:
    session.refresh()


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
    """Plans the newest workload; older ones that had not begun are dropped."""

    def __init__(self, thread: SessionThread, post: Callable[[Message], object]) -> None:
        self._thread = thread
        self._post = post
        self._wanted: PlanQuestion | None = None
        self._running = False
        self._first = True
        """True if nothing was planned yet: the answer of the process's own is taken once, as a later question is a new one, even in the same words."""
        self.answered = asyncio.Event()
        """Set once there was a plan, or a refusal."""

    async def ask(self, workload: dict[str, Any], where: str, basis: BasisChoice) -> None:
        """Plan `workload`; the outcome comes as a message."""
        self._wanted = PlanQuestion(workload, where, basis)
        if self._running:
            return
        self._running = True
        try:
            while (wanted := self._wanted) is not None:
                self._wanted = None
                await self._plan(wanted)
        finally:
            self._running = False

    def forget(self) -> None:
        """Drop the workload that waits."""
        self._wanted = None

    async def has_first_plan(self, asked: PlanQuestion) -> bool:
        """True if the first plan of the planner process answers `asked`; waits for that plan."""
        return self._first and await self._thread.first_plan(asked) is not None

    async def _plan(self, asked: PlanQuestion) -> None:
        """Ranking at once; the changes that would help other rows if no newer workload comes meanwhile."""
        first, self._first = self._first, False
        try:
            found = await self._thread.first_plan(asked) if first else None
            if found is None:
                found = await self._thread.search(questions.ranking, asked)
        except UserError as wrong:
            self._post(PlanRefused(wrong.problems))
            return
        else:
            plan, warnings = found
            self._post(PlanReady(plan, asked.workload, asked.basis, warnings))
        finally:
            self.answered.set()
        if any(not (row.rank or row.here) for row in plan.rows):  # this machine's own rows are there either way
            await asyncio.sleep(SETTLED_S)
            if self._wanted is None:
                self._post(PlanReady(await self._thread.search(questions.advice, asked), asked.workload, asked.basis))
