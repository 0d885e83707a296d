"""Schema migrations.

upgrade     checks and upgrades the schema of a database
env         the environment in which Alembic runs the scripts
versions    the scripts, which are never changed once released
"""
