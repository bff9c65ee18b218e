"""What all tables share: names of constraints, column kinds, soft deletion."""
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

metadata = sa.MetaData(naming_convention={
    'ix': 'ix_%(table_name)s_%(column_0_N_name)s',
    'uq': 'uq_%(table_name)s_%(column_0_N_name)s',
    'fk': 'fk_%(table_name)s_%(column_0_name)s',
    'pk': 'pk_%(table_name)s',
})

ID_LENGTH = 36
NAME_LENGTH = 255

# Text is compared byte by byte, on MySQL too: keys of metadata that differ in case are two, and a
# list is sorted alike everywhere. All of Unicode fits.
OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}

# MySQL's DATETIME drops fractions of a second by default, and its TEXT ends at 64 KiB.
Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
# ``host@backend#pool``, ordered by bytes: all pools of a host lie side by side in an index.
PoolName = sa.String(NAME_LENGTH).with_variant(
    sa.String(NAME_LENGTH, collation='C'), 'postgresql')
LongText = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def uuid_column(name: str, **options: Any) -> sa.Column[str]:
    """A column that holds a UUID as text."""
    return sa.Column(name, sa.String(ID_LENGTH), **options)


def timestamps() -> tuple[sa.Column, ...]:
    """When a row was made and last changed."""
    return (sa.Column('created_at', Timestamp, nullable=False),
            sa.Column('updated_at', Timestamp))


def soft_deletion() -> tuple[sa.Column, ...]:
    """A deleted row stays as history; every index on live rows begins with ``deleted``."""
    return (sa.Column('deleted', sa.Boolean, nullable=False, default=False),
            sa.Column('deleted_at', Timestamp))


def live(table: sa.Table) -> sa.ColumnElement[bool]:
    """Rows that are not gone. A comparison: MariaDB finds no index for ``deleted IS false``."""
    return table.c.deleted == sa.false()
