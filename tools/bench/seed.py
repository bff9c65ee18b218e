"""Creation of many volumes and attachments in a database within a minute or two.

A volume of each kind and an attachment are created with the API. Their rows are then copied under
other ids, so that the copies are as the service would write them. The tables are emptied first,
because MariaDB fills an empty table with one statement by sorting, without a check of each row.
"""
import contextlib
import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from bench import acts
from bench import scenarios
from bench import target as targets
from blockattach.storage.db import models

_ELSEWHERE = 'elsewhere@disks#disks'
"""Pool without a volume service, so that no service compares its target with these rows."""
_UNCHECKED = ('SET unique_checks = 0', 'SET foreign_key_checks = 0')
_CHECKED = ('SET unique_checks = 1', 'SET foreign_key_checks = 1')
_TABLES = ('grants', 'attachments', 'volume_metadata', 'volumes')


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Volumes of a project, of which each ``every``-th has ``each`` attachments.

    For each live row of volumes and attachments there is a deleted one.

    :ivar keys: number of metadata keys of each volume
    """

    project: str
    volumes: int
    every: int
    each: int
    keys: int = 0

    @property
    def attachments(self) -> int:
        """Number of live attachments."""
        return self.volumes // self.every * self.each


@dataclasses.dataclass(frozen=True, slots=True)
class _Templates:
    """Rows that the service has written."""

    plain: Mapping[str, Any]
    shared: Mapping[str, Any]
    attachment: Mapping[str, Any]
    grant: Mapping[str, Any]


def fill_lists(engine: sa.Engine, target: targets.Target, sizes: Iterable[int]) -> None:
    """Create the projects for listings, see `scenarios.list_project`.

    Each volume has two metadata keys, and each tenth has two attachments.

    :param sizes: numbers of volumes of the projects
    """
    fill(engine, target, [Group(scenarios.list_project(size), size, 10, 2, keys=2)
                          for size in sizes])


def fill(engine: sa.Engine, target: targets.Target, groups: list[Group]) -> None:
    """Fill the database of a service that has no volumes.

    :param target: service that creates the rows to copy
    """
    templates = _templates(engine, target)
    with engine.connect().execution_options(isolation_level='AUTOCOMMIT') as connection:
        for statement in (*_UNCHECKED, *(f'TRUNCATE TABLE {name}' for name in _TABLES)):
            connection.exec_driver_sql(statement)
        try:
            for name, columns, source in (
                    ('volumes', *_volumes(templates, groups)),
                    *(('volume_metadata', *made) for made in _metadata(groups)),
                    ('attachments', *_attachments(templates, groups)),
                    ('grants', *_grants(templates, groups))):
                _insert(connection, name, columns, source)
                # Without new statistics, the optimizer would assume that the table is empty.
                connection.exec_driver_sql(f'ANALYZE TABLE {name}')
        finally:
            # Reset the session variables, because the connection returns to a pool.
            for statement in _CHECKED:
                connection.exec_driver_sql(statement)


def _templates(engine: sa.Engine, target: targets.Target) -> _Templates:
    plain, shared = target.plain(1)[0], target.shared()[0]
    made = target.attached(shared, 'host-0')
    tables = models.volumes, models.attachments, models.grants
    with engine.connect() as connection:
        def row(table: sa.Table, **where: str) -> Mapping[str, Any]:
            return dict(connection.execute(table.select().where(*(
                table.c[name] == value for name, value in where.items()))).mappings().one())
        found = _Templates(row(tables[0], id=plain), row(tables[0], id=shared),
                           row(tables[1], id=made), row(tables[2], volume_id=shared))
    target.clean()
    with contextlib.closing(target.timed()) as timed:
        for volume_id in (plain, shared):
            acts.wait_gone(timed, volume_id, 0.05)
    return found


def _insert(connection: sa.Connection, table: str, columns: Mapping[str, str],
            source: str) -> None:
    connection.exec_driver_sql(f'INSERT INTO {table} ({", ".join(columns)}) '
                               f'SELECT {", ".join(columns.values())} FROM {source}'
                               .replace('%', '%%'))


def _uuid(text: str) -> str:
    """Return the SQL expression of a pseudo-random id that is derived from a text."""
    dashed = f'MD5({text})'
    for place in (9, 14, 19, 24):
        dashed = f"INSERT({dashed}, {place}, 0, '-')"
    return dashed


def _volume_id(number: str) -> str:
    return _uuid(f"CONCAT('volume ', {number})")


def _literal(value: Any) -> str:
    """Return the SQL literal of a value."""
    if value is None:
        return 'NULL'
    if isinstance(value, bool | int | float):
        return str(int(value) if isinstance(value, bool) else value)
    return "'" + str(value).replace('\\', '\\\\').replace("'", "''") + "'"


def _cases(number: str, values: list[tuple[int, str]]) -> str:
    """Return an SQL expression that selects a value by a number.

    :param values: pairs of the largest number and its value, in ascending order
    """
    chosen = ' '.join(f'WHEN {number} <= {bound} THEN {value}' for bound, value in values)
    return f'CASE {chosen} END'


def _bounds(groups: list[Group]) -> list[tuple[int, Group]]:
    """Return each group with the number of its last volume."""
    found, last = [], 0
    for group in groups:
        last += group.volumes
        found.append((last, group))
    return found


def _volumes(templates: _Templates, groups: list[Group]) -> tuple[dict[str, str], str]:
    live = sum(group.volumes for group in groups)
    number = f'(CASE WHEN seq > {live} THEN seq - {live} ELSE seq END)'
    attached = f'seq <= {live} AND ' + _cases(number, [
        (bound, f'MOD({number}, {group.every}) = 0') for bound, group in _bounds(groups)])
    columns = {}
    for name, plain in templates.plain.items():
        one, other = _literal(templates.shared[name]), _literal(plain)
        columns[name] = one if one == other else f'IF({attached}, {one}, {other})'
    gone = f'seq > {live}'
    columns |= {
        'id': _volume_id('seq'), 'pool': _literal(_ELSEWHERE), 'name': "CONCAT('seed-', seq)",
        'project_id': _cases(number, [(bound, _literal(group.project))
                                      for bound, group in _bounds(groups)]),
        'created_at': f"'2026-01-01' + INTERVAL {number} SECOND", 'deleted': gone,
        'deleted_at': f"IF({gone}, '2026-02-01', NULL)"}
    return columns, f'seq_1_to_{2 * live}'


def _metadata(groups: list[Group]) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the columns and the source of the metadata of each group."""
    # ``key`` is a reserved word of SQL.
    columns = {'volume_id': _volume_id('volume'), '`key`': "CONCAT('key-', nth)",
               'value': "CONCAT('value-', volume)"}
    for last, group in _bounds(groups):
        if group.keys:
            yield columns, (
                f'(SELECT {last - group.volumes} + 1 + (seq - 1) DIV {group.keys} AS volume, '
                f'(seq - 1) MOD {group.keys} AS nth FROM seq_1_to_{group.volumes * group.keys}) '
                'AS wanted')


