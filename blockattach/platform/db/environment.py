"""What alembic runs around the revisions. The connection is handed in by
`blockattach.platform.db.migrations`.

Without one (offline) the statements are printed for the database whose URL was given.
"""
import sqlalchemy as sa
from alembic import context


def run(metadata: sa.MetaData) -> None:
    """Run the revisions on the connection, inside the transaction that is open there.

    :param metadata: the tables, by whose conventions constraints and indexes are named
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
