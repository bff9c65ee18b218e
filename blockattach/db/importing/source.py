"""A Cinder database, read and never written: which schema it has, and its live rows.

The tables are read by reflection, since the same fact stands in other columns, or in none, from
release to release.
"""
import datetime
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from blockattach import errors

BATCH = 1000
_READ_ONLY = {
    'sqlite': 'PRAGMA query_only = ON',
    'mysql': 'SET SESSION TRANSACTION READ ONLY',
    'mariadb': 'SET SESSION TRANSACTION READ ONLY',
    'postgresql': 'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY'}

NEEDED: Mapping[str, frozenset[str]] = {
    'volumes': frozenset({'id', 'deleted', 'created_at', 'project_id', 'user_id', 'host', 'size',
                          'availability_zone', 'status', 'display_name', 'display_description',
                          'provider_location', 'provider_auth', 'volume_type_id'}),
    'snapshots': frozenset({'id', 'deleted', 'created_at', 'volume_id', 'project_id', 'user_id',
                            'status', 'volume_size', 'display_name', 'display_description'}),
    'volume_types': frozenset({'id', 'deleted', 'created_at', 'name'}),
    'volume_type_extra_specs': frozenset({'volume_type_id', 'deleted', 'key', 'value'}),
    'volume_metadata': frozenset({'volume_id', 'deleted', 'key', 'value'}),
    'snapshot_metadata': frozenset({'snapshot_id', 'deleted', 'key', 'value'}),
    'volume_glance_metadata': frozenset({'volume_id', 'deleted', 'key', 'value'}),
    'quotas': frozenset({'project_id', 'deleted', 'resource', 'hard_limit'}),
    'quota_classes': frozenset({'class_name', 'deleted', 'resource', 'hard_limit'}),
}
"""What every schema has that can be read; anything else may be missing."""

_ATTACHED_IN_ROW = frozenset({'attached_host', 'instance_uuid', 'mountpoint'})
NEEDED_ATTACHMENTS = frozenset({'id', 'volume_id', 'deleted', 'attached_host', 'instance_uuid',
                                'mountpoint', 'attach_status', 'attach_mode'})
KNOWN_REVISIONS = frozenset({
    '921e1a36b076', 'c92a3e68beed', '89aa6f9639f9', '9ab1b092a404', 'b8660621f1b9',
    'daa98075b90d', 'b7b88f50aab5', '9c74c1c6971f'})
"""Revisions of Cinder 19.0.0 to 29.0.0; earlier ones count in ``migrate_version``."""
LAST_NUMBER = 145
"""The last migration before there were revisions."""


class Source:
    """The live rows of a Cinder database."""

    def __init__(self, url: str) -> None:
        """
        :raises ConfigurationError: it cannot be read, or its schema is not one that is known
        """
        try:
            self._engine = sa.create_engine(url, hide_parameters=True)
            event.listen(self._engine, 'connect', self._make_read_only)
            self._metadata = sa.MetaData()
            with self._engine.connect() as connection:
                self._metadata.reflect(connection, resolve_fks=False)
                revision = self._revision(connection)
        except (sa.exc.SQLAlchemyError, ImportError) as exc:
            raise errors.ConfigurationError(reason='cannot read the Cinder database: '
                                            f'{getattr(exc, "orig", None) or exc}') from exc
        self.is_old = self._check(revision)

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def rows(self, name: str, **of: Iterable[Any]) -> list[dict[str, Any]]:
        """The live rows of a table, in the order of their keys; none where it is missing.

        :param of: only those with one of these values in a column
        """
        table = self._metadata.tables.get(name)
        if table is None or not set(of) <= set(table.c.keys()):
            return []
        query = sa.select(table).where(_live(table), *(
            table.c[column].in_(list(values)) for column, values in of.items()))
        order = [table.c[column] for column in ('created_at', 'id') if column in table.c]
        with self._engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(query.order_by(*order))]

    def count(self, name: str) -> int:
        """How many live rows a table has."""
        table = self._metadata.tables.get(name)
        if table is None:
            return 0
        with self._engine.connect() as connection:
            return connection.execute(
                sa.select(sa.func.count()).select_from(table).where(_live(table))).scalar_one()

    def volumes(self) -> Iterator[Sequence[dict[str, Any]]]:
        """All live volumes, by id, so many at once."""
        table, last = self._metadata.tables['volumes'], ''
        while True:
            query = sa.select(table).where(_live(table), table.c.id > last)
            with self._engine.connect() as connection:
                found = [dict(row._mapping) for row in connection.execute(
                    query.order_by(table.c.id).limit(BATCH))]
            if not found:
                return
            yield found
            last = found[-1]['id']

    def running(self, now: datetime.datetime, within: datetime.timedelta) -> list[str]:
        """The services of Cinder that have reported lately.

        :param now: in UTC
        """
        return sorted(f'{row["binary"]} on {row["host"]}' for row in self.rows('services')
                      if row.get('updated_at') and row['updated_at'] > now - within)

    def _make_read_only(self, raw: Any, _record: object) -> None:
        cursor = raw.cursor()
        cursor.execute(_READ_ONLY[self._engine.dialect.name])
        cursor.close()
        if self._engine.dialect.name != 'sqlite':
            raw.commit()

    def _revision(self, connection: sa.Connection) -> str | int | None:
        """What the database says of its schema; None: nothing."""
        tables = self._metadata.tables
        for name, column in (('alembic_version', 'version_num'), ('migrate_version', 'version')):
            if name in tables:
                found = connection.execute(sa.select(tables[name].c[column])).scalar()
                if found is not None:
                    return found
        return None

    def _check(self, revision: str | int | None) -> bool:
        """Whether attachments stand in columns of the volumes.

        :raises ConfigurationError: the schema is not one that is known
        """
        known = (revision in KNOWN_REVISIONS if isinstance(revision, str)
                 else revision is not None and 0 < revision <= LAST_NUMBER)
        if not known:
            raise _unknown(f'its revision is {revision or "not said"}')
        is_old = 'volume_attachment' not in self._metadata.tables
        needed = {**NEEDED}
        if is_old:
            needed['volumes'] = needed['volumes'] | _ATTACHED_IN_ROW
        else:
            needed['volume_attachment'] = NEEDED_ATTACHMENTS
        for name, columns in needed.items():
            table = self._metadata.tables.get(name)
            missing = columns if table is None else columns - set(table.c.keys())
            if missing:
                raise _unknown(f'{name} has no {", ".join(sorted(missing))}')
        return is_old


def _live(table: sa.Table) -> sa.ColumnElement[bool]:
    """A boolean here, a number there."""
    if 'deleted' not in table.c:
        return sa.true()
    column = table.c.deleted
    return column == (sa.false() if isinstance(column.type, sa.Boolean) else 0)


def _unknown(reason: str) -> errors.ConfigurationError:
    return errors.ConfigurationError(
        reason=f'this is not a Cinder database of a schema that is known: {reason}. Nothing was '
               f'written')
