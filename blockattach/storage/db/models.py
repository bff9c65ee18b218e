"""Tables of the database, used only by `blockattach.storage.db`.

The schema migrations must result in the schema that ``metadata`` defines.
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

# Text is compared byte by byte on all databases. So metadata keys that differ in case are
# distinct, and the order of a list does not depend on the database. The character set covers all
# of Unicode. This collation ignores trailing blanks. Columns with texts of clients get another
# collation, whose name depends on the server (`1000_first_release`).
_OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}

# ``host@backend#pool``, compared by bytes, so that all pools of a host are adjacent in an index.
PoolName = sa.String(NAME_LENGTH).with_variant(
    sa.String(NAME_LENGTH, collation='C'), 'postgresql')
# TEXT is limited to 64 KiB on MySQL.
LongText = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def uuid_column(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> sa.Column[str]:
    """Return a column for a UUID in text form."""
    return sa.Column(name, sa.String(ID_LENGTH), *parts, **options)


def timestamps() -> tuple[sa.Column, ...]:
    """Return the columns ``created_at`` and ``updated_at`` of a table."""
    return (sa.Column('created_at', Timestamp, nullable=False),
            sa.Column('updated_at', Timestamp))


def soft_deletion() -> tuple[sa.Column, ...]:
    """Return the columns ``deleted`` and ``deleted_at`` of a table that keeps deleted rows."""
    return (sa.Column('deleted', sa.Boolean, nullable=False, default=False),
            sa.Column('deleted_at', Timestamp))


def _table(name: str, *parts: sa.schema.SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, *parts, **_OPTIONS)


def live(table: sa.FromClause) -> sa.ColumnElement[bool]:
    """Return the condition that a row of the table is not deleted."""
    # MariaDB uses no index for ``deleted IS false``.
    return table.c.deleted == sa.false()

# QoS specs: named limits of volume types.
qos_specs = _table(
    'qos_specs',
    uuid_column('id', primary_key=True),
    sa.Column('name', sa.String(NAME_LENGTH), nullable=False),
    # NULL once deleted, so that the name is free again and the database itself keeps it unique.
    sa.Column('live_name', sa.String(NAME_LENGTH), unique=True),
    sa.Column('consumer', sa.String(32), nullable=False),
    # The specs are a JSON object, because they are always read as a whole, together with a volume.
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
    # NULL once deleted, so that a type has at most one live encryption.
    uuid_column('live_volume_type_id', unique=True),
    sa.Column('provider', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('control_location', sa.String(32), nullable=False),
    sa.Column('cipher', sa.String(NAME_LENGTH)),
    sa.Column('key_size', sa.Integer),
    *timestamps(), *soft_deletion())

# Projects that may use a private type.
volume_type_projects = _table(
    'volume_type_projects',
    uuid_column('volume_type_id', sa.ForeignKey('volume_types.id', ondelete='CASCADE'),
                primary_key=True),
    sa.Column('project_id', sa.String(NAME_LENGTH), primary_key=True, index=True),
    sa.Column('created_at', Timestamp, nullable=False))

# Default types of projects, for volumes created without a type.
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
    # own_status is written by the lifecycle of the volume. lowest_rank, status and attach_status
    # are derived from own_status and the attachments in the same transaction.
    sa.Column('own_status', sa.String(32), nullable=False),
    sa.Column('lowest_rank', sa.Integer),
    sa.Column('status', sa.String(32), nullable=False),
    sa.Column('attach_status', sa.String(32), nullable=False),
    sa.Column('multiattach', sa.Boolean, nullable=False, default=False),
    sa.Column('bootable', sa.Boolean, nullable=False, default=False),
    # Copied from the type, whose values cannot change while live volumes have the type.
    sa.Column('single_writer', sa.Boolean, nullable=False, server_default='0'),
    sa.Column('encrypted', sa.Boolean, nullable=False, server_default='0'),
    # NULL if never set. The API shows the flag in the metadata of the volume, like attached_mode.
    sa.Column('readonly', sa.Boolean),
    sa.Column('attached_mode', sa.String(2)),
    # Number of detaches announced by os-begin_detaching that have not started yet.
    sa.Column('detach_announced', sa.Integer, nullable=False, server_default='0'),
    # Time of the last announcement, by the clock of the database.
    sa.Column('detach_announced_at', Timestamp),
    # Number of changes of attachments that may affect decisions on other attachments. Such a
    # decision is written only if the number is unchanged. `volume_rows.claim` also increments the
    # number, for transactions that rely on the volume without changing it.
    sa.Column('attachment_moves', sa.Integer, nullable=False, server_default='0'),
    sa.Column('availability_zone', sa.String(NAME_LENGTH), nullable=False),
    uuid_column('volume_type_id', sa.ForeignKey('volume_types.id'), nullable=False),
    sa.Column('pool', PoolName),
    uuid_column('service_uuid'),
    sa.Column('shared_targets', sa.Boolean, nullable=False, default=True),
    # Incremented by every change of own_status. Work on the volume is valid for one generation.
    sa.Column('generation', sa.Integer, nullable=False, default=0),
    # A JSON object as sent by the client, for the scheduler. NULL if there are no hints.
    sa.Column('scheduler_hints', LongText),
    # Source of the volume. Not foreign keys, because the source may be purged.
    uuid_column('snapshot_id'),
    uuid_column('source_volid'),
    # NULL if the volume was never migrated.
    sa.Column('migration_status', sa.String(32)),
    # Space in GiB that work has claimed in addition to the size of the volume, and the pool on
    # which the space is claimed.
    sa.Column('claimed_pool', PoolName, index=True),
    sa.Column('claimed_gb', sa.Integer),
    *timestamps(), *soft_deletion(),
    sa.Index(None, 'deleted', 'project_id', 'created_at', 'id'),
    # Contains all columns that are counted for the quotas of a project.
    sa.Index(None, 'deleted', 'project_id', 'volume_type_id', 'size_gb'),
    sa.Index(None, 'deleted', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'pool'),
    sa.Index(None, 'deleted', 'volume_type_id'),
    # For volumes that are being created from a volume or a snapshot.
    sa.Index(None, 'snapshot_id', 'own_status'),
    sa.Index(None, 'source_volid', 'own_status'))

volume_metadata = _table(
    'volume_metadata',
    uuid_column('volume_id', sa.ForeignKey('volumes.id', ondelete='CASCADE'), primary_key=True),
    sa.Column('key', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('value', sa.String(NAME_LENGTH), nullable=False))

# Metadata of the image from which a volume was created.
volume_image_metadata = _table(
    'volume_image_metadata',
    uuid_column('volume_id', sa.ForeignKey('volumes.id', ondelete='CASCADE'), primary_key=True),
    sa.Column('key', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('value', LongText, nullable=False))

# Snapshots of volumes.
snapshots = _table(
    'snapshots',
    uuid_column('id', primary_key=True),
    uuid_column('volume_id', sa.ForeignKey('volumes.id'), nullable=False),
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('user_id', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('name', sa.String(NAME_LENGTH)),
    sa.Column('description', sa.String(NAME_LENGTH)),
    # Size of the volume at the creation of the snapshot.
    sa.Column('size_gb', sa.Integer, nullable=False),
    sa.Column('status', sa.String(32), nullable=False),
    # Progress of the creation in percent.
    sa.Column('progress', sa.Integer, nullable=False, default=0),
    # Type, zone and pool of the volume at the creation of the snapshot.
    uuid_column('volume_type_id', sa.ForeignKey('volume_types.id'), nullable=False, index=True),
    sa.Column('availability_zone', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('pool', PoolName),
    # Incremented by every change of status. Work on the snapshot is valid for one generation.
    sa.Column('generation', sa.Integer, nullable=False, default=0),
    # True if a request has set the status directly, so that no work belongs to the status.
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

# Transfers: volumes that a project offers to another project.
transfers = _table(
    'transfers',
    uuid_column('id', primary_key=True),
    uuid_column('volume_id', sa.ForeignKey('volumes.id', ondelete='CASCADE'), nullable=False,
                unique=True),
    # Project that offers the volume.
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('name', sa.String(NAME_LENGTH)),
    sa.Column('no_snapshots', sa.Boolean, nullable=False),
    # Authorization key, sealed by `blockattach.storage.domain.transfers.seal`.
    sa.Column('sealed', sa.String(128), nullable=False),
    sa.Column('created_at', Timestamp, nullable=False),
    sa.Index(None, 'project_id', 'created_at', 'id'))

# Attachments. The attachments of a (volume, initiator) pair share a grant.
attachments = _table(
    'attachments',
    uuid_column('id', primary_key=True),
    uuid_column('volume_id', sa.ForeignKey('volumes.id'), nullable=False),
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    uuid_column('instance_uuid'),
    sa.Column('state', sa.String(32), nullable=False),
    # State that is restored after a refusal. NULL if the attachment was created in its state.
    sa.Column('previous_state', sa.String(32)),
    # NULL once deleted. An index lookup returns the lowest rank of a volume.
    sa.Column('rank', sa.Integer),
    # One of the two slots of a volume without multiattach, unique by a constraint. NULL for a
    # multiattach volume, and once deleted.
    sa.Column('slot', sa.Integer),
    # True if created by os-reserve for a consumer that is not known yet. os-attach then completes
    # the attachment.
    sa.Column('legacy_reservation', sa.Boolean, nullable=False, server_default='0'),
    sa.Column('mode', sa.String(2)),
    # The columns previous_* contain values from before the connector that is being connected. The
    # values are restored if the backend refuses that connector.
    sa.Column('previous_mode', sa.String(2)),
    sa.Column('connector', LongText),
    sa.Column('previous_connector', LongText),
    sa.Column('initiator', sa.String(NAME_LENGTH)),
    sa.Column('previous_initiator', sa.String(NAME_LENGTH)),
    sa.Column('host', sa.String(NAME_LENGTH)),
    sa.Column('mountpoint', sa.String(NAME_LENGTH)),
    # Connection reported by the backend, without a credential.
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
    # Suffix in the name of the target, if the target is different for each initiator.
    sa.Column('alias', sa.String(32), nullable=False),
    sa.Column('username', sa.String(64), nullable=False),
    sa.Column('sealed_password', sa.String(NAME_LENGTH), nullable=False),
    # `blockattach.platform.secrets.Key.id` of the key that sealed the password.
    sa.Column('key_id', sa.String(16), nullable=False, index=True),
    # True if imported from another service, where the grants of a volume share one target and one
    # credential.
    sa.Column('adopted', sa.Boolean, nullable=False, server_default='0'),
    sa.Column('created_at', Timestamp, nullable=False),
    sa.UniqueConstraint('volume_id', 'alias'))

# History of attachments: an event for each state change, inserted in the same transaction.
# There are no foreign keys, because an event is kept for the configured period even if the
# attachment is purged.
attachment_events = _table(
    'attachment_events',
    sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), primary_key=True,
              autoincrement=True),
    uuid_column('attachment_id', nullable=False),
    # Generation of the attachment after the event. A constraint allows one event per generation.
    sa.Column('generation', sa.Integer, nullable=False),
    uuid_column('volume_id', nullable=False),
    sa.Column('project_id', sa.String(NAME_LENGTH), nullable=False),
    uuid_column('instance_uuid'),
    sa.Column('host', sa.String(NAME_LENGTH)),
    sa.Column('event', sa.String(32), nullable=False),
    # NULL if the attachment was created.
    sa.Column('old_state', sa.String(32)),
    sa.Column('new_state', sa.String(32), nullable=False),
    # User who caused the event. NULL for the service itself.
    sa.Column('user_id', sa.String(NAME_LENGTH)),
    sa.Column('request_id', sa.String(NAME_LENGTH)),
    sa.Column('reason', LongText),
    sa.Column('created_at', Timestamp, nullable=False),
    # Position in the order in which all watchers receive the events, assigned after the commit.
    # NULL if not assigned yet. The order of the ids is different from the order of the commits.
    sa.Column('position', sa.BigInteger, unique=True),
    sa.UniqueConstraint('attachment_id', 'generation'))

# Start of the wait of an attachment for its consumer, in database time.
# A foreign key would prevent the purge of attachments. Leftover rows are harmless.
waits = _table(
    'waits',
    uuid_column('attachment_id', primary_key=True),
    # Generation of the attachment at the start of the wait. A later generation ends the wait.
    sa.Column('generation', sa.Integer, nullable=False),
    sa.Column('since', Timestamp, nullable=False, index=True))


# Leases of processes on pairs or volumes, if several processes serve a backend.
# A foreign key would lock the volume. Besides, the lease of a process that has ended may exist
# longer than the volume.
leases = _table(
    'leases',
    uuid_column('volume_id', primary_key=True),
    # Empty for the whole volume.
    sa.Column('initiator', sa.String(NAME_LENGTH), primary_key=True),
    # Owner name of a process instance: host@backend/instance.
    sa.Column('owner', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('deadline', Timestamp, nullable=False, index=True))


# Asynchronous work that has not ended.
# There is no foreign key, because the resources are in several tables, and some work exists longer
# than its resource.
work = _table(
    'work',
    uuid_column('id', primary_key=True),
    sa.Column('noun', sa.String(32), nullable=False),
    # Id of the resource. Work that is independent of the resource's status has a suffix: "@" and
    # the name of a pool whose data it removes, or "@servers" for notifying servers.
    sa.Column('resource_id', sa.String(ID_LENGTH + 9 + NAME_LENGTH), nullable=False),
    sa.Column('verb', sa.String(32), nullable=False),
    # Generation of the resource. A message with an older generation has no effect.
    sa.Column('generation', sa.Integer, nullable=False),
    # host@backend that executes the work. NULL if any scheduler may execute the work.
    sa.Column('host', sa.String(NAME_LENGTH)),
    # Process instance that executes the work. NULL if none has claimed the work.
    sa.Column('owner', sa.String(NAME_LENGTH)),
    sa.Column('deadline', Timestamp, nullable=False, index=True),
    # Number of times that the work was claimed.
    sa.Column('attempts', sa.Integer, nullable=False, default=0),
    # A JSON object with the state that the work keeps between attempts.
    sa.Column('progress', LongText, nullable=False, default='{}'),
    # Error of the last failed attempt.
    sa.Column('error', LongText),
    sa.Column('request_id', sa.String(NAME_LENGTH)),
    sa.Column('project_id', sa.String(NAME_LENGTH)),
    sa.Column('created_at', Timestamp, nullable=False),
    # A resource has at most one operation at a time.
    sa.UniqueConstraint('noun', 'resource_id'),
    sa.Index(None, 'host', 'deadline'))

# Services and their heartbeat.
services = _table(
    'services',
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    uuid_column('uuid', nullable=False, unique=True),
    sa.Column('binary', sa.String(64), nullable=False),
    # Host, or host@backend for a volume service.
    sa.Column('host', sa.String(NAME_LENGTH), nullable=False),
    # cluster@backend if several services share the backend. NULL if not clustered.
    sa.Column('cluster', sa.String(NAME_LENGTH), index=True),
    sa.Column('availability_zone', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('disabled', sa.Boolean, nullable=False, default=False),
    sa.Column('disabled_reason', sa.String(NAME_LENGTH)),
    # Only for a volume service: True if no volume may be created or deleted. NULL if never frozen.
    sa.Column('frozen', sa.Boolean),
    # Only for a volume service: repairs since its start, as JSON. NULL if not reported.
    sa.Column('reconciled', sa.Text),
    # Process instance that registered last. The work of earlier instances is orphaned.
    sa.Column('process_instance', sa.String(64), nullable=False),
    # Name of a release in `blockattach.storage.rpc.history`. NULL for a release in which this
    # column did not exist.
    sa.Column('release', sa.String(16)),
    sa.Column('reported_at', Timestamp, nullable=False),
    *timestamps(),
    sa.UniqueConstraint('binary', 'host'))

# Endpoints of the RPC servers that listen for direct calls, without a message broker.
rpc_endpoints = _table(
    'rpc_endpoints',
    # Identifier of the server, which is different after each start.
    sa.Column('instance', sa.String(32), primary_key=True),
    sa.Column('topic', sa.String(NAME_LENGTH), nullable=False, index=True),
    # Name of the server on the topic, which the members of a cluster share.
    sa.Column('server', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('host', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('port', sa.Integer, nullable=False),
    # SHA-256 fingerprint of the certificate in hexadecimal. NULL without TLS.
    sa.Column('fingerprint', sa.String(64)),
    sa.Column('created_at', Timestamp, nullable=False),
    sa.Column('reported_at', Timestamp, nullable=False))

# Pools with their last reports and their allocated space.
pools = _table(
    'pools',
    # host@backend#pool
    sa.Column('name', PoolName, primary_key=True),
    sa.Column('host', sa.String(NAME_LENGTH), nullable=False, index=True),
    sa.Column('availability_zone', sa.String(NAME_LENGTH), nullable=False),
    sa.Column('capabilities', LongText, nullable=False),
    # Numbers in GiB. NULL means unlimited.
    sa.Column('total_gb', sa.Double),
    sa.Column('free_gb', sa.Double),
    sa.Column('provisioned_gb', sa.Double, nullable=False),
    sa.Column('limit_gb', sa.Double),
    sa.Column('thin', sa.Boolean, nullable=False),
    sa.Column('multiattach', sa.Boolean, nullable=False),
    # In GiB. The claim and the release of space change this number, reports of the pool do not.
    sa.Column('allocated_gb', sa.Integer, nullable=False, default=0),
    sa.Column('reported_at', Timestamp, nullable=False))

# Limits of projects that differ from the default limits.
quotas = _table(
    'quotas',
    sa.Column('project_id', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('resource', sa.String(64), primary_key=True),
    # For the resource "*": number of transactions that have locked the project. A row with NULL
    # sets no limit. An earlier release inserted such rows to lock a project.
    sa.Column('hard_limit', sa.Integer))

# Limits of quota classes, which differ from the configured limits.
quota_classes = _table(
    'quota_classes',
    sa.Column('class_name', sa.String(NAME_LENGTH), primary_key=True),
    sa.Column('resource', sa.String(64), primary_key=True),
    sa.Column('hard_limit', sa.Integer, nullable=False))

# Cached images: volumes that are cloned instead of downloading an image again.
cached_images = _table(
    'cached_images',
    # host@backend
    sa.Column('host', sa.String(NAME_LENGTH), primary_key=True),
    uuid_column('image_id', primary_key=True),
    uuid_column('volume_id', sa.ForeignKey('volumes.id'), nullable=False, index=True),
    # updated_at of the image when it was downloaded. After a later change of the image, the cached
    # data are not used any more.
    sa.Column('image_updated_at', Timestamp),
    sa.Column('used_at', Timestamp, nullable=False))

# User messages about operations that failed after their requests were answered.
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

# Idempotency keys of clients, with the resources that the requests created.
idempotency_keys = _table(
    'idempotency_keys',
    # Digest of project, user, method, path and key. The key of a client may have any length.
    sa.Column('scope', sa.String(64), primary_key=True),
    sa.Column('body_digest', sa.String(64), nullable=False),
    uuid_column('resource_id', nullable=False, index=True),
    sa.Column('expires_at', Timestamp, nullable=False, index=True),
    sa.Column('created_at', Timestamp, nullable=False))
