"""What alembic runs around the revisions. `blockattach.db.schema.migrate` hands the connection in.

Without one (offline) the statements are printed for the database whose URL was given.
"""
from alembic import context

from blockattach.db import models


def run() -> None:
    """Run the revisions on the connection, inside the transaction that is open there."""
    connection = context.config.attributes.get('connection')
    if context.is_offline_mode():
        context.configure(url=context.config.get_main_option('sqlalchemy.url'),
                          target_metadata=models.metadata, literal_binds=True)
    else:
        context.configure(connection=connection, target_metadata=models.metadata)
    with context.begin_transaction():
        context.run_migrations()


run()
