"""Alembic environment that applies the revisions of a database.

`blockattach.platform.db.migrations` passes in the open connection, the name of the version table
and the tables whose naming conventions apply to constraints and indexes. In offline mode there is
no connection, and the statements are printed for the kind of database in the configured URL.
"""
from alembic import context


def _run() -> None:
    given = context.config.attributes
    if context.is_offline_mode():
        context.configure(url=context.config.get_main_option('sqlalchemy.url'),
                          target_metadata=given['metadata'], version_table=given['table'],
                          literal_binds=True)
    else:
        context.configure(connection=given['connection'], target_metadata=given['metadata'],
                          version_table=given['table'])
    with context.begin_transaction():
        context.run_migrations()


_run()
