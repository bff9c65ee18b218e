"""The tables of the first release."""
import uuid
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from blockattach.db import clock

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


def upgrade() -> None:
    """Make every table, and the default volume type."""
    for create in (_services, _pools, _qos_specs, _volume_types, _volume_type_extra_specs,
                   _volume_type_encryptions, _volumes, _volume_metadata, _attachments, _waits,
                   _transfers, _work, _grants, _leases, _quotas, _idempotency_keys, _messages,
                   _default_volume_type):
        create()


def _messages() -> None:
    op.create_table(
        'messages',
        sa.Column('id', UUID, nullable=False),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('request_id', NAME),
        sa.Column('event_id', sa.String(64), nullable=False),
        sa.Column('user_message', LONG_TEXT, nullable=False),
        sa.Column('message_level', sa.String(16), nullable=False),
        sa.Column('resource_type', sa.String(64), nullable=False),
        sa.Column('resource_id', UUID),
        sa.Column('expires_at', TIMESTAMP, nullable=False),
        *_timestamps(),
        sa.PrimaryKeyConstraint('id', name='pk_messages'),
        **OPTIONS)
    _indexes('messages',
             ('expires_at',),
             ('project_id', 'created_at', 'id'))


def _transfers() -> None:
    op.create_table(
        'transfers',
        sa.Column('id', UUID, nullable=False),
        sa.Column('volume_id', UUID, nullable=False),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('name', NAME),
        sa.Column('no_snapshots', sa.Boolean, nullable=False),
        sa.Column('sealed', sa.String(128), nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_transfers'),
        sa.UniqueConstraint('volume_id', name='uq_transfers_volume_id'),
        sa.ForeignKeyConstraint(['volume_id'], ['volumes.id'], name='fk_transfers_volume_id',
                                ondelete='CASCADE'),
        **OPTIONS)
    _indexes('transfers', ('project_id', 'created_at', 'id'))


def _pools() -> None:
    op.create_table(
        'pools',
        sa.Column('name', POOL_NAME, nullable=False),
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
        sa.Column('reported_at', TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint('name', name='pk_pools'),
        **OPTIONS)
    _indexes('pools', ('host',))


def _services() -> None:
    op.create_table(
        'services',
        sa.Column('id', sa.Integer, autoincrement=True, nullable=False),
        sa.Column('uuid', UUID, nullable=False),
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
        sa.PrimaryKeyConstraint('id', name='pk_services'),
        sa.UniqueConstraint('binary', 'host', name='uq_services_binary_host'),
        sa.UniqueConstraint('uuid', name='uq_services_uuid'),
        **OPTIONS)
    _indexes('services', ('cluster',))


def _qos_specs() -> None:
    op.create_table(
        'qos_specs',
        sa.Column('id', UUID, nullable=False),
        sa.Column('name', NAME, nullable=False),
        sa.Column('live_name', NAME),
        sa.Column('consumer', sa.String(32), nullable=False),
        sa.Column('specs', LONG_TEXT, nullable=False),
        *_timestamps(),
        *_soft_deletion(),
        sa.PrimaryKeyConstraint('id', name='pk_qos_specs'),
        sa.UniqueConstraint('live_name', name='uq_qos_specs_live_name'),
        **OPTIONS)
    _indexes('qos_specs', ('deleted', 'created_at', 'id'))


def _volume_types() -> None:
    op.create_table(
        'volume_types',
        sa.Column('id', UUID, nullable=False),
        sa.Column('name', NAME, nullable=False),
        sa.Column('description', NAME),
        sa.Column('is_public', sa.Boolean, nullable=False),
        sa.Column('live_name', NAME),
        sa.Column('qos_specs_id', UUID),
        *_timestamps(),
        *_soft_deletion(),
        sa.PrimaryKeyConstraint('id', name='pk_volume_types'),
        sa.UniqueConstraint('live_name', name='uq_volume_types_live_name'),
        **OPTIONS)
    _indexes('volume_types', ('qos_specs_id',))


def _volume_type_extra_specs() -> None:
    op.create_table(
        'volume_type_extra_specs',
        sa.Column('volume_type_id', UUID, nullable=False),
        sa.Column('key', NAME, nullable=False),
        sa.Column('value', NAME, nullable=False),
        sa.PrimaryKeyConstraint('volume_type_id', 'key', name='pk_volume_type_extra_specs'),
        sa.ForeignKeyConstraint(['volume_type_id'], ['volume_types.id'],
                                name='fk_volume_type_extra_specs_volume_type_id',
                                ondelete='CASCADE'),
        **OPTIONS)


def _volume_type_encryptions() -> None:
    op.create_table(
        'volume_type_encryptions',
        sa.Column('id', UUID, nullable=False),
        sa.Column('volume_type_id', UUID, nullable=False),
        sa.Column('live_volume_type_id', UUID),
        sa.Column('provider', NAME, nullable=False),
        sa.Column('control_location', sa.String(32), nullable=False),
        sa.Column('cipher', NAME),
        sa.Column('key_size', sa.Integer),
        *_timestamps(),
        *_soft_deletion(),
        sa.PrimaryKeyConstraint('id', name='pk_volume_type_encryptions'),
        sa.UniqueConstraint('live_volume_type_id',
                            name='uq_volume_type_encryptions_live_volume_type_id'),
        sa.ForeignKeyConstraint(['volume_type_id'], ['volume_types.id'],
                                name='fk_volume_type_encryptions_volume_type_id'),
        **OPTIONS)


def _volumes() -> None:
    op.create_table(
        'volumes',
        sa.Column('id', UUID, nullable=False),
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
        sa.Column('volume_type_id', UUID, nullable=False),
        sa.Column('pool', POOL_NAME),
        sa.Column('service_uuid', UUID),
        sa.Column('shared_targets', sa.Boolean, nullable=False),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('scheduler_hints', LONG_TEXT),
        *_timestamps(),
        *_soft_deletion(),
        sa.PrimaryKeyConstraint('id', name='pk_volumes'),
        sa.ForeignKeyConstraint(['volume_type_id'], ['volume_types.id'],
                                name='fk_volumes_volume_type_id'),
        **OPTIONS)
    _indexes('volumes',
             ('deleted', 'created_at', 'id'),
             ('deleted', 'pool'),
             ('deleted', 'project_id', 'created_at', 'id'),
             ('deleted', 'volume_type_id'))


def _volume_metadata() -> None:
    op.create_table(
        'volume_metadata',
        sa.Column('volume_id', UUID, nullable=False),
        sa.Column('key', NAME, nullable=False),
        sa.Column('value', NAME, nullable=False),
        sa.PrimaryKeyConstraint('volume_id', 'key', name='pk_volume_metadata'),
        sa.ForeignKeyConstraint(['volume_id'], ['volumes.id'],
                                name='fk_volume_metadata_volume_id', ondelete='CASCADE'),
        **OPTIONS)


def _attachments() -> None:
    op.create_table(
        'attachments',
        sa.Column('id', UUID, nullable=False),
        sa.Column('volume_id', UUID, nullable=False),
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
        *_timestamps(),
        *_soft_deletion(),
        sa.PrimaryKeyConstraint('id', name='pk_attachments'),
        sa.UniqueConstraint('volume_id', 'slot', name='uq_attachments_volume_id_slot'),
        sa.ForeignKeyConstraint(['volume_id'], ['volumes.id'],
                                name='fk_attachments_volume_id'),
        **OPTIONS)
    _indexes('attachments',
             ('deadline',),
             ('deleted', 'created_at', 'id'),
             ('deleted', 'host'),
             ('deleted', 'instance_uuid'),
             ('deleted', 'project_id', 'created_at', 'id'),
             ('deleted', 'state'),
             ('volume_id', 'deleted', 'initiator'),
             ('volume_id', 'previous_initiator'),
             ('volume_id', 'rank'))


def _waits() -> None:
    op.create_table(
        'waits',
        sa.Column('attachment_id', UUID, nullable=False),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('since', TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint('attachment_id', name='pk_waits'),
        **OPTIONS)
    _indexes('waits', ('since',))


def _work() -> None:
    op.create_table(
        'work',
        sa.Column('id', UUID, nullable=False),
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
        sa.PrimaryKeyConstraint('id', name='pk_work'),
        sa.UniqueConstraint('noun', 'resource_id', name='uq_work_noun_resource_id'),
        **OPTIONS)
    _indexes('work',
             ('deadline',),
             ('host', 'deadline'))


def _grants() -> None:
    op.create_table(
        'grants',
        sa.Column('volume_id', UUID, nullable=False),
        sa.Column('initiator', NAME, nullable=False),
        sa.Column('alias', sa.String(32), nullable=False),
        sa.Column('username', sa.String(64), nullable=False),
        sa.Column('sealed_password', NAME, nullable=False),
        sa.Column('key_id', sa.String(16), nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint('volume_id', 'initiator', name='pk_grants'),
        sa.UniqueConstraint('volume_id', 'alias', name='uq_grants_volume_id_alias'),
        sa.ForeignKeyConstraint(['volume_id'], ['volumes.id'],
                                name='fk_grants_volume_id'),
        **OPTIONS)
    _indexes('grants', ('key_id',))


def _leases() -> None:
    op.create_table(
        'leases',
        sa.Column('volume_id', UUID, nullable=False),
        sa.Column('initiator', NAME, nullable=False),
        sa.Column('owner', NAME, nullable=False),
        sa.Column('deadline', TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint('volume_id', 'initiator', name='pk_leases'),
        **OPTIONS)
    _indexes('leases', ('deadline',))


def _quotas() -> None:
    op.create_table(
        'quotas',
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('resource', sa.String(64), nullable=False),
        sa.Column('hard_limit', sa.Integer),
        sa.PrimaryKeyConstraint('project_id', 'resource', name='pk_quotas'),
        **OPTIONS)


def _idempotency_keys() -> None:
    op.create_table(
        'idempotency_keys',
        sa.Column('scope', sa.String(64), nullable=False),
        sa.Column('body_digest', sa.String(64), nullable=False),
        sa.Column('resource_id', UUID, nullable=False),
        sa.Column('expires_at', TIMESTAMP, nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint('scope', name='pk_idempotency_keys'),
        **OPTIONS)
    _indexes('idempotency_keys', ('expires_at',), ('resource_id',))


def _default_volume_type() -> None:
    types = sa.table(
        'volume_types',
        *(sa.column(name, NAME) for name in ('id', 'name', 'description', 'live_name')),
        *(sa.column(name, sa.Boolean) for name in ('is_public', 'deleted')),
        sa.column('created_at', TIMESTAMP))
    op.execute(types.insert().values(
        id=str(uuid.uuid4()), name='__DEFAULT__', live_name='__DEFAULT__',
        description='Default Volume Type', is_public=True, deleted=False, created_at=clock.now()))


def _timestamps() -> tuple[sa.Column, ...]:
    return (sa.Column('created_at', TIMESTAMP, nullable=False),
            sa.Column('updated_at', TIMESTAMP))


def _soft_deletion() -> tuple[sa.Column, ...]:
    return (sa.Column('deleted', sa.Boolean, nullable=False),
            sa.Column('deleted_at', TIMESTAMP))


def _indexes(table: str, *each: tuple[str, ...]) -> None:
    for columns in each:
        op.create_index(f'ix_{table}_{"_".join(columns)}', table, list(columns))
