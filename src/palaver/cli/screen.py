"""The screen of a conversation: what was asked, what is being answered, what tools are doing."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.text import Text as Styled

from palaver.core import json
from palaver.core.descriptions import Description
from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    RunCancelled,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.messages import Data, File, Message, Refusal, ToolCall
from palaver.core.runs import Reply
from palaver.outbound import printable, printable_lines

_ASK = "\001\033[1;36m\002you ›\001\033[0m\002 "  # readline must know which characters take no room.


class Screen:
    """Writes a conversation as it happens. Untrusted text can neither move the cursor nor change colours."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._talks = sys.stdin.isatty()
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._at_start = True
        self._broken = False  # Did what was written last end its line?
        self._calls: dict[str, ToolStarted] = {}

    def welcome(self, description: Description) -> None:
        """Who is there, and how to leave."""
        if self._talks:
            told = f" · {printable(description.description)}" if description.description else ""
            self._console.print(Styled.assemble((self._name, "bold magenta"), (told, "dim")))
            self._console.print(Styled("/help shows the commands, /quit leaves", "dim"))

    def ask(self) -> str | None:
        """The next line, or None when there is no more."""
        try:
            if not self._talks:
                line = sys.stdin.readline()
                return line.rstrip("\n") if line else None
            self._console.print()
            return input(_ASK)
        except EOFError:
            self._console.print()
            return None
        except KeyboardInterrupt:
            self._console.print(Styled("\n/quit leaves", "dim"))
            return ""

    @contextmanager
    def remembered_lines(self, file: Path | None) -> Generator[None]:
        """Lines of earlier conversations, at the arrow keys; kept where only their owner can read them."""
        if file is None or find_spec("readline") is None:  # Windows has none.
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

    async def attend(self, events: Sequence[Event]) -> None:
        """Show what happens."""
        for event in events:
            self._show(event)

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(delta=delta):
                self._begin()
                self._write(delta)
            case ReasoningDelta(delta=delta):
                self._begin()
                self._write(delta, "dim italic")
            case TextEnded() | ReasoningEnded():
                self._line()
            case ToolStarted():
                self._calls[event.item] = event
            case ToolEnded(item=item, arguments=arguments):
                call = ToolCall(call_id="", name=self._calls[item].name, arguments=arguments)
                self._aside(f"⚙ {call.name}{_arguments(call)}", "yellow")
            case ToolReturned(output=output, is_error=is_error):
                self._aside(f"  {'✗' if is_error else '→'} {_brief(output)}", "red" if is_error else "green")
            case PartAdded(part=Data(name="status", value=value)):
                self._aside(f"… {_brief(value)}", "dim")
            case PartAdded(part=Data(name=name, value=value)):
                self._aside(f"▪ {name}: {_brief(value)}", "blue")
            case PartAdded(part=File(filename=name, media_type=kind)):
                self._aside(f"▪ file {name or ''} ({kind})", "blue")
            case PartAdded(part=Refusal(text=text)):
                self._aside(text, "red")
            case RunCancelled():
                self._aside("(stopped)", "dim")
            case _:
                pass

    def end(self, reply: Reply) -> None:
        """The answer is complete."""
        self._line()
        if not reply.messages and reply.finish == "stop":
            self.note("(no answer)")
        if reply.usage is not None and self._talks:
            self.note(f"{reply.usage.input_tokens} tokens in, {reply.usage.output_tokens} out")

    def error(self, message: str) -> None:
        """The run failed, or could not be started."""
        self._line()
        self._console.print(Styled(f"error: {printable(message, 500)}", "bold red"))

    def note(self, text: str) -> None:
        """Something beside the conversation."""
        self._line()
        self._console.print(Styled(text, "dim"))

    def history(self, messages: Sequence[Message]) -> None:
        """The conversation so far."""
        for message in messages:
            said = message.text or ", ".join(f"{call.name}{_arguments(call)}" for call in message.tool_calls)
            said = said or ", ".join(_brief(result.output) for result in message.tool_results)
            self._console.print(Styled.assemble((f"{message.role}: ", "dim"), printable_lines(said)))
        if not messages:
            self.note("Nothing has been said yet.")

    def _begin(self) -> None:
        if self._at_start and self._talks:
            self._console.print(Styled(f"{self._name} › ", "bold magenta"), end="")
        self._at_start = False

    def _write(self, text: str, style: str = "") -> None:
        self._console.print(Styled(printable_lines(text), style), end="")
        self._broken = text.endswith("\n")

    def _line(self) -> None:
        if not self._at_start and not self._broken:
            self._console.print()
        self._at_start = True

    def _aside(self, text: str, style: str) -> None:
        self._line()
        self._console.print(Styled(f"  {printable(text, 300)}", style))


def _arguments(call: ToolCall) -> str:
    parsed = call.parsed
    if not isinstance(parsed, dict):
        return f"({printable(call.arguments)})"
    return "(" + ", ".join(f"{key}={_brief(value)}" for key, value in parsed.items()) + ")"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _brief(value: object) -> str:
    return printable(value if isinstance(value, str) else json.encode(value).decode())
