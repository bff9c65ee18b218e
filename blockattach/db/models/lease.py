"""Who acts on the backend for one (volume, initiator), where several processes serve it."""
import sqlalchemy as sa

from blockattach.db.models import base

# No foreign key: it would lock the volume, and what a dead process left outlives its volume.
leases = sa.Table(
    'leases', base.metadata,
    base.uuid_column('volume_id', primary_key=True),
    sa.Column('initiator', sa.String(base.NAME_LENGTH), primary_key=True),
    # A life of a process: host@backend/incarnation.
    sa.Column('owner', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('deadline', base.Timestamp, nullable=False, index=True),
    **base.OPTIONS)
