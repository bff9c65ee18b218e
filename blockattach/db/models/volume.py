"""Volumes and their types."""
import sqlalchemy as sa

from blockattach.db.models import base

volume_types = sa.Table(
    'volume_types', base.metadata,
    base.uuid_column('id', primary_key=True),
    sa.Column('name', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('description', sa.String(base.NAME_LENGTH)),
    sa.Column('is_public', sa.Boolean, nullable=False, default=True),
    # NULL once deleted, so that the name is free again and the database itself keeps it unique.
    sa.Column('live_name', sa.String(base.NAME_LENGTH), unique=True),
    base.uuid_column('qos_specs_id'),
    *base.timestamps(), *base.soft_deletion(),
    sa.Index(None, 'qos_specs_id'),
    **base.OPTIONS)

volume_type_extra_specs = sa.Table(
    'volume_type_extra_specs', base.metadata,
    base.uuid_column('volume_type_id', primary_key=True),
    sa.Column('key', sa.String(base.NAME_LENGTH), primary_key=True),
    sa.Column('value', sa.String(base.NAME_LENGTH), nullable=False),
    sa.ForeignKeyConstraint(['volume_type_id'], ['volume_types.id'], ondelete='CASCADE'),
    **base.OPTIONS)

volume_type_encryptions = sa.Table(
    'volume_type_encryptions', base.metadata,
    base.uuid_column('id', primary_key=True),
    base.uuid_column('volume_type_id', nullable=False),
    # NULL once deleted: a type is encrypted in one way at a time.
    base.uuid_column('live_volume_type_id', unique=True),
    sa.Column('provider', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('control_location', sa.String(32), nullable=False),
    sa.Column('cipher', sa.String(base.NAME_LENGTH)),
    sa.Column('key_size', sa.Integer),
    *base.timestamps(), *base.soft_deletion(),
    sa.ForeignKeyConstraint(['volume_type_id'], ['volume_types.id']),
    **base.OPTIONS)

volumes = sa.Table(
    'volumes', base.metadata,
    base.uuid_column('id', primary_key=True),
    sa.Column('project_id', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('user_id', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('name', sa.String(base.NAME_LENGTH)),
    sa.Column('description', sa.String(base.NAME_LENGTH)),
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
    sa.Column('detach_announced_at', base.Timestamp),
    # Raised with each change of an attachment that others depend on: part of their precondition.
    sa.Column('attachment_moves', sa.Integer, nullable=False, server_default='0'),
    sa.Column('availability_zone', sa.String(base.NAME_LENGTH), nullable=False),
    base.uuid_column('volume_type_id', nullable=False),
    sa.Column('pool', base.PoolName),
    base.uuid_column('service_uuid'),
    sa.Column('shared_targets', sa.Boolean, nullable=False, default=True),
    # Raised by every move of the volume's own status; its work runs under it (`work`).
    sa.Column('generation', sa.Integer, nullable=False, default=0),
    # A JSON object, as the client sent it; NULL: none. Used by the scheduler.
    sa.Column('scheduler_hints', base.LongText),
    *base.timestamps(), *base.soft_deletion(),
    sa.ForeignKeyConstraint(['volume_type_id'], ['volume_types.id']),
    sa.Index(None, 'deleted', 'project_id', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'pool'),
    sa.Index(None, 'deleted', 'volume_type_id'),
    **base.OPTIONS)

volume_metadata = sa.Table(
    'volume_metadata', base.metadata,
    base.uuid_column('volume_id', primary_key=True),
    sa.Column('key', sa.String(base.NAME_LENGTH), primary_key=True),
    sa.Column('value', sa.String(base.NAME_LENGTH), nullable=False),
    sa.ForeignKeyConstraint(['volume_id'], ['volumes.id'], ondelete='CASCADE'),
    **base.OPTIONS)
