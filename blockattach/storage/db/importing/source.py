"""Cinder database as the source of an import: its schema and its live rows.

Nothing is written to the database. Values are returned as stored, and are validated by
`blockattach.storage.domain.cinder_rows`. The tables are read by reflection, because the columns
differ between the releases of Cinder.
"""
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from blockattach.platform import errors

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
"""Columns that every supported schema must have, by table. Other columns may be missing."""

NEEDED_IF_THERE: Mapping[str, frozenset[str]] = {
    'attachment_specs': frozenset({'attachment_id', 'key', 'value'}),
    'volume_admin_metadata': frozenset({'volume_id', 'key', 'value'}),
    'encryption': frozenset({'volume_type_id', 'provider', 'control_location'}),
    'quality_of_service_specs': frozenset({'id', 'specs_id', 'key', 'value'}),
    'volume_type_projects': frozenset({'volume_type_id', 'project_id'}),
    'default_volume_types': frozenset({'volume_type_id', 'project_id'}),
    'services': frozenset({'binary', 'host', 'updated_at'}),
}
"""Columns that tables of later schemas must have, by table. Older schemas lack these tables."""
_ATTACHED_IN_ROW = frozenset({'attached_host', 'instance_uuid', 'mountpoint'})
NEEDED_ATTACHMENTS = frozenset({'id', 'volume_id', 'deleted', 'attached_host', 'instance_uuid',
                                'mountpoint', 'attach_status', 'attach_mode'})
KNOWN_REVISIONS = frozenset({
    '921e1a36b076', 'c92a3e68beed', '89aa6f9639f9', '9ab1b092a404', 'b8660621f1b9',
    'daa98075b90d', 'b7b88f50aab5', '9c74c1c6971f'})
"""Revisions of Cinder 19.0.0 to 29.0.0. Earlier releases have a number in ``migrate_version``."""
LAST_NUMBER = 145
"""Highest supported number in ``migrate_version``."""


