"""Alembic environment that runs the revisions.

`blockattach.platform.db.migrations` passes in the connection. In offline mode there is no
connection, and the statements are printed for the kind of database in the configured URL.
"""
import sqlalchemy as sa
from alembic import context


def run(metadata: sa.MetaData) -> None:
    """Run the revisions on the connection, inside the transaction that is open there.

    :param metadata: tables whose naming conventions apply to constraints and indexes
    """
    given = context.config.attributes
    if context.is_offline_mode():
        context.configure(url=context.config.get_main_option('sqlalchemy.url'),
                          target_metadata=metadata, version_table=given['table'],
                          literal_binds=True)
    else:
        context.configure(connection=given['connection'], target_metadata=metadata,
                          version_table=given['table'])
    with context.begin_transaction():
        context.run_migrations()
