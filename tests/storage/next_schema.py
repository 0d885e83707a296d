"""A schema version after the current one, for tests: a migration script of several steps."""

from pathlib import Path

from palaver.storage.migrations import upgrade

HEAD = "9999"
"""Greater than every released version."""

SCRIPT = '''"""Projects have a title, and there are marks."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "{down}"


def upgrade() -> None:
    op.create_table("marks", sa.Column("name", sa.String(32), primary_key=True), sa.Column("place", sa.Integer))
    op.execute("INSERT INTO marks (name, place) SELECT name, 1 FROM projects")
    with op.batch_alter_table("projects") as projects:
        projects.add_column(sa.Column("title", sa.Text, nullable=True))
    op.execute("UPDATE projects SET title = 'Project ' || name")
    with op.batch_alter_table("projects", recreate="auto") as projects:
        projects.alter_column("title", existing_type=sa.Text, nullable=False)
    op.create_index("ix_marks_place", "marks", ["place"])
'''


def write_script(folder: Path) -> list[str]:
    """Write the script to a folder; returns all script locations."""
    (folder / "9999_the_next.py").write_text(SCRIPT.format(down=upgrade.SCHEMA_VERSION), encoding="utf-8")
    return [*upgrade.VERSION_LOCATIONS, str(folder)]
