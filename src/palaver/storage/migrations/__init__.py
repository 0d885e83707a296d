"""Schema migrations.

upgrade   checks and upgrades the schema of a database
env       the environment in which Alembic runs the scripts in versions/

Scripts in versions/ are never changed once released.
"""
