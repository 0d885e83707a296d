"""/api/threads/{thread}/messages and /tree: what was said in a thread, and what is being said."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from litestar import Response, delete, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from msgspec import UNSET, UnsetType
from sqlalchemy import Connection

from palaver.core.messages import Message
from palaver.errors import ConflictingFields, InvalidValue, ItemNotFound, UnknownCall
from palaver.protocols.base import HttpResponse
from palaver.server.api.conventions import After, Asked, Limit, caller_of, read_body, shown_as, takes, utc_now
from palaver.server.api.dependencies import ApiController
from palaver.server.api.idempotency import once
from palaver.server.api.thread_views import (
    Answering,
    NodeView,
    Running,
    Said,
    leaf,
    node_view,
    streaming,
    with_siblings,
)
from palaver.server.api.threads import check_results, said, with_files
from palaver.server.settings import Settings
from palaver.storage import feedback, runs
from palaver.storage.database import Database
from palaver.storage.feedback import Counts
from palaver.storage.pagination import Page, Window
from palaver.storage.threads import message_tree
from palaver.storage.threads import repository as threads
from palaver.storage.threads.message_tree import Leaf, Node
from palaver.storage.threads.repository import Thread

MOST_MESSAGES = 100
"""That may be put into a thread at once."""
_TREE = 5_000

TreeLimit = Annotated[int, QueryParameter(ge=1, le=_TREE, description="How many nodes at most.")]
At = Annotated[str, QueryParameter(max_length=80, description="Where the branch ends: `head`, or a message.")]


class Say(msgspec.Struct, frozen=True, kw_only=True):
    """The body that puts messages into a thread."""

    messages: Any
    """A list in any dialect that we read, or one message."""
    parent: str | UnsetType | None = UNSET
    """The message that they follow, null for none; where it is absent the end of the current branch."""
    replaces: str | None = None
    """The message beside which they are put: an edit of it."""


class _Seen(NamedTuple):
    thread: Thread
    page: Page[Node]
    siblings: dict[str | None, list[str]]
    feedback: dict[tuple[str, str], Counts]
    seconds: dict[str, float]


async def nobody(_project: str, _run: str) -> None:
    """Where no run can be seen while it speaks."""


class ThreadMessageController(ApiController):
    path = "/api/threads"

    database: Database
    settings: Settings
    partial_reply: Running

    async def _answering_in(self, project: str, thread: str) -> tuple[Thread, Answering | None]:
        """The thread, and what is being said in it. What ended between two looks has joined it meanwhile."""
        found = await self.database.read(threads.require_thread, project, thread)
        return found, await self.partial_reply(project, found.run) if found.run is not None else None

    @get(
        "/{thread:str}/messages",
        operation_id="list_messages",
        summary="A branch: its end first, oldest first inside a page",
    )
    async def list_messages(
        self, request: Asked, thread: FromPath[str], at: At = "head", limit: Limit = 50, after: After = None
    ) -> Page[NodeView]:
        caller = caller_of(request)
        found, answering = await self._answering_in(caller.project, thread)
        made = streaming(answering, found.run or "") if answering is not None and after is None else []
        written = {node.id: place for place, node in enumerate(made, 1)}
        end = at
        if answering is not None and at in written:
            end, made = answering.answers, made[: written[at]]
        seen = await self.database.read(_seen, caller.project, thread, end, at, caller.key, Window(limit, after))
        last = seen.thread.head if end == "head" else end
        if answering is not None and last != answering.answers:
            made = []
        here = {node.id for node in seen.page.data}
        shown = [*seen.page.data, *(node for node in made if node.id not in here)]
        siblings = with_siblings(seen.siblings, made)
        return Page([node_view(node, siblings, seen.feedback, seen.seconds) for node in shown], seen.page.next)

    @get(
        "/{thread:str}/tree",
        operation_id="get_tree",
        summary="All branches, in order of making, without the messages",
    )
    async def get_tree(
        self, request: Asked, thread: FromPath[str], limit: TreeLimit = _TREE, after: After = None
    ) -> Page[Leaf]:
        project = caller_of(request).project
        found, answering = await self._answering_in(project, thread)
        page = await self.database.read(message_tree.list_leaves, project, thread, Window(limit, after))
        if answering is None or page.next is not None:
            return page
        here = {node.id for node in page.data}
        made = streaming(answering, found.run or "")
        return Page([*page.data, *(leaf(node) for node in made if node.id not in here)])

    @post(
        "/{thread:str}/messages",
        operation_id="add_messages",
        summary="Put messages below one, or beside it; the current branch ends there now",
        operation_class=takes(Say),
    )
    async def add_messages(self, request: Asked, thread: FromPath[str]) -> Response[Said]:
        raw, given = await read_body(request, self.settings, Say)
        messages = said(request, given.messages, self.settings, most=MOST_MESSAGES)
        if not messages:
            raise InvalidValue("There is no message to put into the thread.", pointer="/messages")
        if given.replaces is not None and given.parent is not UNSET:
            raise ConflictingFields("What is replaced says where it goes: leave out parent.", pointer="/parent")
        project, now = caller_of(request).project, utc_now()

        def work(db: Connection) -> HttpResponse:
            parent = _parent(db, project, thread, given)
            told = with_files(db, project, messages, raw)
            _check_results(db, project, thread, parent, told)
            made = threads.append_messages(db, project, thread, parent, told, origin="client", at=now)
            beside = message_tree.list_children_ids(db, project, thread, [made[0].parent])
            shown = Said([node_view(node, dict(beside), {}) for node in made])
            place = f"{self.settings.root_path}/api/threads/{thread}/messages?at={made[-1].id}"
            return shown_as(shown, status=201, location=place)

        return await once(request, self.database, raw, work)

    @delete(
        "/{thread:str}/messages/{message:str}",
        operation_id="delete_message",
        summary="Erase a message and all below it, or keep those",
    )
    async def delete_message(
        self,
        request: Asked,
        thread: FromPath[str],
        message: FromPath[str],
        below: FromQuery[Literal["delete", "keep"]] = "delete",
    ) -> None:
        project = caller_of(request).project
        await self.database.write(threads.delete_message, project, thread, message, below=below, at=utc_now())


def _seen(
    db: Connection, project: str, thread: str, end: str | None, asked: str, key: str | None, window: Window
) -> _Seen:
    """A page of a branch, and all that is shown beside it."""
    found = threads.require_thread(db, project, thread)
    end = found.head if end == "head" else end
    page = message_tree.list_branch(db, project, thread, end, requested=asked, window=window)
    siblings = message_tree.list_children_ids(db, project, thread, {end, *(node.parent for node in page.data)})
    said_by = {node.run for node in page.data if node.run is not None}
    opinions = feedback.count_feedback(db, project, said_by, key=key)
    return _Seen(found, page, siblings, opinions, runs.run_durations(db, project, said_by))


def _parent(db: Connection, project: str, thread: str, given: Say) -> str | None:
    found = threads.require_thread(db, project, thread)
    if given.replaces is not None:
        replaced = message_tree.get_node(db, project, thread, given.replaces)
        if replaced is None:
            raise ItemNotFound(given.replaces, pointer="/replaces")
        return replaced.parent
    return found.head if given.parent is UNSET or given.parent == "head" else given.parent


def _check_results(db: Connection, project: str, thread: str, parent: str | None, messages: Sequence[Message]) -> None:
    """Raise for a tool's result that answers no open call of the branch: no run could be given it."""
    if not any(message.tool_results for message in messages):
        return
    before = [node.message for node in message_tree.load_branch(db, project, thread, parent)]
    try:
        check_results([*before, *messages], len(before))
    except UnknownCall as error:
        raise UnknownCall(error.message, pointer="/messages") from None
