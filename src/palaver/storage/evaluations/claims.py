"""An evaluation that one process runs alone: all its slices are that process's from the start.

So nobody else who serves a workflow of that name, with other code, has a hand in it. If the process dies, its slices
are given back like any others.
"""

from datetime import datetime

from sqlalchemy import Connection, select, update

from palaver.storage.evaluations import ends, keeping
from palaver.storage.evaluations.keeping import Evaluation, New
from palaver.storage.evaluations.slices import Slice
from palaver.storage.evaluations.tables import evaluation_slices as table


def create(db: Connection, project: str, new: New, process: str, at: datetime) -> tuple[Evaluation, list[Slice]]:
    """A new one that is begun at once, and its slices. How many cells of each run at once is the caller's to say."""
    keeping.create(db, project, new, at)
    mine = (table.c.project == project, table.c.evaluation == new.id)
    db.execute(update(table).where(*mine, table.c.state == "waiting").values(state="running", process=process))
    columns = (table.c.place, table.c.workflow, table.c.first, table.c.count)
    rows = db.execute(select(*columns).where(*mine, table.c.state == "running").order_by(table.c.place)).all()
    taken = [
        Slice(
            project=project,
            evaluation=new.id,
            place=place,
            workflow=workflow,
            first=first,
            count=count,
            width=1,
        )
        for place, workflow, first, count in rows
    ]
    if taken:
        ends.change(db, project, new.id, at, state="running", started_at=at)
    return keeping.get(db, project, new.id), taken
