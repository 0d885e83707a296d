"""palaver chat: a conversation in the terminal."""

import asyncio
import secrets
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text as Styled

from palaver.cli.workflow_lookup import find_workflow
from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    RunCancelled,
    RunFailed,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.fold import fold
from palaver.core.messages import Data, File, Message, Refusal, ToolCall
from palaver.core.runs import Call, Reply
from palaver.engine.engine import Engine
from palaver.engine.run import Run
from palaver.errors import NotAWorkflow, PalaverError
from palaver.outbound import printable, printable_lines
from palaver.workflows.workflow import Workflow

_PROMPT = "\001\033[1;36m\002you ›\001\033[0m\002 "  # \001 and \002 tell readline which characters have no width.


class ChatScreen:
    """Prints a conversation as it happens. Untrusted text can neither move the cursor nor change colours."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_interactive = sys.stdin.isatty()
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._is_at_line_start = True
        self._ends_line = False  # Whether the last text ended with a line break.
        self._calls: dict[str, ToolStarted] = {}

    def welcome(self, description: Description) -> None:
        if self._is_interactive:
            summary = f" · {printable(description.description)}" if description.description else ""
            self._console.print(Styled.assemble((self._name, "bold magenta"), (summary, "dim")))
            self._console.print(Styled("Type /help for commands, /quit to exit", "dim"))

    def ask(self) -> str | None:
        """Return the next line, or None at the end."""
        try:
            if not self._is_interactive:
                line = sys.stdin.readline()
                return line.rstrip("\n") if line else None
            self._console.print()
            return input(_PROMPT)
        except EOFError:
            self._console.print()
            return None
        except KeyboardInterrupt:
            self._console.print(Styled("\nType /quit to exit", "dim"))
            return ""

    @contextmanager
    def input_history(self, file: Path | None) -> Generator[None]:
        """Load and save the input history, in a file that only its owner can read."""
        if file is None or find_spec("readline") is None:  # Windows has no readline.
            yield
            return
        import readline

        with suppress(OSError):
            readline.read_history_file(file)
        readline.set_history_length(1000)
        try:
            yield
        finally:
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                readline.write_history_file(file)
                file.chmod(0o600)

    async def show_events(self, events: Sequence[Event]) -> None:
        for event in events:
            self._print_run_event(event)

    def _print_run_event(self, event: Event) -> None:
        match event:
            case TextDelta(delta=delta):
                self._start_answer()
                self._write(delta)
            case ReasoningDelta(delta=delta):
                self._start_answer()
                self._write(delta, "dim italic")
            case TextEnded() | ReasoningEnded():
                self._end_line()
            case ToolStarted():
                self._calls[event.item] = event
            case ToolEnded(item=item, arguments=arguments):
                call = ToolCall(call_id="", name=self._calls[item].name, arguments=arguments)
                self._print_event(f"⚙ {call.name}{_format_arguments(call)}", "yellow")
            case ToolReturned(output=output, is_error=is_error):
                self._print_event(
                    f"  {'✗' if is_error else '→'} {_format_value(output)}", "red" if is_error else "green"
                )
            case PartAdded(part=Data(name="status", value=value)):
                self._print_event(f"… {_format_value(value)}", "dim")
            case PartAdded(part=Data(name=name, value=value)):
                self._print_event(f"▪ {name}: {_format_value(value)}", "blue")
            case PartAdded(part=File(filename=name, media_type=kind)):
                self._print_event(f"▪ file {name or ''} ({kind})", "blue")
            case PartAdded(part=Refusal(text=text)):
                self._print_event(text, "red")
            case RunCancelled():
                self._print_event("(stopped)", "dim")
            case _:
                pass

    def end(self, reply: Reply) -> None:
        self._end_line()
        if not reply.messages and reply.finish == "stop":
            self.note("(no answer)")
        if reply.usage is not None and self._is_interactive:
            self.note(f"{reply.usage.input_tokens} input tokens, {reply.usage.output_tokens} output tokens")

    def error(self, message: str) -> None:
        self._end_line()
        self._console.print(Styled(f"error: {printable(message, 500)}", "bold red"))

    def note(self, text: str) -> None:
        self._end_line()
        self._console.print(Styled(text, "dim"))

    def history(self, messages: Sequence[Message]) -> None:
        for message in messages:
            text = message.text or ", ".join(f"{call.name}{_format_arguments(call)}" for call in message.tool_calls)
            text = text or ", ".join(_format_value(result.output) for result in message.tool_results)
            self._console.print(Styled.assemble((f"{message.role}: ", "dim"), printable_lines(text)))
        if not messages:
            self.note("No messages yet.")

    def _start_answer(self) -> None:
        if self._is_at_line_start and self._is_interactive:
            self._console.print(Styled(f"{self._name} › ", "bold magenta"), end="")
        self._is_at_line_start = False

    def _write(self, text: str, style: str = "") -> None:
        self._console.print(Styled(printable_lines(text), style), end="")
        self._ends_line = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._is_at_line_start and not self._ends_line:
            self._console.print()
        self._is_at_line_start = True

    def _print_event(self, text: str, style: str) -> None:
        self._end_line()
        self._console.print(Styled(f"  {printable(text, 300)}", style))


def _format_arguments(call: ToolCall) -> str:
    parsed = call.parsed
    if not isinstance(parsed, dict):
        return f"({printable(call.arguments)})"
    return "(" + ", ".join(f"{key}={_format_value(value)}" for key, value in parsed.items()) + ")"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _format_value(value: object) -> str:
    return printable(json.result_text(value))


HELP_TEXT = """\
/quit      exit (or press Ctrl+D)
/again     resend the last message
/reset     start a new conversation
/history   show the conversation
Press Ctrl+C to stop an answer."""


@click.command()
@click.argument("name", metavar="NAME|TARGET|URL")
@click.option("-i", "--input", "inputs", multiple=True, metavar="KEY=VALUE", help="Set an input. Repeatable.")
@click.option(
    "-p", "--parameter", "parameters", multiple=True, metavar="KEY=VALUE", help="Set a parameter. Repeatable."
)
@click.option("--url", help="URL of the server that serves NAME.")
def command(name: str, inputs: tuple[str, ...], parameters: tuple[str, ...], url: str | None) -> None:
    """Chat with a workflow in the terminal.

    Pass the NAME of a workflow (on the local server or installed), a TARGET such
    as app.py:tutor, or a URL.

    \b
    Examples:
      palaver chat eliza
      palaver chat app.py:tutor -i subject=physics
      palaver chat http://localhost:8642/eliza
    """
    workflow = find_workflow(name, url=url)
    if not workflow.description.is_chat:
        raise NotAWorkflow(
            f"Workflow {workflow.description.name!r} is not a chat. Use `palaver call {name} payload.json` instead."
        )
    ChatSession(workflow, inputs=_parse_pairs(inputs), parameters=_parse_pairs(parameters)).run()


class ChatSession:
    """A conversation in a terminal or over a pipe. In a pipe each line is a question, and only answers are printed."""

    def __init__(self, workflow: Workflow, *, inputs: dict[str, Any], parameters: dict[str, Any]) -> None:
        self._workflow = workflow
        self._inputs = inputs
        self._parameters = parameters
        self._messages: list[Message] = []
        self._session = secrets.token_hex(16)
        self._screen = ChatScreen(workflow.description.name)
        self._last_question = ""

    def run(self) -> None:
        self._screen.welcome(self._workflow.description)
        with asyncio.Runner() as runner, self._screen.input_history(_history_file()):
            engine = runner.run(_create_engine())
            while (line := self._screen.ask()) is not None:
                if not line.strip():
                    continue
                if line.startswith("/"):
                    line = self._run_command(line.strip())
                    if line is None:
                        return
                    if not line:
                        continue
                with suppress(KeyboardInterrupt):  # The run was cancelled; the conversation continues.
                    runner.run(self._run_turn(engine, line))

    def _run_command(self, line: str) -> str | None:
        """Run a slash command. Returns a question to ask, "" for none, or None to leave."""
        match line:
            case "/quit" | "/exit" | "/q":
                return None
            case "/again" if self._last_question:
                while self._messages and self._messages[-1].role != "user":
                    self._messages.pop()
                del self._messages[-1:]
                return self._last_question
            case "/reset":
                self._messages, self._session = [], secrets.token_hex(16)
                self._screen.note("Started a new conversation.")
            case "/history":
                self._screen.history(self._messages)
            case _:
                self._screen.note(HELP_TEXT)
        return ""

    async def _run_turn(self, engine: Engine, line: str) -> None:
        self._last_question = line
        question = Message.user(line)
        call = Call(
            workflow=self._workflow.description.name,
            messages=(*self._messages, question),
            inputs=self._inputs,
            parameters=self._parameters,
            session=self._session,
        )
        try:
            run = engine.start(self._workflow, call, consumer=self._screen.show_events)
        except PalaverError as error:
            self._screen.error(error.message)
            return
        await _wait_or_cancel(run)
        last_event = run.log[-1]
        if isinstance(last_event, RunFailed):
            self._screen.error(last_event.message)  # Failed turns are not added to the history.
            return
        reply = fold(run.log)
        self._screen.end(reply)
        self._messages += [question, *reply.messages]


async def _create_engine() -> Engine:
    return Engine()


async def _wait_or_cancel(run: Run) -> None:
    try:
        await run.wait_ended()
    except asyncio.CancelledError:  # Ctrl+C
        run.cancel()
        await run.wait_ended()


def _parse_pairs(items: Iterable[str]) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for pair in items:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError(f"Invalid value {pair!r}: expected KEY=VALUE.")
        pairs[key] = json.parse_or_text(value)
    return pairs


def _history_file() -> Path | None:
    if not sys.stdin.isatty():
        return None
    import platformdirs

    return Path(platformdirs.user_state_dir("palaver")) / "chat_history"
