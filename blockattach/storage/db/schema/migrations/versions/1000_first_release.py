"""Tables of the first release."""
import uuid
from typing import Any

import sqlalchemy as sa
from alembic import context
from alembic import op
from sqlalchemy.dialects import mysql

from blockattach.platform import errors
from blockattach.platform.db import clock

revision = '1000'
down_revision = None
branch_labels = ('expand',)
depends_on = None

# Texts of clients need a collation without padding, because ``utf8mb4_bin`` pads the shorter of
# two compared texts with blanks. The name of the collation depends on the server. MariaDB executes
# the comment that begins with "/*M!", and MySQL the comment that begins with a version number.
COLLATIONS = ('utf8mb4_nopad_bin', 'utf8mb4_0900_bin')
EXACT = '/*M!100200 {} *//*!80017 {} */'.format(*COLLATIONS)

UUID = sa.String(36)
NAME = sa.String(255)
EXACT_NAME = NAME.with_variant(mysql.VARCHAR(255, collation=EXACT), 'mysql', 'mariadb')
POOL_NAME = sa.String(255).with_variant(sa.String(255, collation='C'), 'postgresql')
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
EXACT_LONG_TEXT = sa.Text().with_variant(
    mysql.MEDIUMTEXT(collation=EXACT), 'mysql', 'mariadb')
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def _timestamps() -> tuple[sa.Column, ...]:
    return (sa.Column('created_at', TIMESTAMP, nullable=False),
            sa.Column('updated_at', TIMESTAMP))


def _soft_deletion() -> tuple[sa.Column, ...]:
    return (sa.Column('deleted', sa.Boolean, nullable=False),
            sa.Column('deleted_at', TIMESTAMP))


