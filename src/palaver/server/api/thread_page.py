"""A thread as one HTML file, as html_page.py makes them."""

from collections.abc import Sequence

from sqlalchemy import Connection

from palaver.server.api import html_page
from palaver.server.api.html_page import POLICY
from palaver.storage.threads import message_tree
from palaver.storage.threads.import_export import branch_paths, encode_thread
from palaver.storage.threads.message_tree import Node
from palaver.storage.threads.repository import Thread, require_thread

__all__ = ["POLICY", "page", "shown"]


def shown(db: Connection, project: str, thread: str) -> bytes:
    """A thread as a page to read; made in the thread of the database, as the loop should not wait for a long one."""
    found, everything = require_thread(db, project, thread), message_tree.list_nodes(db, project, thread)
    return page(found, branch_paths(everything, [found.head])[0], everything)


def page(thread: Thread, branch: Sequence[Node], everything: Sequence[Node]) -> bytes:
    """The file: one branch to be read, all of them as data."""
    lines = [
        *html_page.head(thread.title or thread.id),
        *(line for node in branch for line in html_page.article(node.message, _note(node))),
        html_page.data("thread", encode_thread(thread, list(everything)).decode().strip()),
        html_page.END,
    ]
    return ("\n".join(lines) + "\n").encode()


def _note(node: Node) -> str:
    return " · stopped" if node.status == "partial" else ""
