"""Leases: which process acts on a pair or on a volume, where several serve its backend."""
import sqlalchemy as sa

from blockattach.db.models import base

# No foreign key: it would lock the volume, and what a dead process left outlives its volume.
leases = sa.Table(
    'leases', base.metadata,
    base.uuid_column('volume_id', primary_key=True),
    # Empty: the volume as a whole.
    sa.Column('initiator', sa.String(base.NAME_LENGTH), primary_key=True),
    # A process instance: host@backend/instance.
    sa.Column('owner', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('deadline', base.Timestamp, nullable=False, index=True),
    **base.OPTIONS)
