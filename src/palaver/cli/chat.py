"""palaver chat: a conversation in the terminal."""

import asyncio
import secrets
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from palaver.cli.finding import find
from palaver.cli.screen import Screen
from palaver.core import json
from palaver.core.events import RunFailed
from palaver.core.fold import fold
from palaver.core.messages import Message
from palaver.core.runs import Call
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.errors import NotAWorkflow, PalaverError
from palaver.workflows.workflow import Workflow

HELP = """\
/quit      leave (Ctrl+D does too)
/again     ask the last question again
/reset     forget the conversation
/history   show the conversation
Ctrl+C stops an answer."""


@click.command()
@click.argument("name", metavar="NAME|TARGET|URL")
@click.option("-i", "--input", "inputs", multiple=True, metavar="KEY=VALUE", help="An input beside the messages.")
@click.option("-p", "--parameter", "parameters", multiple=True, metavar="KEY=VALUE", help="A parameter.")
@click.option("--url", help="The server to look NAME up on.")
def command(name: str, inputs: tuple[str, ...], parameters: tuple[str, ...], url: str | None) -> None:
    """Talk to a workflow: a NAME on the local server or installed, a TARGET such as app.py:tutor, or a URL.

    \b
    Examples:
      palaver chat eliza
      palaver chat app.py:tutor -i subject=physics
      palaver chat http://localhost:8642/eliza
    """
    workflow = find(name, url=url)
    if not workflow.description.is_chat:
        raise NotAWorkflow(f"{workflow.description.name} is not a chat: use palaver call {name} payload.json.")
    Conversation(workflow, inputs=_pairs(inputs), parameters=_pairs(parameters)).hold()


class Conversation:
    """One conversation in a terminal, or over a pipe: then each line is a question, and only answers are printed."""

    def __init__(self, workflow: Workflow, *, inputs: dict[str, Any], parameters: dict[str, Any]) -> None:
        self._workflow = workflow
        self._inputs = inputs
        self._parameters = parameters
        self._messages: list[Message] = []
        self._session = secrets.token_hex(16)
        self._screen = Screen(workflow.description.name)
        self._asked = ""

    def hold(self) -> None:
        """Ask and answer until somebody leaves."""
        self._screen.welcome(self._workflow.description)
        with asyncio.Runner() as runner, self._screen.remembered_lines(_history_file()):
            engine = runner.run(_engine())
            while (line := self._screen.ask()) is not None:
                if not line.strip():
                    continue
                if line.startswith("/"):
                    line = self._command(line.strip())
                    if line is None:
                        return
                    if not line:
                        continue
                with suppress(KeyboardInterrupt):  # The run has been stopped; the conversation goes on.
                    runner.run(self._turn(engine, line))

    def _command(self, line: str) -> str | None:
        """What to ask after a command: nothing, or a question; None to leave."""
        match line:
            case "/quit" | "/exit" | "/q":
                return None
            case "/again" if self._asked:
                while self._messages and self._messages[-1].role != "user":
                    self._messages.pop()
                del self._messages[-1:]
                return self._asked
            case "/reset":
                self._messages, self._session = [], secrets.token_hex(16)
                self._screen.note("The conversation is forgotten.")
            case "/history":
                self._screen.history(self._messages)
            case _:
                self._screen.note(HELP)
        return ""

    async def _turn(self, engine: Engine, line: str) -> None:
        self._asked = line
        question = Message.user(line)
        call = Call(
            workflow=self._workflow.description.name,
            messages=(*self._messages, question),
            inputs=self._inputs,
            parameters=self._parameters,
            session=self._session,
        )
        try:
            run = engine.start(self._workflow, call, attend=self._screen.attend)
        except PalaverError as error:
            self._screen.error(error.message)
            return
        await _finished(run)
        last = run.log[-1]
        if isinstance(last, RunFailed):
            self._screen.error(last.message)  # What failed never becomes part of the history.
            return
        reply = fold(run.log)
        self._screen.end(reply)
        self._messages += [question, *reply.messages]


async def _engine() -> Engine:
    return Engine()


async def _finished(run: Run) -> None:
    try:
        await run.wait_ended()
    except asyncio.CancelledError:  # Ctrl+C
        run.cancel()
        await run.wait_ended()


def _pairs(given: Iterable[str]) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for pair in given:
        key, sign, value = pair.partition("=")
        if not sign:
            raise click.UsageError(f"{pair!r} is not KEY=VALUE.")
        pairs[key] = json.parse_or_text(value)
    return pairs


def _history_file() -> Path | None:
    if not sys.stdin.isatty():
        return None
    import platformdirs

    return Path(platformdirs.user_state_dir("palaver")) / "chat_history"
