"""Schema migrations.

    upgrade     checks and upgrades the schema of a database
    env         the environment in which Alembic runs the scripts
    versions    the scripts

Scripts are never changed once released.
"""
