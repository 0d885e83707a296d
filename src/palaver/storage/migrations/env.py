"""What Alembic runs its scripts in: the connection, and the transaction, of whoever asked for it."""

from alembic import context

from palaver.storage.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
context.run_migrations()
