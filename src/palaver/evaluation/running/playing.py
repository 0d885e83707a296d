"""Playing a script: a conversation is led turn by turn, and each turn is kept with what came of it (contract: A5).

The workflow is called by whoever plays (`answer`), and so is another one that plays the user (`simulate`): here is only
what is said to whom. A call to a tool that the workflow left to its client is answered with what the script has ready.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from palaver.core.calls import Finish, Reply
from palaver.core.events import Event
from palaver.core.messages import Message
from palaver.core.usage import Usage
from palaver.evaluation.matching.expecting import checks
from palaver.evaluation.running.simulated import asked, is_done
from palaver.evaluation.scoring.cases import Turn, Verdict
from palaver.evaluation.scoring.casing import calls_in, turn_of
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.spending import counting
from palaver.testsets.scripts import Script, ScriptTurn, Simulate, find_canned_result

MOST_ROUNDS: Final = 8
"""How often the tools that a turn calls are answered."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of a workflow came to."""

    messages: tuple[Message, ...] = ()
    value: Any | UnsetType = UNSET
    usage: Usage | None = None
    finish: Finish = "stop"
    latency: float = 0.0
    first_output: float | None = None
    events: tuple[Event, ...] = ()
    failed: Any = None
    """Why the call failed, as its caller says it: it ends the script. None: it did not."""


Answer = Callable[[tuple[Message, ...]], Awaitable[Answered]]
"""Calls the workflow with a history."""
PlayUser = Callable[[str, tuple[Message, ...]], Awaitable[Answered]]
"""Calls another workflow, by its name, with a history in which the roles are changed."""


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A script that was played."""

    turns: tuple[Turn, ...]
    """One for each thing that the user said, or would have; fixed answers are none."""
    said: tuple[Message, ...]
    """The whole conversation, from its start."""
    events: tuple[Event, ...] = ()
    failed: Any = None
    """Why the call failed with which it ended."""
    user_usage: Usage | None = None
    """What the simulated user took."""


async def play(
    script: Script, answer: Answer, reach: Reach, *, play_user: PlayUser | None = None, is_chat: bool = True
) -> Played:
    """The conversation, led to its end, or to where it stopped: what was left then is `reached=False`."""
    player = _Player(script, answer, reach, play_user, is_chat=is_chat)
    for place, turn in enumerate(script.turns):
        if player.is_over:
            player.leave(script.turns[place:])
            break
        await player.turn(turn)
    return Played(
        turns=tuple(player.turns),
        said=tuple(player.said),
        events=tuple(player.events),
        failed=player.failed,
        user_usage=_together(player.user_usages),
    )


def _together(usages: Iterable[Usage | None]) -> Usage | None:
    known = [usage for usage in usages if usage is not None]
    return reduce(add, known) if known else None


class _Player:
    """What has been said so far, and what came of it."""

    def __init__(
        self, script: Script, answer: Answer, reach: Reach, play_user: PlayUser | None, *, is_chat: bool
    ) -> None:
        self.script = script
        self.answer = answer
        self.reach = reach
        self.play_user = play_user
        self.is_chat = is_chat
        self.said = list(script.start)
        self.turns: list[Turn] = []
        self.events: list[Event] = []
        self.user_usages: list[Usage | None] = []
        self.failed: Any = None
        self.is_over = False

    async def turn(self, turn: ScriptTurn) -> None:
        """One turn of the script."""
        if turn.assistant is not None:
            self.said.append(turn.assistant)
        elif turn.user is not None:
            await self._asked(turn.user, turn, turn.expect)
        elif turn.simulate is not None:
            await self._simulated(turn.simulate, turn)

    def leave(self, turns: Sequence[ScriptTurn]) -> None:
        """Keep what was not reached."""
        left = [turn for turn in turns if turn.assistant is None]
        self.turns += [Turn(user=turn.user, expect=turn.expect or None, reached=False) for turn in left]

    async def _asked(self, user: Message, turn: ScriptTurn, expect: dict[str, Any]) -> None:
        """Say what the user says, and keep what comes; tools of the client's are answered on the way."""
        self.said.append(user)
        first = len(self.said)
        answers = [await self._called()]
        while len(answers) <= MOST_ROUNDS and self.failed is None:
            results = self._results(answers[-1].messages, turn)
            if not results:
                break
            self.said += results
            answers.append(await self._called())
        reply = Reply(
            run_id="",
            messages=tuple(self.said[first:]),
            value=answers[-1].value,
            usage=_together(one.usage for one in answers),
            finish=answers[-1].finish,
        )
        self.turns.append(
            turn_of(
                reply,
                is_chat=self.is_chat,
                user=user,
                latency=sum(one.latency for one in answers),
                first_output=answers[0].first_output,
                expect=expect or None,
            )
        )
        await self._judge_whether_over()

    async def _called(self) -> Answered:
        answered = await self.answer(tuple(self.said))
        self.said += answered.messages
        self.events += answered.events
        self.failed = answered.failed
        return answered

    def _results(self, messages: Sequence[Message], turn: ScriptTurn) -> list[Message]:
        """What the script has ready for the calls without a result; nothing where it has not something for each."""
        waiting = [call for call in calls_in(messages) if call.result is UNSET]
        found = [find_canned_result(self.script, turn, call.name, call.arguments) for call in waiting]
        if any(output is UNSET for output in found):
            return []
        return [Message.tool(call.call_id, output) for call, output in zip(waiting, found, strict=True)]

    async def _judge_whether_over(self) -> None:
        """A failed call ends the script; so does a failed turn, if the script says so. What a judge said is kept."""
        turn = self.turns[-1]
        if self.failed is not None:
            self.is_over = True
        elif self.script.stop == "on-failure" and turn.expect:
            with counting() as spent:
                found = await checks(turn.expect, turn, self.reach)
            known = [check for check in found if check.error is None]
            self.is_over = not all(check.passed for check in known)
            for check in known:
                if check.name == "judge":
                    verdict = Verdict(check.passed, check.reason, spent.usage, spent.cost)
                    self.turns[-1] = msgspec.structs.replace(turn, verdict=verdict)

    async def _simulated(self, simulate: Simulate, turn: ScriptTurn) -> None:
        """Another workflow plays the user, until it has what it wants. The last answer is the one expected."""
        if self.play_user is None:
            raise ValueError("A script with `simulate` needs somebody to play the user.")
        begun = len(self.turns)
        for _ in range(simulate.max_turns):
            spoken = await self.play_user(simulate.workflow, asked(simulate, self.said))
            self.user_usages.append(spoken.usage)
            if spoken.failed is not None:
                self.failed, self.is_over = spoken.failed, True
                break
            text = "".join(message.text for message in spoken.messages if message.role == "assistant")
            if not text.strip() or is_done(text):
                break
            await self._asked(Message.user(text), turn, {})
            if self.is_over:
                break
        if len(self.turns) == begun:
            self.turns.append(Turn(expect=turn.expect or None, reached=False))
        elif turn.expect:
            self.turns[-1] = msgspec.structs.replace(self.turns[-1], expect=turn.expect)
