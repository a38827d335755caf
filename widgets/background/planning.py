"""The session on a thread of its own, so that the screen never waits for it and it never runs twice at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from textual.message import Message

from planner.errors import Problem, UserError
from widgets.background.head_start import HeadStart, wants_advice
from widgets.background.opened import Asked

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
        self._wanted: Asked | None = None
        self._running = False
        self._begun_with: HeadStart | None = None
        self._head_start: HeadStart | None = None
        """The head start until its answer is taken: a later question is a new one, even in the same words."""
        self.answered = asyncio.Event()
        """Set once there was a plan, or a refusal."""

    async def ask(self, workload: dict[str, Any], where: str, basis: BasisChoice) -> None:
        """Plan `workload`; the outcome comes as a message."""
        self._wanted = Asked(workload, where, basis)
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
        """Drop what was asked for but not begun."""
        self._wanted = None

    def begin_with(self, head_start: HeadStart | None) -> None:
        """Take the first answer from `head_start`, if it is to the question that is asked."""
        self._begun_with = self._head_start = head_start

    @property
    def has_head_start(self) -> bool:
        """Whether the first question may have been answered before it was asked."""
        return self._begun_with is not None

    async def foretells(self, asked: Asked) -> bool:
        """Whether the head start answers `asked`, known once it has an answer."""
        return self._head_start is not None and await asyncio.to_thread(self._head_start.plan, asked) is not None

    def end(self) -> None:
        """End the head start, if it still runs."""
        if self._begun_with is not None:
            self._begun_with.end()

    async def _plan(self, asked: Asked) -> None:
        """The ranking at once; what would help the losers when nothing newer is asked for in the meantime."""
        head_start, self._head_start = self._head_start, None
        try:
            plan, warnings = await self._ranking(asked, head_start)
        except UserError as wrong:
            self._post(PlanRefused(wrong.problems))
            return
        else:
            self._post(PlanReady(plan, asked.workload, asked.basis, warnings))
        finally:
            self.answered.set()
        if wants_advice(plan):
            await asyncio.sleep(SETTLED_S)
            if self._wanted is None:
                self._post(PlanReady(await self._advice(asked, head_start), asked.workload, asked.basis))

    async def _ranking(self, asked: Asked, head_start: HeadStart | None) -> tuple[Plan, Sequence[str]]:
        """(the ranking, faults of the measurements that it rests on), without what would help; raises `UserError`."""
        if head_start is not None:
            if found := await asyncio.to_thread(head_start.plan, asked):
                return found
            head_start.end()

        def ranking(session: Session) -> tuple[Plan, Sequence[str]]:
            workload = session.workload(asked.workload, asked.where)
            return session.plan(workload, basis=asked.basis, levers=False), tuple(session.warnings)

        return await self._thread.ask(ranking)

    async def _advice(self, asked: Asked, head_start: HeadStart | None) -> Plan:
        """The plan with what would help its losers."""
        if head_start is not None and (found := await asyncio.to_thread(head_start.advice)):
            return found

        def advice(session: Session) -> Plan:
            return session.plan(session.workload(asked.workload, asked.where), basis=asked.basis, hints=True)

        return await self._thread.ask(advice)
