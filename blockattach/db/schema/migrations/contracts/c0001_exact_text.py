"""Text is compared exactly on MariaDB and MySQL: ``a`` and ``a`` with a blank behind it are two.

``utf8mb4_bin`` pads the shorter text with blanks. Needs no online migration and no release: a
process of any release works before and after, and no rows can collide, as more texts differ than
before. Ids stay as they are: they are UUIDs, and foreign keys hold their collation.
So do columns that are joined with ids or selected in one column with them, none of which a client
writes: the resources of quotas, and what work is on and remembers.
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
_ID_LENGTH = 36
_KEPT = ('resource', 'resource_id', 'progress')
# Rows that are named in the log, of each column.
_NAMED = 20

_KNOWN = sa.text('SELECT collation_name FROM information_schema.collations '
                 'WHERE collation_name IN :names').bindparams(
                     sa.bindparam('names', COLLATIONS, expanding=True))
_COLUMNS = sa.text(
    'SELECT table_name, column_name, column_type, is_nullable, column_key <> :none '
    'FROM information_schema.columns WHERE table_schema = DATABASE() '
    "AND data_type IN ('varchar', 'text', 'mediumtext') "
    'AND character_maximum_length <> :id_length AND column_name NOT IN :kept '
    'AND collation_name = :padding ORDER BY table_name, ordinal_position').bindparams(
        sa.bindparam('kept', _KEPT, expanding=True), none='', id_length=_ID_LENGTH,
        padding='utf8mb4_bin')


def upgrade() -> None:
    """Give every column of text that has the former collation one without padding.

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
    columns = list(bind.execute(_COLUMNS))
    for table, column, *_, has_key in columns:
        if has_key:
            _name_padded(bind, table, column)
    tables = sorted({column[0] for column in columns})
    if not tables:
        return
    # Nobody sees some of them changed and others not: a UNION of both kinds is refused.
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
