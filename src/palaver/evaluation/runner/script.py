"""Play a conversation script turn by turn, with canned tool results and simulated users.

The caller provides the functions that call workflows. Calls of client-side tools are answered with the script's canned
results.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any, Final

import msgspec
from msgspec import UNSET

from palaver.core.messages import Message
from palaver.core.runs import Reply
from palaver.evaluation.case import Turn, TurnVerdict, make_turn, read_tool_calls
from palaver.evaluation.context import EvaluatorContext, track_spending
from palaver.evaluation.evaluators.expectations import check_turn
from palaver.evaluation.runner.call import CallError, WorkflowAnswer
from palaver.testsets.scripts import Script, ScriptTurn, Simulate, find_canned_result

DONE_MARK: Final = "[done]"
"""The simulated user ends the conversation with this on the last line."""
FIRST_PROMPT: Final = "(The conversation begins. Write your first message.)"


def simulated_user_messages(simulate: Simulate, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation from the user's point of view: roles are swapped.

    Instructions, tools and data of the assistant are left out.
    """
    swapped = [
        Message.user(message.text) if message.role == "assistant" else Message.assistant(message.text)
        for message in messages
        if message.role in ("user", "assistant") and message.text.strip()
    ]
    if not swapped or swapped[0].role == "assistant":
        swapped.insert(0, Message.user(FIRST_PROMPT))
    return (Message.system(_simulated_user_prompt(simulate)), *swapped)


def ends_conversation(text: str) -> bool:
    lines = text.strip().splitlines()
    return bool(lines) and lines[-1].strip().casefold() == DONE_MARK


def _simulated_user_prompt(simulate: Simulate) -> str:
    persona = f"You are {simulate.persona}\n" if simulate.persona else ""
    return (
        "You play the user in a conversation with an assistant. Write only what the user says next, nothing else.\n"
        f"{persona}What you want: {simulate.goal}\n"
        f"When you have it, or see that you will not get it, answer exactly {DONE_MARK}"
    )


MAX_TOOL_ROUNDS: Final = 8
"""Maximum number of times that the tool calls of one turn are answered."""


CallWorkflow = Callable[[tuple[Message, ...]], Awaitable[WorkflowAnswer]]
"""Calls the workflow with a history."""
CallSimulatedUser = Callable[[str, tuple[Message, ...]], Awaitable[WorkflowAnswer]]
"""Calls another workflow by name, with the roles in the history swapped."""


class PlayedScript(msgspec.Struct, frozen=True, kw_only=True):
    turns: tuple[Turn, ...]
    """One for each user message, reached or not; fixed answers have none."""
    messages: tuple[Message, ...]
    error: CallError | None = None
    """The error that ended the script."""


async def play_script(
    script: Script,
    answer: CallWorkflow,
    context: EvaluatorContext,
    *,
    play_user: CallSimulatedUser | None = None,
    is_chat: bool = True,
) -> PlayedScript:
    """Play the script until it ends or stops. Remaining turns have `reached=False`."""
    player = _ScriptPlayer(script, answer, context, play_user, is_chat, messages=list(script.start))
    for index, turn in enumerate(script.turns):
        if player.is_over:
            player.skip(script.turns[index:])
            break
        await player.play(turn)
    return PlayedScript(turns=tuple(player.turns), messages=tuple(player.messages), error=player.error)


def make_answered_turn(
    answers: Sequence[WorkflowAnswer],
    messages: tuple[Message, ...],
    user: Message | None,
    *,
    is_chat: bool,
    expect: dict[str, Any] | None = None,
) -> Turn:
    """Make the turn of one or more calls. `messages` are those of the answers, with tool results in between."""
    first, last = answers[0], answers[-1]
    usages = [answer.usage for answer in answers if answer.usage is not None]
    usage = reduce(add, usages) if usages else None
    return make_turn(
        Reply(run_id="", messages=messages, value=last.value, usage=usage, finish=last.finish),
        is_chat=is_chat,
        user=user,
        latency=sum(answer.latency for answer in answers),
        first_output=first.first_output,
        expect=expect,
    )


