"""Attachments, and the grants that they share per (volume, initiator)."""
import sqlalchemy as sa

from blockattach.db.models import base

attachments = sa.Table(
    'attachments', base.metadata,
    base.uuid_column('id', primary_key=True),
    base.uuid_column('volume_id', nullable=False),
    sa.Column('project_id', sa.String(base.NAME_LENGTH), nullable=False),
    base.uuid_column('instance_uuid'),
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
    sa.Column('connector', base.LongText),
    sa.Column('previous_connector', base.LongText),
    sa.Column('initiator', sa.String(base.NAME_LENGTH)),
    sa.Column('previous_initiator', sa.String(base.NAME_LENGTH)),
    sa.Column('host', sa.String(base.NAME_LENGTH)),
    sa.Column('mountpoint', sa.String(base.NAME_LENGTH)),
    # The connection from the target, without any credential.
    sa.Column('connection', base.LongText),
    sa.Column('generation', sa.Integer, nullable=False, default=0),
    sa.Column('owner', sa.String(base.NAME_LENGTH)),
    sa.Column('deadline', base.Timestamp),
    sa.Column('last_error', base.LongText),
    sa.Column('attached_at', base.Timestamp),
    sa.Column('detached_at', base.Timestamp),
    *base.timestamps(), *base.soft_deletion(),
    sa.ForeignKeyConstraint(['volume_id'], ['volumes.id']),
    sa.UniqueConstraint('volume_id', 'slot'),
    sa.Index(None, 'volume_id', 'rank'),
    sa.Index(None, 'volume_id', 'deleted', 'initiator'),
    sa.Index(None, 'volume_id', 'previous_initiator'),
    sa.Index(None, 'deleted', 'project_id', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'created_at', 'id'),
    sa.Index(None, 'deleted', 'instance_uuid'),
    sa.Index(None, 'deleted', 'host'),
    sa.Index(None, 'deleted', 'state'),
    sa.Index(None, 'deadline'),
    **base.OPTIONS)

grants = sa.Table(
    'grants', base.metadata,
    base.uuid_column('volume_id', primary_key=True),
    sa.Column('initiator', sa.String(base.NAME_LENGTH), primary_key=True),
    # Distinguishes a volume's later initiators where each needs a target of its own.
    sa.Column('alias', sa.String(32), nullable=False),
    sa.Column('username', sa.String(64), nullable=False),
    sa.Column('sealed_password', sa.String(base.NAME_LENGTH), nullable=False),
    # `blockattach.secrets.Key.id` of the key that sealed it.
    sa.Column('key_id', sa.String(16), nullable=False, index=True),
    sa.Column('created_at', base.Timestamp, nullable=False),
    sa.UniqueConstraint('volume_id', 'alias'),
    sa.ForeignKeyConstraint(['volume_id'], ['volumes.id']),
    **base.OPTIONS)
