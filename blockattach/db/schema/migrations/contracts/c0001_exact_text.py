"""Text is compared exactly on MariaDB and MySQL: ``a`` and ``a`` with a blank behind it are two.

``utf8mb4_bin`` pads the shorter text with blanks. Needs no online migration and no release: a
process of any release works before and after, and no rows can collide, as more texts differ than
before. Ids, and names that the service makes, stay as they are.
"""
import logging
from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

from blockattach import errors

revision = 'c0001'
down_revision = None
branch_labels = ('contract',)
depends_on = None

# Alembic loads this file under a name of its own.
LOG = logging.getLogger('blockattach.db.schema.migrations')

# The first is MariaDB's (10.2), the second is MySQL's (8.0.17).
COLLATIONS = ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')
# What clients name. No other column is compared or selected together with one of these: the server
# refuses to mix two collations.
TEXTS = {
    'qos_specs': ('live_name', 'name'), 'quota_classes': ('class_name',),
    'snapshot_metadata': ('key', 'value'), 'snapshots': ('description', 'name'),
    'volume_image_metadata': ('key', 'value'),
    'volume_metadata': ('key', 'value'), 'volume_type_extra_specs': ('key', 'value'),
    'volume_types': ('description', 'live_name', 'name'), 'volumes': ('description', 'name')}
# Rows that are named in the log, of each column.
_NAMED = 20

_KNOWN = sa.text('SELECT collation_name FROM information_schema.collations '
                 'WHERE collation_name IN :names').bindparams(
                     sa.bindparam('names', COLLATIONS, expanding=True))
_COLUMNS = sa.text(
    'SELECT table_name, column_name, column_type, is_nullable, column_key <> :none '
    'FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name IN :tables '
    'AND collation_name <> :collation ORDER BY table_name, ordinal_position').bindparams(
        sa.bindparam('tables', tuple(TEXTS), expanding=True), none='')


def upgrade() -> None:
    """Give the texts of clients a collation without padding.

    Requests wait while the tables are copied, about two seconds for a million rows.

    :raises ConfigurationError: the server has no such collation
    """
    bind = op.get_bind()
    if bind.dialect.name != 'mysql':
        return
    known = set(bind.execute(_KNOWN).scalars())
    collation = next((name for name in COLLATIONS if name in known), None)
    if collation is None:
        raise errors.ConfigurationError(
            reason='the database server has no binary collation without padding: MariaDB has one '
                   'since 10.2, MySQL since 8.0.17')
    columns = [found for found in bind.execute(_COLUMNS, {'collation': collation})
               if found[1] in TEXTS[found[0]]]
    for table, column, *_, has_key in columns:
        if has_key:
            _name_padded(bind, table, column)
    tables = sorted({column[0] for column in columns})
    if not tables:
        return
    # No other session sees some of them changed and others not: a UNION of both is refused.
    op.execute('LOCK TABLES ' + ', '.join(f'`{table}` WRITE' for table in tables))
    try:
        for table in tables:
            op.execute(f'ALTER TABLE `{table}` ' + ', '.join(
                _changes([column for column in columns if column[0] == table], collation)))
    finally:
        op.execute('UNLOCK TABLES')


def _name_padded(bind: sa.Connection, table: str, column: str) -> None:
    """Log which texts of a key end with a blank: they no longer mean the one without it."""
    found = bind.execute(sa.text(
        f'SELECT DISTINCT `{column}` FROM `{table}` WHERE `{column}` LIKE :blank LIMIT :most'),
        {'blank': '% ', 'most': _NAMED}).scalars().all()
    if found:
        LOG.warning('Texts with a blank at the end are texts of their own from now on table=%s '
                    'column=%s texts=%r', table, column, found)


def _changes(columns: list[sa.Row], collation: str) -> Iterator[str]:
    for _, name, kind, is_nullable, _ in columns:
        yield (f'MODIFY `{name}` {kind} CHARACTER SET utf8mb4 COLLATE {collation} '
               + ('NULL' if is_nullable == 'YES' else 'NOT NULL'))