class Source:
    """Read access to the live rows of a Cinder database.

    :ivar is_old: True if the schema has no table of attachments, and stores an attachment in
        columns of its volume
    """

    def __init__(self, url: str) -> None:
        """
        :param url: URL of the Cinder database for SQLAlchemy
        :raises ConfigurationError: the database cannot be read, or its schema is not supported
        """
        try:
            self._engine = sa.create_engine(url, hide_parameters=True)
            event.listen(self._engine, 'connect', self._make_read_only)
            self._metadata = sa.MetaData()
            with self._engine.connect() as connection:
                self._metadata.reflect(connection, resolve_fks=False)
                revision = self._revision(connection)
        except Exception as exc:  # noqa: BLE001 - drivers differ, and it may be no database at all
            raise _unreadable(exc) from exc
        self.is_old = self._check(revision)

    def close(self) -> None:
        """Close the connections to the database."""
        self._engine.dispose()

    def rows(self, name: str, **of: Iterable[Any]) -> list[dict[str, Any]]:
        """Return the live rows of a table.

        The rows are ordered by creation time and id, as far as the table has these columns. The
        list is empty if the table or a column of ``of`` does not exist.

        :param of: accepted values of columns, by the names of the columns
        """
        table = self._metadata.tables.get(name)
        if table is None or not set(of) <= set(table.c.keys()):
            return []
        order = [table.c[column] for column in ('created_at', 'id') if column in table.c]
        return self._read(table, _raw(table).where(_live(table), *(
            table.c[column].in_(list(values)) for column, values in of.items())).order_by(*order))

    def count(self, name: str) -> int:
        """Return the number of live rows of a table, or 0 if the table does not exist."""
        table = self._metadata.tables.get(name)
        if table is None:
            return 0
        [found] = self._read(table, sa.select(sa.func.count().label('found')).select_from(
            table).where(_live(table)))
        return int(found['found'])

    def count_lost(self, name: str) -> int:
        """Return the number of live rows of a table whose volume is deleted or missing.

        :param name: table with a column ``volume_id``. The number is 0 if the table does not
            exist
        """
        table, volumes = self._metadata.tables.get(name), self._metadata.tables['volumes']
        if table is None:
            return 0
        [found] = self._read(table, sa.select(sa.func.count().label('found')).select_from(
            table).where(_live(table), ~sa.exists().where(
                volumes.c.id == table.c.volume_id, _live(volumes))))
        return int(found['found'])

    def volumes(self) -> Iterator[Sequence[dict[str, Any]]]:
        """Yield the rows of all live volumes in batches, ordered by id."""
        table = self._metadata.tables['volumes']
        # SQLite allows NULL as a primary key. Such rows are read too, so that they are refused.
        found = self._read(table, _raw(table).where(_live(table), table.c.id.is_(None)))
        after = table.c.id.is_not(None)
        while True:
            if found:
                yield found
            found = self._read(
                table, _raw(table).where(_live(table), after).order_by(table.c.id).limit(BATCH))
            if not found:
                return
            after = table.c.id > found[-1]['id']

    def _read(self, table: sa.Table, query: sa.Select[Any]) -> list[dict[str, Any]]:
        try:
            with self._engine.connect() as connection:
                return [dict(row._mapping) for row in connection.execute(query)]
        except Exception as exc:  # noqa: BLE001 - drivers differ in how they refuse bytes
            raise _unreadable(exc, f'{table.name} of ') from exc

    def _make_read_only(self, raw: Any, _record: object) -> None:
        if self._engine.dialect.name == 'sqlite':
            # SQLite accepts any bytes as text. Rows with invalid text are refused later.
            raw.text_factory = _decode
        # The session is read-only, even if the user in the URL has the right to write.
        cursor = raw.cursor()
        cursor.execute(_READ_ONLY[self._engine.dialect.name])
        cursor.close()
        if self._engine.dialect.name != 'sqlite':
            # PostgreSQL undoes a setting whose transaction is rolled back.
            raw.commit()

    def _revision(self, connection: sa.Connection) -> str | int | None:
        # Cinder has replaced migration numbers by Alembic. An upgraded database has both tables.
        tables = self._metadata.tables
        for name, column in (('alembic_version', 'version_num'), ('migrate_version', 'version')):
            if name in tables:
                found = connection.execute(sa.select(tables[name].c[column])).scalar()
                if found is not None:
                    return found
        return None

    def _check(self, revision: str | int | None) -> bool:
        """Check the schema, and return the value of ``is_old``.

        :param revision: result of `_revision`
        :raises ConfigurationError: the schema is not supported
        """
        is_known = (revision in KNOWN_REVISIONS if isinstance(revision, str)
                    else isinstance(revision, int) and 0 < revision <= LAST_NUMBER)
        if not is_known:
            raise _unknown(f'revision {revision or "unknown"}')
        is_old = 'volume_attachment' not in self._metadata.tables
        needed = {**NEEDED, **{name: columns for name, columns in NEEDED_IF_THERE.items()
                               if name in self._metadata.tables}}
        if is_old:
            needed['volumes'] = needed['volumes'] | _ATTACHED_IN_ROW
        else:
            needed['volume_attachment'] = NEEDED_ATTACHMENTS
        for name, columns in needed.items():
            table = self._metadata.tables.get(name)
            missing = columns if table is None else columns - set(table.c.keys())
            if missing:
                raise _unknown(f'table {name} lacks {", ".join(sorted(missing))}')
        return is_old


def _live(table: sa.Table) -> sa.ColumnElement[bool]:
    # ``deleted`` is a boolean or a number in Cinder.
    if 'deleted' not in table.c:
        return sa.true()
    column = table.c.deleted
    return column == (sa.false() if isinstance(column.type, sa.Boolean) else 0)


def _raw(table: sa.Table) -> sa.Select[Any]:
    # Values are read as stored. A value that is invalid for its type then raises no error here,
    # and its row is refused later.
    return sa.select(*(_as_stored(column).label(column.name) for column in table.c))


def _as_stored(column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    if isinstance(column.type, sa.DateTime):
        return sa.cast(column, sa.String)
    if isinstance(column.type, sa.Boolean):
        return sa.type_coerce(column, sa.types.NullType())
    return column


def _decode(raw: bytes) -> str:
    return raw.decode('utf-8', 'surrogateescape')


def _unreadable(exc: Exception, what: str = '') -> errors.ConfigurationError:
    return errors.ConfigurationError(
        reason=f'cannot read {what}the Cinder database: {getattr(exc, "orig", None) or exc}')


def _unknown(reason: str) -> errors.ConfigurationError:
    return errors.ConfigurationError(
        reason=f'the schema of the Cinder database is not supported: {reason}. Nothing was '
               f'written')
