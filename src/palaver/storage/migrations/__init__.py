"""Alembic's scripts: one for each change of the tables. They say what is done, not what the tables are today."""
