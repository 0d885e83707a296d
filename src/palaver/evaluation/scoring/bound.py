"""Bound: an evaluator with its parameters, which is asked about one case after another."""

import asyncio
import contextvars
import inspect
import time
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import GivenUp, Scored, Skip, Unscored, erred, read_return, skipped
from palaver.evaluation.scoring.spending import Spent, counting

_LONGEST_REASON = 2_000


class Bound:
    """An evaluator with its parameters, ready to score any number of cases."""

    def __init__(
        self,
        *,
        name: str,
        needs: frozenset[str],
        call: Callable[[Case], Any],
        is_async: bool,
        aim: Aim | None,
        threshold: float | None,
        insists: bool,
        reach: Reach,
    ) -> None:
        self.name = name
        self.needs = needs
        self._call = call
        self._is_async = is_async
        self._aim = aim
        self._threshold = threshold
        self._insists = insists
        self._reach = reach

    async def score(self, case: Case) -> list[Scored]:
        """What it says of a case. What goes wrong is said there, too; only being cancelled, and GivenUp, are raised."""
        begun = time.perf_counter()
        with counting() as spent:
            found = await self._scored(case)
        seconds = round(time.perf_counter() - begun, 6)
        timed = [msgspec.structs.replace(one, seconds=seconds) for one in found]
        return timed if spent.usage is None and spent.cost is None else [_charged(timed[0], spent), *timed[1:]]

    async def _scored(self, case: Case) -> list[Scored]:
        if self._aim is None and "expected" in self.needs and case.expected is UNSET:
            return [skipped(self.name, "no_expected: the row has no expected answer")]
        try:
            found = read_return(await self._returned(case), self.name, self._threshold)
        except Skip as why:
            return [skipped(self.name, str(why))]
        except Unscored as why:
            return [erred(self.name, str(why))]
        except GivenUp:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return [erred(self.name, "evaluator_failed: CancelledError")]  # Something of the author's own was.
        except (Exception, SystemExit) as error:
            return [erred(self.name, f"evaluator_failed: {_told(error)}")]
        return [self._judged(case, one) for one in found]

    async def _returned(self, case: Case) -> Any:
        if self._is_async:
            return await self._call(case)
        here, loop = contextvars.copy_context(), asyncio.get_running_loop()
        value, error = await loop.run_in_executor(self._reach.threads, lambda: here.run(_outcome, self._call, case))
        if error is not None:
            raise error
        return await value if inspect.isawaitable(value) else value

    def _judged(self, case: Case, one: Scored) -> Scored:
        """With a threshold that was asked for, and with the note that says why there was no text."""
        if one.status != "scored":
            return one
        if self._insists and self._threshold is not None and one.score is not None:
            one = msgspec.structs.replace(one, passed=one.score >= self._threshold)
        if self._aim is not None and case.notes and self._aim.target == "text":
            notes = ", ".join(sorted(case.notes))
            one = msgspec.structs.replace(one, reason=f"{one.reason}; {notes}" if one.reason else notes)
        return one


def _charged(one: Scored, spent: Spent) -> Scored:
    """With what was spent on it, unless the evaluator says so itself. Of several scores, the first bears it all."""
    if one.usage is not None or one.cost is not None:
        return one
    return msgspec.structs.replace(one, usage=spent.usage, cost=spent.cost)


def _outcome(call: Callable[[Case], Any], case: Case) -> tuple[Any, BaseException | None]:
    """What the function returned or raised: a future cannot carry everything that may be raised."""
    try:
        return call(case), None
    except (Exception, SystemExit) as error:
        return None, error


def _told(error: BaseException) -> str:
    try:
        said = str(error)
    except Exception:  # Anybody's error may say anything, or nothing.
        said = ""
    return f"{type(error).__name__}: {said}"[:_LONGEST_REASON] if said else type(error).__name__
