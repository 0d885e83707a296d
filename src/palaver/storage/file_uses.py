"""Who names a file: a message of a thread, or a run. A file that was named goes with the last that does.

A holder is the id of a thread or a run; in a thread, its node is told too. Only what is there can be named: a part may
stay when its file is gone, and then holds nothing.
"""

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy import ColumnElement, Connection, delete, insert, literal, not_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from palaver.core.files import file_ids, gone, has_files, is_stored, with_files
from palaver.core.messages import Message
from palaver.core.parts import File, Part
from palaver.storage import files
from palaver.storage.tables import file_uses as table
from palaver.storage.tables import files as files_table
from palaver.storage.tables import nodes as nodes_table

_AT_ONCE = 500
"""Files, holders and nodes that are named in one statement."""
_LONGEST = 64
_put = {
    "sqlite": sqlite.insert(table).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(table).on_conflict_do_nothing(),
}


def note(db: Connection, project: str, holder: str, said: Iterable[tuple[str, Message]]) -> None:
    """Note the files that these messages name, each with its node; a file that is named no longer goes by itself."""
    named = sorted({(node, name) for node, message in said if has_files([message]) for name in file_ids([message])})
    for start in range(0, len(named), _AT_ONCE):
        some = named[start : start + _AT_ONCE]
        theirs = files_table.c.project == project, files_table.c.id.in_(sorted({name for _, name in some}))
        # Held until we are done: nobody erases one meanwhile because nothing names it.
        held = select(files_table.c.id).where(*theirs).order_by(files_table.c.id)
        there = set(db.scalars(held.with_for_update(read=True, key_share=True)))
        rows = [{"project": project, "holder": holder, "node": node, "file": f} for node, f in some if f in there]
        if rows:
            db.execute(_put[db.dialect.name], rows)
            db.execute(update(files_table).where(*theirs, not_(files_table.c.used)).values(used=True))


def note_run(db: Connection, project: str, run: str, messages: Iterable[Message]) -> None:
    """The same of what is kept with a run."""
    if has_files(messages):
        note(db, project, run, (("", message) for message in messages))


def copy(db: Connection, project: str, thread: str, other: str) -> None:
    """Note that a copy of a thread names what its own messages name, as far as it has them."""
    copied = select(nodes_table.c.id).where(nodes_table.c.project == project, nodes_table.c.thread == other)
    named = select(table.c.project, literal(other), table.c.node, table.c.file).where(
        table.c.project == project, table.c.holder == thread, table.c.node.in_(copied)
    )
    db.execute(insert(table).from_select(["project", "holder", "node", "file"], named))


def drop(db: Connection, project: str, holders: Sequence[str]) -> None:
    """These are erased: files that nothing else names go with them."""
    _drop(db, project, [table.c.holder.in_(some) for some in _some(holders)])


def drop_nodes(
    db: Connection, project: str, thread: str, nodes: Sequence[str], *, only: Collection[str] | None = None
) -> None:
    """The same of some nodes of a thread; `only`: they stay, and no longer name these files."""
    which = [(table.c.holder == thread) & table.c.node.in_(some) for some in _some(nodes)]
    _drop(db, project, which if only is None else [one & table.c.file.in_(only) for one in which])


def present(db: Connection, project: str, messages: Sequence[Message]) -> Sequence[Message]:
    """Stored messages, as a workflow is given them: a file that is gone is told of in words."""
    if not has_files(messages):
        return messages
    there = files.find(db, project, [name for name in file_ids(messages) if len(name) <= _LONGEST])

    def looked_for(part: File) -> Part:
        return gone(part) if is_stored(part) and part.file_id not in there else part

    return with_files(messages, looked_for)


def _drop(db: Connection, project: str, which: Iterable[ColumnElement[bool]]) -> None:
    lost: set[str] = set()
    for one in which:
        lost.update(db.scalars(delete(table).where(table.c.project == project, one).returning(table.c.file)))
    if lost:
        files.forget_unnamed(db, project, sorted(lost))


def _some(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE)]
