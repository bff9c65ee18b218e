"""Tables. Used by `blockattach.storage.db` only; `metadata` is what the migrations must agree
with.
"""
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from blockattach.platform.db.clock import Timestamp

metadata = sa.MetaData(naming_convention={
    'ix': 'ix_%(table_name)s_%(column_0_N_name)s',
    'uq': 'uq_%(table_name)s_%(column_0_N_name)s',
    'fk': 'fk_%(table_name)s_%(column_0_name)s',
    'pk': 'pk_%(table_name)s',
})

ID_LENGTH = 36
NAME_LENGTH = 255

# Text is compared byte by byte, on MySQL too: keys of metadata that differ in case are two, and a
# list is sorted alike everywhere. All of Unicode fits. This collation pads with blanks. Texts of
# clients get one without padding, whose name depends on the server (`1000_first_release`).
_OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}

# ``host@backend#pool``, ordered by bytes: all pools of a host lie side by side in an index.
PoolName = sa.String(NAME_LENGTH).with_variant(
    sa.String(NAME_LENGTH, collation='C'), 'postgresql')
# MySQL's TEXT ends at 64 KiB.
LongText = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def uuid_column(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Column[str]:
    """A column that holds a UUID as text."""
    return sa.Column(name, sa.String(ID_LENGTH), *parts, **options)


def timestamps() -> tuple[sa.Column, ...]:
    """When a row was made and last changed."""
    return (sa.Column('created_at', Timestamp, nullable=False),
            sa.Column('updated_at', Timestamp))


def soft_deletion() -> tuple[sa.Column, ...]:
    """A deleted row stays as history; every index on live rows begins with ``deleted``."""
    return (sa.Column('deleted', sa.Boolean, nullable=False, default=False),
            sa.Column('deleted_at', Timestamp))


def _table(name: str, *parts: sa.schema.SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, *parts, **_OPTIONS)


def live(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Rows that are not gone. A comparison: MariaDB finds no index for ``deleted IS false``."""
    return table.c.deleted == sa.false()

# QoS specs: limits under a name.
qos_specs = _table(
    'qos_specs',
    uuid_column('id', primary_key=True),
    sa.Column('name', sa.String(NAME_LENGTH), nullable=False),
    # NULL once deleted, so that the name is free again and the database itself keeps it unique.
    sa.Column('live_name', sa.String(NAME_LENGTH), unique=True),
    sa.Column('consumer', sa.String(32), nullable=False),
    # A JSON object: always read as a whole, and with a volume in one row.
    sa.Column('specs', LongText, nullable=False),
    *timestamps(), *soft_deletion(),
    sa.Index(None, 'deleted', 'created_at', 'id'))

# Volumes and their types.
volume_types = _table(
    'volume_types',
    uuid_column('id', primary_key=True),
    sa.Column('name', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('description', sa.String(NAME_LENGTH)),
    sa.Column('is_public', sa.Boolean, nullable=False, default=True),
    # NULL once deleted, so that the name is free again and the database itself keeps it unique.
    sa.Column('live_name', sa.String(NAME_LENGTH), unique=True),
    uuid_column('qos_specs_id', index=True),
    *timestamps(), *soft_deletion())

volume_type_extra_specs = _table(
    'volume_type_extra_specs',
    uuid_column('volume_type_id', sa.ForeignKey('volume_types.id', ondelete='CASCADE'),
                primary_key=True),
    sa.Column('key', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('value', sa.String(NAME_LENGTH), nullable=False))

volume_type_encryptions = _table(
    'volume_type_encryptions',
    uuid_column('id', primary_key=True),
    uuid_column('volume_type_id', sa.ForeignKey('volume_types.id'), nullable=False),
    # NULL once deleted: a type is encrypted in one way at a time.
    uuid_column('live_volume_type_id', unique=True),
    sa.Column('provider', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('control_location', sa.String(32), nullable=False),
    sa.Column('cipher', sa.String(NAME_LENGTH)),
    sa.Column('key_size', sa.Integer),
    *timestamps(), *soft_deletion())

# The projects that may use a private type.
volume_type_projects = _table(
    'volume_type_projects',
    uuid_column('volume_type_id', sa.ForeignKey('volume_types.id', ondelete='CASCADE'),
                primary_key=True),
    sa.Column('project_id', sa.String(NAME_LENGTH), primary_key=True, index=True),
    sa.Column('created_at', Timestamp, nullable=False))

# The type of a project's volumes that name none.
default_volume_types = _table(
    'default_volume_types',
    sa.Column('project_id', sa.String(NAME_LENGTH), primary_key=True),
    uuid_column('volume_type_id', sa.ForeignKey('volume_types.id'), nullable=False, index=True))

volumes = _table(
    'volumes',
    uuid_column('id', primary_key=True),
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('user_id', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('name', sa.String(NAME_LENGTH)),
    sa.Column('description', sa.String(NAME_LENGTH)),
    sa.Column('size_gb', sa.Integer, nullable=False),
    # own_status is written by the volume's own lifecycle; lowest_rank, status and attach_status
    # follow from it and the attachments, in the same transaction.
    sa.Column('own_status', sa.String(32), nullable=False),
    sa.Column('lowest_rank', sa.Integer),
    sa.Column('status', sa.String(32), nullable=False),
    sa.Column('attach_status', sa.String(32), nullable=False),
    sa.Column('multiattach', sa.Boolean, nullable=False, default=False),
    sa.Column('bootable', sa.Boolean, nullable=False, default=False),
    # Copied from the type, which cannot change in these while it has volumes.
    sa.Column('single_writer', sa.Boolean, nullable=False, server_default='0'),
    sa.Column('encrypted', sa.Boolean, nullable=False, server_default='0'),
    # NULL: it was never set. Shown with attached_mode among the volume's metadata.
    sa.Column('readonly', sa.Boolean),
    sa.Column('attached_mode', sa.String(2)),
    # How many detaches os-begin_detaching has announced that have not begun yet.
    sa.Column('detach_announced', sa.Integer, nullable=False, server_default='0'),
    # When the last of them was announced, by the database's clock.
    sa.Column('detach_announced_at', Timestamp),
    # Raised with each change of an attachment that others depend on: part of their precondition.
    # `volume_rows.claim` raises the number as well, for transactions that only rely on the volume.
    sa.Column('attachment_moves', sa.Integer, nullable=False, server_default='0'),
    sa.Column('availability_zone', sa.String(NAME_LENGTH), nullable=False),
    uuid_column('volume_type_id', sa.ForeignKey('volume_types.id'), nullable=False),
    sa.Column('pool', PoolName),
    uuid_column('service_uuid'),
    sa.Column('shared_targets', sa.Boolean, nullable=False, default=True),
    # Raised by every move of the volume's own status; its work runs under it (`work`).
    sa.Column('generation', sa.Integer, nullable=False, default=0),
    # A JSON object, as the client sent it; NULL: none. Used by the scheduler.
    sa.Column('scheduler_hints', LongText),
    # What it was made from. No foreign keys: those may be gone since.
    uuid_column('snapshot_id'),
    uuid_column('source_volid'),
    # NULL: it was never moved.
    sa.Column('migration_status', sa.String(32)),
    # Room that its work has claimed beyond its size on its pool: on its own one, or another.
    sa.Column('claimed_pool', PoolName, index=True),
    sa.Column('claimed_gb', sa.Integer),
    *timestamps(), *soft_deletion(),
    sa.Index(None, 'deleted', 'project_id', 'created_at', 'id'),
    # Has all that is counted for a project's quotas.
    sa.Index(None, 'deleted', 'project_id', 'volume_type_id', 'size_gb'),
    sa.Index(None, 'deleted', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'pool'),
    sa.Index(None, 'deleted', 'volume_type_id'),
    # What is being made of a volume or a snapshot.
    sa.Index(None, 'snapshot_id', 'own_status'),
    sa.Index(None, 'source_volid', 'own_status'))

volume_metadata = _table(
    'volume_metadata',
    uuid_column('volume_id', sa.ForeignKey('volumes.id', ondelete='CASCADE'), primary_key=True),
    sa.Column('key', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('value', sa.String(NAME_LENGTH), nullable=False))

# What is known of the image that a volume was made from.
volume_image_metadata = _table(
    'volume_image_metadata',
    uuid_column('volume_id', sa.ForeignKey('volumes.id', ondelete='CASCADE'), primary_key=True),
    sa.Column('key', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('value', LongText, nullable=False))

# Volumes as they were at a moment.
snapshots = _table(
    'snapshots',
    uuid_column('id', primary_key=True),
    uuid_column('volume_id', sa.ForeignKey('volumes.id'), nullable=False),
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('user_id', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('name', sa.String(NAME_LENGTH)),
    sa.Column('description', sa.String(NAME_LENGTH)),
    # Of the volume at that moment.
    sa.Column('size_gb', sa.Integer, nullable=False),
    sa.Column('status', sa.String(32), nullable=False),
    # In percent.
    sa.Column('progress', sa.Integer, nullable=False, default=0),
    # Of the volume at that moment, as are the zone and the pool.
    uuid_column('volume_type_id', sa.ForeignKey('volume_types.id'), nullable=False, index=True),
    sa.Column('availability_zone', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('pool', PoolName),
    # Raised by every move of its status; its work runs under it.
    sa.Column('generation', sa.Integer, nullable=False, default=0),
    # An administrator has said its status: no work stands behind it.
    sa.Column('status_reset', sa.Boolean, nullable=False, default=False),
    *timestamps(), *soft_deletion(),
    sa.Index(None, 'deleted', 'project_id', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'project_id', 'volume_type_id', 'size_gb'),
    sa.Index(None, 'deleted', 'created_at', 'id'),
    sa.Index(None, 'volume_id', 'deleted'))

snapshot_metadata = _table(
    'snapshot_metadata',
    uuid_column('snapshot_id', sa.ForeignKey('snapshots.id', ondelete='CASCADE'),
                primary_key=True),
    sa.Column('key', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('value', sa.String(NAME_LENGTH), nullable=False))

# Volumes that a project offers to another one.
transfers = _table(
    'transfers',
    uuid_column('id', primary_key=True),
    uuid_column('volume_id', sa.ForeignKey('volumes.id', ondelete='CASCADE'), nullable=False,
                unique=True),
    # The project that offers it.
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('name', sa.String(NAME_LENGTH)),
    sa.Column('no_snapshots', sa.Boolean, nullable=False),
    # `blockattach.storage.domain.transfers.seal` of the key.
    sa.Column('sealed', sa.String(128), nullable=False),
    sa.Column('created_at', Timestamp, nullable=False),
    sa.Index(None, 'project_id', 'created_at', 'id'))

# Attachments, and the grants that they share per (volume, initiator).
attachments = _table(
    'attachments',
    uuid_column('id', primary_key=True),
    uuid_column('volume_id', sa.ForeignKey('volumes.id'), nullable=False),
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    uuid_column('instance_uuid'),
    sa.Column('state', sa.String(32), nullable=False),
    # Where a refused move goes back to; NULL: the row began in its state.
    sa.Column('previous_state', sa.String(32)),
    # NULL once deleted; the minimum per volume is one look-up in the index.
    sa.Column('rank', sa.Integer),
    # A plain volume's two slots, unique by an index; NULL: multiattach, or deleted.
    sa.Column('slot', sa.Integer),
    # Made by a legacy action for a consumer that is not known yet; os-attach takes it over.
    sa.Column('legacy_reservation', sa.Boolean, nullable=False, server_default='0'),
    sa.Column('mode', sa.String(2)),
    # What the row had before the connector that is being worked on: a refusal brings it back.
    sa.Column('previous_mode', sa.String(2)),
    sa.Column('connector', LongText),
    sa.Column('previous_connector', LongText),
    sa.Column('initiator', sa.String(NAME_LENGTH)),
    sa.Column('previous_initiator', sa.String(NAME_LENGTH)),
    sa.Column('host', sa.String(NAME_LENGTH)),
    sa.Column('mountpoint', sa.String(NAME_LENGTH)),
    # The connection from the target, without any credential.
    sa.Column('connection', LongText),
    sa.Column('generation', sa.Integer, nullable=False, default=0),
    sa.Column('owner', sa.String(NAME_LENGTH)),
    sa.Column('deadline', Timestamp, index=True),
    sa.Column('last_error', LongText),
    sa.Column('attached_at', Timestamp),
    sa.Column('detached_at', Timestamp),
    *timestamps(), *soft_deletion(),
    sa.UniqueConstraint('volume_id', 'slot'),
    sa.Index(None, 'volume_id', 'rank'),
    sa.Index(None, 'volume_id', 'deleted', 'initiator'),
    sa.Index(None, 'volume_id', 'previous_initiator'),
    sa.Index(None, 'deleted', 'project_id', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'instance_uuid'),
    sa.Index(None, 'deleted', 'host'),
    sa.Index(None, 'deleted', 'state'))

grants = _table(
    'grants',
    uuid_column('volume_id', sa.ForeignKey('volumes.id'), primary_key=True),
    sa.Column('initiator', sa.String(NAME_LENGTH), primary_key=True),
    # Distinguishes a volume's later initiators where each needs a target of its own.
    sa.Column('alias', sa.String(32), nullable=False),
    sa.Column('username', sa.String(64), nullable=False),
    sa.Column('sealed_password', sa.String(NAME_LENGTH), nullable=False),
    # `blockattach.platform.secrets.Key.id` of the key that sealed it.
    sa.Column('key_id', sa.String(16), nullable=False, index=True),
    # Taken over from another service: all of a volume share its one target and its credential.
    sa.Column('adopted', sa.Boolean, nullable=False, server_default='0'),
    sa.Column('created_at', Timestamp, nullable=False),
    sa.UniqueConstraint('volume_id', 'alias'))

# What happened to attachments: a row for each move, written in its transaction, never changed.
# No foreign key: it outlives the attachment, as long as it is configured.
attachment_events = _table(
    'attachment_events',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), primary_key=True,
              autoincrement=True),
    uuid_column('attachment_id', nullable=False),
    # Of the attachment, after it: an event happens once.
    sa.Column('generation', sa.Integer, nullable=False),
    uuid_column('volume_id', nullable=False),
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    uuid_column('instance_uuid'),
    sa.Column('host', sa.String(NAME_LENGTH)),
    sa.Column('event', sa.String(32), nullable=False),
    # NULL: it was made.
    sa.Column('old_state', sa.String(32)),
    sa.Column('new_state', sa.String(32), nullable=False),
    # Who asked for it; NULL: the service itself.
    sa.Column('user_id', sa.String(NAME_LENGTH)),
    sa.Column('request_id', sa.String(NAME_LENGTH)),
    sa.Column('reason', LongText),
    sa.Column('created_at', Timestamp, nullable=False),
    # Where it stands in the one order that all who watch see, given after the commit; NULL: not
    # yet. Ids are no such order: transactions commit in another one.
    sa.Column('position', sa.BigInteger, unique=True),
    sa.UniqueConstraint('attachment_id', 'generation'))

# Since when an attachment waits for its consumer, in database time.
# No foreign key: it would hold rows that are purged, and what is left of those is harmless.
waits = _table(
    'waits',
    uuid_column('attachment_id', primary_key=True),
    # Of the attachment: one that has moved since waits anew, or no more.
    sa.Column('generation', sa.Integer, nullable=False),
    sa.Column('since', Timestamp, nullable=False, index=True))


# Leases: which process acts on a pair or on a volume, where several serve its backend.
# No foreign key: it would lock the volume, and what a dead process left outlives its volume.
leases = _table(
    'leases',
    uuid_column('volume_id', primary_key=True),
    # Empty: the volume as a whole.
    sa.Column('initiator', sa.String(NAME_LENGTH), primary_key=True),
    # A process instance: host@backend/instance.
    sa.Column('owner', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('deadline', Timestamp, nullable=False, index=True))


# Asynchronous acts that are under way: one row each, and none once it has ended.
# No foreign key: the rows of several nouns, some of which outlive what they are about.
work = _table(
    'work',
    uuid_column('id', primary_key=True),
    sa.Column('noun', sa.String(32), nullable=False),
    # Of what may remain of a volume on a pool: the volume's id, "@" and the name of the pool.
    sa.Column('resource_id', sa.String(ID_LENGTH + 9 + NAME_LENGTH), nullable=False),
    sa.Column('verb', sa.String(32), nullable=False),
    # Of the resource, under which the act runs; a message of an older one changes nothing.
    sa.Column('generation', sa.Integer, nullable=False),
    # host@backend that does it; NULL: any scheduler.
    sa.Column('host', sa.String(NAME_LENGTH)),
    # The process instance that does it; NULL: none has taken it on.
    sa.Column('owner', sa.String(NAME_LENGTH)),
    sa.Column('deadline', Timestamp, nullable=False, index=True),
    # How often it was taken on.
    sa.Column('attempts', sa.Integer, nullable=False, default=0),
    # A JSON object: what the verb has to remember of earlier attempts.
    sa.Column('progress', LongText, nullable=False, default='{}'),
    # Of the last attempt that failed.
    sa.Column('error', LongText),
    sa.Column('request_id', sa.String(NAME_LENGTH)),
    sa.Column('project_id', sa.String(NAME_LENGTH)),
    sa.Column('created_at', Timestamp, nullable=False),
    # One act at a time on a resource.
    sa.UniqueConstraint('noun', 'resource_id'),
    sa.Index(None, 'host', 'deadline'))

# Services and their heartbeat.
services = _table(
    'services',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    uuid_column('uuid', nullable=False, unique=True),
    sa.Column('binary', sa.String(64), nullable=False),
    # host, or host@backend for a volume service.
    sa.Column('host', sa.String(NAME_LENGTH), nullable=False),
    # cluster@backend where several processes serve one backend; NULL: it is the only one.
    sa.Column('cluster', sa.String(NAME_LENGTH), index=True),
    sa.Column('availability_zone', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('disabled', sa.Boolean, nullable=False, default=False),
    sa.Column('disabled_reason', sa.String(NAME_LENGTH)),
    # Of a volume service: no volume is made or deleted there. NULL: never frozen.
    sa.Column('frozen', sa.Boolean),
    # Of a volume service: what it has repaired since its start, as JSON. NULL: not reported.
    sa.Column('reconciled', sa.Text),
    # Names the process instance that wrote last: the work of earlier ones is orphaned.
    sa.Column('process_instance', sa.String(64), nullable=False),
    # A name of `blockattach.storage.rpc.history`; NULL: one from before there was this column.
    sa.Column('release', sa.String(16)),
    sa.Column('reported_at', Timestamp, nullable=False),
    *timestamps(),
    sa.UniqueConstraint('binary', 'host'))

# Where the servers of processes listen that are sent to without a broker.
rpc_endpoints = _table(
    'rpc_endpoints',
    # One start of one server.
    sa.Column('instance', sa.String(32), primary_key=True),
    sa.Column('topic', sa.String(NAME_LENGTH), nullable=False, index=True),
    # Its name on the topic, which members of a cluster share.
    sa.Column('server', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('host', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('port', sa.Integer, nullable=False),
    # Of its certificate, SHA-256 in hexadecimal. NULL: without TLS.
    sa.Column('fingerprint', sa.String(64)),
    sa.Column('created_at', Timestamp, nullable=False),
    sa.Column('reported_at', Timestamp, nullable=False))

# What the pools last reported, and what has been given away of them.
pools = _table(
    'pools',
    # host@backend#pool
    sa.Column('name', PoolName, primary_key=True),
    sa.Column('host', sa.String(NAME_LENGTH), nullable=False, index=True),
    sa.Column('availability_zone', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('capabilities', LongText, nullable=False),
    # GiB; NULL means without limit.
    sa.Column('total_gb', sa.Double),
    sa.Column('free_gb', sa.Double),
    sa.Column('provisioned_gb', sa.Double, nullable=False),
    sa.Column('limit_gb', sa.Double),
    sa.Column('thin', sa.Boolean, nullable=False),
    sa.Column('multiattach', sa.Boolean, nullable=False),
    # Raised by a claim and lowered with the volume, never by a report.
    sa.Column('allocated_gb', sa.Integer, nullable=False, default=0),
    sa.Column('reported_at', Timestamp, nullable=False))

# What projects may have, where that is not the default.
quotas = _table(
    'quotas',
    sa.Column('project_id', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('resource', sa.String(64), primary_key=True),
    # For the resource "*": number of transactions that have claimed the project. NULL means the
    # default: an earlier release locked the project by such a row.
    sa.Column('hard_limit', sa.Integer))

# The defaults of projects, where they are not the configured ones.
quota_classes = _table(
    'quota_classes',
    sa.Column('class_name', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('resource', sa.String(64), primary_key=True),
    sa.Column('hard_limit', sa.Integer, nullable=False))

# Volumes that hold an image and are cloned instead of downloading it again.
cached_images = _table(
    'cached_images',
    # host@backend
    sa.Column('host', sa.String(NAME_LENGTH), primary_key=True),
    uuid_column('image_id', primary_key=True),
    uuid_column('volume_id', sa.ForeignKey('volumes.id'), nullable=False, index=True),
    # Of the image when it was downloaded: a later one is another image.
    sa.Column('image_updated_at', Timestamp),
    sa.Column('used_at', Timestamp, nullable=False))

# User messages about failures that came after the answer.
messages = _table(
    'messages',
    uuid_column('id', primary_key=True),
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('request_id', sa.String(NAME_LENGTH)),
    sa.Column('event_id', sa.String(64), nullable=False),
    sa.Column('user_message', LongText, nullable=False),
    sa.Column('detail', LongText),
    sa.Column('message_level', sa.String(16), nullable=False),
    sa.Column('resource_type', sa.String(64), nullable=False),
    uuid_column('resource_id'),
    sa.Column('expires_at', Timestamp, nullable=False, index=True),
    *timestamps(),
    sa.Index(None, 'project_id', 'created_at', 'id'))

# Requests that a client named, and what they made.
idempotency_keys = _table(
    'idempotency_keys',
    # A digest of project, user, method, path and the client's key: of any length and content.
    sa.Column('scope', sa.String(64), primary_key=True),
    sa.Column('body_digest', sa.String(64), nullable=False),
    uuid_column('resource_id', nullable=False, index=True),
    sa.Column('expires_at', Timestamp, nullable=False, index=True),
    sa.Column('created_at', Timestamp, nullable=False))
