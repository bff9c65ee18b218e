"""Tables of the compute service, their schema revisions, and conversion of rows to records.

The tables can share a database with other tables.
"""
import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.platform.db import migrations
from blockattach.storage.domain import connection

metadata = sa.MetaData()

_OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}
# Without fsp, MySQL and MariaDB store whole seconds.
_Timestamp = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
_NAME = 255

MIGRATIONS = migrations.Migrations(
    pathlib.Path(__file__).parent / 'migrations', 'compute_alembic_version',
    'blockattach-manage compute_db sync', metadata,
    last_development=migrations.Version('0002', None))


class _Flavor(sa.TypeDecorator[records.Flavor]):
    """Column type that stores a complete flavor, because a server keeps its flavor unchanged."""

    impl = sa.JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: records.Flavor | None, dialect: Any) -> Any:
        return value and dataclasses.asdict(value)

    def process_result_value(self, value: Any, dialect: Any) -> records.Flavor | None:
        return value and records.Flavor(**value)


def _id(name: str, *parts: Any, **options: Any) -> sa.Column[str]:
    return sa.Column(name, sa.String(36), *parts, **options)


servers = sa.Table(
    'servers', metadata,
    _id('id', primary_key=True),
    sa.Column('project_id', sa.String(_NAME), nullable=False),
    sa.Column('user_id', sa.String(_NAME), nullable=False),
    sa.Column('name', sa.String(_NAME), nullable=False),
    sa.Column('description', sa.String(_NAME)),
    sa.Column('flavor', _Flavor, nullable=False),
    sa.Column('image_ref', sa.String(_NAME), nullable=False),
    sa.Column('host', sa.String(_NAME), index=True),
    sa.Column('old_host', sa.String(_NAME)),
    sa.Column('old_flavor', _Flavor),
    sa.Column('old_state', sa.String(32)),
    sa.Column('vm_state', sa.String(32), nullable=False),
    sa.Column('task_state', sa.String(32)),
    _id('reservation_id', index=True),
    sa.Column('metadata', sa.JSON, nullable=False),
    sa.Column('fault', sa.Text),
    sa.Column('created_at', _Timestamp, nullable=False),
    sa.Column('updated_at', _Timestamp, nullable=False),
    sa.Column('launched_at', _Timestamp),
    # Number of the newest lease on the server.
    sa.Column('generation', sa.BigInteger, nullable=False, server_default='1'),
    sa.Index('ix_servers_project', 'project_id', 'created_at', 'id'),
    **_OPTIONS)

block_devices = sa.Table(
    'block_devices', metadata,
    _id('id', primary_key=True),
    _id('server_id', nullable=False),
    _id('volume_id', nullable=False, index=True),
    sa.Column('device', sa.String(_NAME), nullable=False),
    sa.Column('mode', sa.String(2), nullable=False),
    sa.Column('state', sa.String(32), nullable=False),
    sa.Column('boot_index', sa.Integer),
    sa.Column('delete_on_termination', sa.Boolean, nullable=False),
    sa.Column('shared', sa.Boolean, nullable=False),
    sa.Column('tag', sa.String(60)),
    _id('attachment_id'),
    _id('next_attachment_id'),
    # A volume and a device name occur only once on a server.
    sa.UniqueConstraint('server_id', 'volume_id', name='uq_block_devices_volume'),
    sa.UniqueConstraint('server_id', 'device', name='uq_block_devices_device'),
    **_OPTIONS)

acts = sa.Table(
    'acts', metadata,
    _id('id', primary_key=True),
    _id('server_id', nullable=False, index=True),
    sa.Column('verb', sa.String(32), nullable=False),
    sa.Column('arguments', sa.Text, nullable=False),
    sa.Column('caller', sa.Text, nullable=False),
    sa.Column('finishing', sa.Boolean, nullable=False),
    # JSON object with the notes of the action, which must be available after a restart.
    sa.Column('notes', sa.Text, nullable=False),
    # Lease of the process that runs the action, and the time at which it expires.
    sa.Column('owner', sa.String(_NAME)),
    sa.Column('deadline', _Timestamp, nullable=False, index=True),
    sa.Column('created_at', _Timestamp, nullable=False),
    **_OPTIONS)

# History of the actions on a server, one row per action, kept as long as the server exists.
instance_actions = sa.Table(
    'instance_actions', metadata,
    # SQLite increments only a column of type INTEGER by itself.
    sa.Column('number', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), primary_key=True,
              autoincrement=True),
    _id('act_id', nullable=False, unique=True),
    _id('server_id', nullable=False),
    sa.Column('action', sa.String(32), nullable=False),
    sa.Column('request_id', sa.String(_NAME), nullable=False),
    sa.Column('project_id', sa.String(_NAME), nullable=False),
    sa.Column('user_id', sa.String(_NAME), nullable=False),
    sa.Column('host', sa.String(_NAME)),
    sa.Column('started_at', _Timestamp, nullable=False),
    sa.Column('updated_at', _Timestamp, nullable=False),
    sa.Column('finished_at', _Timestamp),
    sa.Column('fault', sa.Text),
    sa.Index('ix_instance_actions_server', 'server_id', 'number'),
    **_OPTIONS)

agents = sa.Table(
    'agents', metadata,
    sa.Column('host', sa.String(_NAME), primary_key=True),
    sa.Column('kind', sa.String(32), nullable=False),
    sa.Column('version', sa.String(16), nullable=False),
    sa.Column('reported_at', _Timestamp, nullable=False),
    **_OPTIONS)


def row(record: Any) -> dict[str, Any]:
    """Return the column values to insert for a record, by column name."""
    return {name: getattr(record, name) for name in record.__slots__}


def values(row: sa.Row[Any]) -> dict[str, Any]:
    """Return the values of a database row by column name."""
    return dict(row._mapping)


def server_of(row: sa.Row[Any]) -> records.Server:
    """Return the record for a row of the table ``servers``."""
    return records.Server(**{**values(row), 'vm_state': lifecycle.VmState(row.vm_state)})


def device_of(row: sa.Row[Any]) -> records.BlockDevice:
    """Return the record for a row of the table ``block_devices``."""
    return records.BlockDevice(**{**values(row), 'mode': connection.AccessMode(row.mode)})


def act_of(row: sa.Row[Any], lease: str, generation: int) -> records.Act:
    """Return the record for a row of the table ``acts``.

    :param lease: lease of this process on the server action
    :param generation: generation of the server
    """
    arguments: Mapping[str, Any] = json.loads(row.arguments)
    return records.Act(row.id, row.server_id, row.verb, arguments, json.loads(row.caller),
                       row.finishing, lease, generation)