# A referenced table comes before the tables that reference it. The names of constraints and
# indexes result from the naming convention of `blockattach.storage.db.models.metadata`.
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
        sa.Column('name', EXACT_NAME, nullable=False),
        sa.Column('live_name', EXACT_NAME, unique=True),
        sa.Column('consumer', sa.String(32), nullable=False),
        sa.Column('specs', LONG_TEXT, nullable=False),
        *_timestamps(), *_soft_deletion()),
    'volume_types': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('name', EXACT_NAME, nullable=False),
        sa.Column('description', EXACT_NAME),
        sa.Column('is_public', sa.Boolean, nullable=False),
        sa.Column('live_name', EXACT_NAME, unique=True),
        sa.Column('qos_specs_id', UUID),
        *_timestamps(), *_soft_deletion()),
    'volume_type_extra_specs': (
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('key', EXACT_NAME, primary_key=True),
        sa.Column('value', EXACT_NAME, nullable=False)),
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
        sa.Column('name', EXACT_NAME),
        sa.Column('description', EXACT_NAME),
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
        sa.Column('snapshot_id', UUID),
        sa.Column('source_volid', UUID),
        sa.Column('migration_status', sa.String(32)),
        sa.Column('claimed_pool', POOL_NAME),
        sa.Column('claimed_gb', sa.Integer),
        *_timestamps(), *_soft_deletion()),
    'volume_metadata': (
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('key', EXACT_NAME, primary_key=True),
        sa.Column('value', EXACT_NAME, nullable=False)),
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
        sa.Column('adopted', sa.Boolean, nullable=False, server_default='0'),
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
        sa.Column('detail', LONG_TEXT),
        sa.Column('message_level', sa.String(16), nullable=False),
        sa.Column('resource_type', sa.String(64), nullable=False),
        sa.Column('resource_id', UUID),
        sa.Column('expires_at', TIMESTAMP, nullable=False),
        *_timestamps()),
    'volume_image_metadata': (
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('key', EXACT_NAME, primary_key=True),
        sa.Column('value', EXACT_LONG_TEXT, nullable=False)),
    'snapshots': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id'), nullable=False),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('user_id', NAME, nullable=False),
        sa.Column('name', EXACT_NAME),
        sa.Column('description', EXACT_NAME),
        sa.Column('size_gb', sa.Integer, nullable=False),
        sa.Column('status', sa.String(32), nullable=False),
        sa.Column('progress', sa.Integer, nullable=False),
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id'), nullable=False),
        sa.Column('availability_zone', NAME, nullable=False),
        sa.Column('pool', POOL_NAME),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('status_reset', sa.Boolean, nullable=False),
        *_timestamps(), *_soft_deletion()),
    'snapshot_metadata': (
        sa.Column('snapshot_id', UUID, sa.ForeignKey('snapshots.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('key', EXACT_NAME, primary_key=True),
        sa.Column('value', EXACT_NAME, nullable=False)),
    'volume_type_projects': (
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('project_id', NAME, primary_key=True),
        sa.Column('created_at', TIMESTAMP, nullable=False)),
    'default_volume_types': (
        sa.Column('project_id', NAME, primary_key=True),
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id'), nullable=False)),
    'quota_classes': (
        sa.Column('class_name', EXACT_NAME, primary_key=True),
        sa.Column('resource', sa.String(64), primary_key=True),
        sa.Column('hard_limit', sa.Integer, nullable=False)),
    'cached_images': (
        sa.Column('host', NAME, primary_key=True),
        sa.Column('image_id', UUID, primary_key=True),
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id'), nullable=False),
        sa.Column('image_updated_at', TIMESTAMP),
        sa.Column('used_at', TIMESTAMP, nullable=False)),
    'rpc_endpoints': (
        sa.Column('instance', sa.String(32), primary_key=True),
        sa.Column('topic', NAME, nullable=False),
        sa.Column('server', NAME, nullable=False),
        sa.Column('host', NAME, nullable=False),
        sa.Column('port', sa.Integer, nullable=False),
        sa.Column('fingerprint', sa.String(64)),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.Column('reported_at', TIMESTAMP, nullable=False)),
    'attachment_events': (
        sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), primary_key=True,
                  autoincrement=True),
        sa.Column('attachment_id', UUID, nullable=False),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('volume_id', UUID, nullable=False),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('instance_uuid', UUID),
        sa.Column('host', NAME),
        sa.Column('event', sa.String(32), nullable=False),
        sa.Column('old_state', sa.String(32)),
        sa.Column('new_state', sa.String(32), nullable=False),
        sa.Column('user_id', NAME),
        sa.Column('request_id', NAME),
        sa.Column('reason', LONG_TEXT),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.Column('position', sa.BigInteger),
        sa.UniqueConstraint('position'),
        sa.UniqueConstraint('attachment_id', 'generation')),
}
# The order matters, because PostgreSQL chooses the older of two indexes with equal costs.
INDEXES: dict[str, tuple[tuple[str, ...], ...]] = {
    'services': (('cluster',),),
    'pools': (('host',),),
    'qos_specs': (('deleted', 'created_at', 'id'),),
    'volume_types': (('qos_specs_id',),),
    'volumes': (
        ('deleted', 'created_at', 'id'), ('deleted', 'pool'),
        ('deleted', 'project_id', 'created_at', 'id'), ('deleted', 'volume_type_id'),
        ('claimed_pool',), ('snapshot_id', 'own_status'), ('source_volid', 'own_status'),
        ('deleted', 'project_id', 'volume_type_id', 'size_gb')),
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
    'snapshots': (('deleted', 'created_at', 'id'), ('deleted', 'project_id', 'created_at', 'id'),
                  ('deleted', 'project_id', 'volume_type_id', 'size_gb'),
                  ('volume_id', 'deleted'), ('volume_type_id',)),
    'volume_type_projects': (('project_id',),),
    'default_volume_types': (('volume_type_id',),),
    'cached_images': (('volume_id',),),
    'rpc_endpoints': (('topic',),),
}


def upgrade() -> None:
    """Create the tables and the default volume type.

    :raises ConfigurationError: the database server has no binary collation without padding
    """
    if not context.is_offline_mode():
        _check_collations(op.get_bind())
    for name, items in TABLES.items():
        op.create_table(name, *items, **OPTIONS)
        for columns in INDEXES.get(name, ()):
            op.create_index(None, name, list(columns))
    _create_default_volume_type()


def _check_collations(connection: sa.Connection) -> None:
    if connection.dialect.name != 'mysql':
        return
    known = set(connection.scalars(sa.text(
        'SELECT collation_name FROM information_schema.collations')))
    if known.isdisjoint(COLLATIONS):
        raise errors.ConfigurationError(
            reason='the database server has no binary collation without padding. MariaDB 10.2 or '
                   'MySQL 8.0.17, or later, is required')


def _create_default_volume_type() -> None:
    types = sa.table(
        'volume_types',
        *(sa.column(name, NAME) for name in ('id', 'name', 'description', 'live_name')),
        *(sa.column(name, sa.Boolean) for name in ('is_public', 'deleted')),
        sa.column('created_at', TIMESTAMP))
    op.execute(types.insert().values(
        id=str(uuid.uuid4()), name='__DEFAULT__', live_name='__DEFAULT__',
        description='Default Volume Type', is_public=True, deleted=False, created_at=clock.now()))
