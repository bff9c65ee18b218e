"""Volumes that a project offers to another one."""
import sqlalchemy as sa

from blockattach.db.models import base

transfers = sa.Table(
    'transfers', base.metadata,
    base.uuid_column('id', primary_key=True),
    base.uuid_column('volume_id', nullable=False, unique=True),
    # The project that offers it.
    sa.Column('project_id', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('name', sa.String(base.NAME_LENGTH)),
    sa.Column('no_snapshots', sa.Boolean, nullable=False),
    # `blockattach.domain.transfers.seal` of the key.
    sa.Column('sealed', sa.String(128), nullable=False),
    sa.Column('created_at', base.Timestamp, nullable=False),
    sa.ForeignKeyConstraint(['volume_id'], ['volumes.id'], ondelete='CASCADE'),
    sa.Index(None, 'project_id', 'created_at', 'id'),
    **base.OPTIONS)