@dataclass
class _ScriptPlayer:
    script: Script
    answer: CallWorkflow
    context: EvaluatorContext
    play_user: CallSimulatedUser | None
    is_chat: bool
    messages: list[Message]
    turns: list[Turn] = field(default_factory=list[Turn])
    error: CallError | None = None
    is_over: bool = False

    async def play(self, turn: ScriptTurn) -> None:
        if turn.assistant is not None:
            self.messages.append(turn.assistant)
        elif turn.user is not None:
            await self._send(turn.user, turn, turn.expect)
        elif turn.simulate is not None:
            await self._simulate(turn.simulate, turn)

    def skip(self, turns: Sequence[ScriptTurn]) -> None:
        skipped = [turn for turn in turns if turn.assistant is None]
        self.turns += [Turn(user=turn.user, expect=turn.expect or None, reached=False) for turn in skipped]

    async def _send(self, user: Message, turn: ScriptTurn, expect: dict[str, Any]) -> None:
        """Send a user message and collect the answer, with canned tool results in between."""
        self.messages.append(user)
        first_index = len(self.messages)
        answers = [await self._call()]
        while len(answers) <= MAX_TOOL_ROUNDS and self.error is None:
            results = self._canned_results(answers[-1].messages, turn)
            if not results:
                break
            self.messages += results
            answers.append(await self._call())
        messages = tuple(self.messages[first_index:])
        self.turns.append(make_answered_turn(answers, messages, user, is_chat=self.is_chat, expect=expect or None))
        await self._check_over()

    async def _call(self) -> WorkflowAnswer:
        answer = await self.answer(tuple(self.messages))
        self.messages += answer.messages
        self.error = answer.error
        return answer

    def _canned_results(self, messages: Sequence[Message], turn: ScriptTurn) -> list[Message]:
        """Return canned results for all open calls; empty unless there is one for each."""
        open_calls = [call for call in read_tool_calls(messages) if call.result is UNSET]
        outputs = [find_canned_result(self.script, turn, call.name, call.arguments) for call in open_calls]
        if any(output is UNSET for output in outputs):
            return []
        return [Message.tool(call.call_id, output) for call, output in zip(open_calls, outputs, strict=True)]

    async def _check_over(self) -> None:
        """End the script after a failed call, or after a failed turn if `stop` is "on-failure". Keep the verdict."""
        turn = self.turns[-1]
        if self.error is not None:
            self.is_over = True
        elif self.script.stop == "on-failure" and turn.expect:
            with track_spending() as spending:
                results = await check_turn(turn.expect, turn, self.context)
            checks = [check for check in results if check.error is None]
            self.is_over = not all(check.passed for check in checks)
            for check in checks:
                if check.name == "judge":
                    verdict = TurnVerdict(check.passed, check.reason, spending.usage, spending.cost)
                    self.turns[-1] = msgspec.structs.replace(turn, verdict=verdict)

    async def _simulate(self, simulate: Simulate, turn: ScriptTurn) -> None:
        """Let another workflow play the user until it is done. `expect` applies to the last answer."""
        if self.play_user is None:
            raise ValueError("A script with `simulate` requires `play_user`.")
        turns_before = len(self.turns)
        for _ in range(simulate.max_turns):
            reply = await self.play_user(simulate.workflow, simulated_user_messages(simulate, self.messages))
            if reply.error is not None:
                self.error, self.is_over = reply.error, True
                break
            text = "".join(message.text for message in reply.messages if message.role == "assistant")
            if not text.strip() or ends_conversation(text):
                break
            await self._send(Message.user(text), turn, {})
            if self.is_over:
                break
        if len(self.turns) == turns_before:
            self.turns.append(Turn(expect=turn.expect or None, reached=False))
        elif turn.expect:
            self.turns[-1] = msgspec.structs.replace(self.turns[-1], expect=turn.expect)