def _attachment_source(groups: list[Group]) -> str:
    """Return the SQL source of the rows of attachments.

    The columns are the number of the attachment (``seq``), its volume (``volume``), its position
    in the volume (``nth``), and its project.
    """
    parts, begin, before = [], 0, 0
    for group in groups:
        if group.attachments:
            parts.append(
                f'SELECT {before} + seq AS seq, {begin} + {group.every} * '
                f'(1 + (seq - 1) DIV {group.each}) AS volume, (seq - 1) MOD {group.each} AS nth, '
                f'{_literal(group.project)} AS project FROM seq_1_to_{group.attachments}')
        begin += group.volumes
        before += group.attachments
    return f'({" UNION ALL ".join(parts)}) AS wanted'


def _attachments(templates: _Templates, groups: list[Group]) -> tuple[dict[str, str], str]:
    row = templates.attachment
    volume = _volume_id('volume')
    columns = {name: _literal(value) for name, value in row.items()}
    columns |= {
        'id': _uuid("CONCAT('attachment ', gone, ' ', seq)"), 'volume_id': volume,
        'project_id': 'project', 'instance_uuid': _uuid("CONCAT('instance ', seq)"),
        'host': "CONCAT('seed-', MOD(seq, 1000))", 'deleted': 'gone',
        'initiator': "CONCAT('iqn.2026-01.org.example:seed-', nth)",
        'connection': f'REPLACE({_literal(row["connection"])}, {_literal(row["volume_id"])}, '
                      f'{volume})',
        'state': f"IF(gone, 'gone', {_literal(row['state'])})",
        'rank': f'IF(gone, NULL, {_literal(row["rank"])})', 'slot': 'NULL',
        'created_at': "'2026-01-01' + INTERVAL seq SECOND",
        'deleted_at': "IF(gone, '2026-02-01', NULL)",
        'detached_at': "IF(gone, '2026-02-01', NULL)"}
    # ``rank`` is a reserved word since MySQL 8.0.
    columns['`rank`'] = columns.pop('rank')
    twice = '(SELECT 0 AS gone UNION ALL SELECT 1) AS copies'
    return columns, f'{_attachment_source(groups)}, {twice}'


def _grants(templates: _Templates, groups: list[Group]) -> tuple[dict[str, str], str]:
    columns = {name: _literal(value) for name, value in templates.grant.items()}
    columns |= {'volume_id': _volume_id('volume'),
                'initiator': "CONCAT('iqn.2026-01.org.example:seed-', nth)",
                'alias': "IF(nth = 0, '', CONCAT('-', nth))"}
    return columns, _attachment_source(groups)
