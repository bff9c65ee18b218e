"""The tables of the first release."""
import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from blockattach.platform.db import clock

revision = '0001'
down_revision = None
branch_labels = ('expand',)
depends_on = None

UUID = sa.String(36)
NAME = sa.String(255)
POOL_NAME = sa.String(255).with_variant(sa.String(255, collation='C'), 'postgresql')
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def _timestamps() -> tuple[sa.Column, ...]:
    return (sa.Column('created_at', TIMESTAMP, nullable=False),
            sa.Column('updated_at', TIMESTAMP))


def _soft_deletion() -> tuple[sa.Column, ...]:
    return (sa.Column('deleted', sa.Boolean, nullable=False),
            sa.Column('deleted_at', TIMESTAMP))


# What others refer to comes first. The names of constraints and indexes follow from the convention
# of `blockattach.storage.db.models.metadata`.
TABLES: dict[str, tuple[sa.schema.SchemaItem, ...]] = {
    'services': (
        sa.Column('id', sa.Integer, autoincrement=True, primary_key=True),
        sa.Column('uuid', UUID, nullable=False, unique=True),
        sa.Column('binary', sa.String(64), nullable=False),
        sa.Column('host', NAME, nullable=False),
        sa.Column('availability_zone', NAME, nullable=False),
        sa.Column('disabled', sa.Boolean, nullable=False),
        sa.Column('disabled_reason', NAME),
        sa.Column('frozen', sa.Boolean),
        sa.Column('cluster', NAME),
        sa.Column('release', sa.String(16)),
        sa.Column('process_instance', sa.String(64), nullable=False),
        sa.Column('reported_at', TIMESTAMP, nullable=False),
        sa.Column('reconciled', sa.Text),
        *_timestamps(),
        sa.UniqueConstraint('binary', 'host')),
    'pools': (
        sa.Column('name', POOL_NAME, primary_key=True),
        sa.Column('host', NAME, nullable=False),
        sa.Column('availability_zone', NAME, nullable=False),
        sa.Column('capabilities', LONG_TEXT, nullable=False),
        sa.Column('total_gb', sa.Double),
        sa.Column('free_gb', sa.Double),
        sa.Column('provisioned_gb', sa.Double, nullable=False),
        sa.Column('limit_gb', sa.Double),
        sa.Column('thin', sa.Boolean, nullable=False),
        sa.Column('multiattach', sa.Boolean, nullable=False),
        sa.Column('allocated_gb', sa.Integer, nullable=False),
        sa.Column('reported_at', TIMESTAMP, nullable=False)),
    'qos_specs': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('name', NAME, nullable=False),
        sa.Column('live_name', NAME, unique=True),
        sa.Column('consumer', sa.String(32), nullable=False),
        sa.Column('specs', LONG_TEXT, nullable=False),
        *_timestamps(), *_soft_deletion()),
    'volume_types': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('name', NAME, nullable=False),
        sa.Column('description', NAME),
        sa.Column('is_public', sa.Boolean, nullable=False),
        sa.Column('live_name', NAME, unique=True),
        sa.Column('qos_specs_id', UUID),
        *_timestamps(), *_soft_deletion()),
    'volume_type_extra_specs': (
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('key', NAME, primary_key=True),
        sa.Column('value', NAME, nullable=False)),
    'volume_type_encryptions': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id'), nullable=False),
        sa.Column('live_volume_type_id', UUID, unique=True),
        sa.Column('provider', NAME, nullable=False),
        sa.Column('control_location', sa.String(32), nullable=False),
        sa.Column('cipher', NAME),
        sa.Column('key_size', sa.Integer),
        *_timestamps(), *_soft_deletion()),
    'volumes': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('user_id', NAME, nullable=False),
        sa.Column('name', NAME),
        sa.Column('description', NAME),
        sa.Column('size_gb', sa.Integer, nullable=False),
        sa.Column('own_status', sa.String(32), nullable=False),
        sa.Column('lowest_rank', sa.Integer),
        sa.Column('status', sa.String(32), nullable=False),
        sa.Column('attach_status', sa.String(32), nullable=False),
        sa.Column('attached_mode', sa.String(2)),
        sa.Column('attachment_moves', sa.Integer, nullable=False, server_default='0'),
        sa.Column('detach_announced', sa.Integer, nullable=False, server_default='0'),
        sa.Column('detach_announced_at', TIMESTAMP),
        sa.Column('multiattach', sa.Boolean, nullable=False),
        sa.Column('single_writer', sa.Boolean, nullable=False, server_default='0'),
        sa.Column('readonly', sa.Boolean),
        sa.Column('encrypted', sa.Boolean, nullable=False, server_default='0'),
        sa.Column('bootable', sa.Boolean, nullable=False),
        sa.Column('availability_zone', NAME, nullable=False),
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id'), nullable=False),
        sa.Column('pool', POOL_NAME),
        sa.Column('service_uuid', UUID),
        sa.Column('shared_targets', sa.Boolean, nullable=False),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('scheduler_hints', LONG_TEXT),
        *_timestamps(), *_soft_deletion()),
    'volume_metadata': (
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('key', NAME, primary_key=True),
        sa.Column('value', NAME, nullable=False)),
    'attachments': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id'), nullable=False),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('instance_uuid', UUID),
        sa.Column('state', sa.String(32), nullable=False),
        sa.Column('previous_state', sa.String(32)),
        sa.Column('rank', sa.Integer),
        sa.Column('slot', sa.Integer),
        sa.Column('mode', sa.String(2)),
        sa.Column('previous_mode', sa.String(2)),
        sa.Column('connector', LONG_TEXT),
        sa.Column('previous_connector', LONG_TEXT),
        sa.Column('initiator', NAME),
        sa.Column('previous_initiator', NAME),
        sa.Column('host', NAME),
        sa.Column('mountpoint', NAME),
        sa.Column('connection', LONG_TEXT),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('owner', NAME),
        sa.Column('deadline', TIMESTAMP),
        sa.Column('last_error', LONG_TEXT),
        sa.Column('attached_at', TIMESTAMP),
        sa.Column('detached_at', TIMESTAMP),
        sa.Column('legacy_reservation', sa.Boolean, nullable=False, server_default='0'),
        *_timestamps(), *_soft_deletion(),
        sa.UniqueConstraint('volume_id', 'slot')),
    'waits': (
        sa.Column('attachment_id', UUID, primary_key=True),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('since', TIMESTAMP, nullable=False)),
    'transfers': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id', ondelete='CASCADE'),
                  nullable=False, unique=True),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('name', NAME),
        sa.Column('no_snapshots', sa.Boolean, nullable=False),
        sa.Column('sealed', sa.String(128), nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False)),
    'work': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('noun', sa.String(32), nullable=False),
        sa.Column('resource_id', sa.String(300), nullable=False),
        sa.Column('verb', sa.String(32), nullable=False),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('host', NAME),
        sa.Column('owner', NAME),
        sa.Column('deadline', TIMESTAMP, nullable=False),
        sa.Column('attempts', sa.Integer, nullable=False),
        sa.Column('progress', LONG_TEXT, nullable=False),
        sa.Column('error', LONG_TEXT),
        sa.Column('request_id', NAME),
        sa.Column('project_id', NAME),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.UniqueConstraint('noun', 'resource_id')),
    'grants': (
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id'), primary_key=True),
        sa.Column('initiator', NAME, primary_key=True),
        sa.Column('alias', sa.String(32), nullable=False),
        sa.Column('username', sa.String(64), nullable=False),
        sa.Column('sealed_password', NAME, nullable=False),
        sa.Column('key_id', sa.String(16), nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.UniqueConstraint('volume_id', 'alias')),
    'leases': (
        sa.Column('volume_id', UUID, primary_key=True),
        sa.Column('initiator', NAME, primary_key=True),
        sa.Column('owner', NAME, nullable=False),
        sa.Column('deadline', TIMESTAMP, nullable=False)),
    'quotas': (
        sa.Column('project_id', NAME, primary_key=True),
        sa.Column('resource', sa.String(64), primary_key=True),
        sa.Column('hard_limit', sa.Integer)),
    'idempotency_keys': (
        sa.Column('scope', sa.String(64), primary_key=True),
        sa.Column('body_digest', sa.String(64), nullable=False),
        sa.Column('resource_id', UUID, nullable=False),
        sa.Column('expires_at', TIMESTAMP, nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False)),
    'messages': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('request_id', NAME),
        sa.Column('event_id', sa.String(64), nullable=False),
        sa.Column('user_message', LONG_TEXT, nullable=False),
        sa.Column('message_level', sa.String(16), nullable=False),
        sa.Column('resource_type', sa.String(64), nullable=False),
        sa.Column('resource_id', UUID),
        sa.Column('expires_at', TIMESTAMP, nullable=False),
        *_timestamps()),
}
# In their order: of two that serve alike, PostgreSQL chooses the one that was made first.
INDEXES: dict[str, tuple[tuple[str, ...], ...]] = {
    'services': (('cluster',),),
    'pools': (('host',),),
    'qos_specs': (('deleted', 'created_at', 'id'),),
    'volume_types': (('qos_specs_id',),),
    'volumes': (
        ('deleted', 'created_at', 'id'), ('deleted', 'pool'),
        ('deleted', 'project_id', 'created_at', 'id'), ('deleted', 'volume_type_id')),
    'attachments': (
        ('deadline',), ('deleted', 'created_at', 'id'), ('deleted', 'host'),
        ('deleted', 'instance_uuid'), ('deleted', 'project_id', 'created_at', 'id'),
        ('deleted', 'state'), ('volume_id', 'deleted', 'initiator'),
        ('volume_id', 'previous_initiator'), ('volume_id', 'rank')),
    'waits': (('since',),),
    'transfers': (('project_id', 'created_at', 'id'),),
    'work': (('deadline',), ('host', 'deadline')),
    'grants': (('key_id',),),
    'leases': (('deadline',),),
    'idempotency_keys': (('expires_at',), ('resource_id',)),
    'messages': (('expires_at',), ('project_id', 'created_at', 'id')),
}


def upgrade() -> None:
    """Make every table, and the default volume type."""
    for name, parts in TABLES.items():
        op.create_table(name, *parts, **OPTIONS)
        for columns in INDEXES.get(name, ()):
            op.create_index(None, name, list(columns))
    _default_volume_type()


def _default_volume_type() -> None:
    types = sa.table(
        'volume_types',
        *(sa.column(name, NAME) for name in ('id', 'name', 'description', 'live_name')),
        *(sa.column(name, sa.Boolean) for name in ('is_public', 'deleted')),
        sa.column('created_at', TIMESTAMP))
    op.execute(types.insert().values(
        id=str(uuid.uuid4()), name='__DEFAULT__', live_name='__DEFAULT__',
        description='Default Volume Type', is_public=True, deleted=False, created_at=clock.now()))
