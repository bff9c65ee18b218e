"""Services and their heartbeat."""
import sqlalchemy as sa

from blockattach.db.models import base

services = sa.Table(
    'services', base.metadata,
    sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
    base.uuid_column('uuid', nullable=False, unique=True),
    sa.Column('binary', sa.String(64), nullable=False),
    # host, or host@backend for a volume service.
    sa.Column('host', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('availability_zone', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('disabled', sa.Boolean, nullable=False, default=False),
    sa.Column('disabled_reason', sa.String(base.NAME_LENGTH)),
    # Names the life of the process that wrote last: what an earlier life owned is orphaned.
    sa.Column('incarnation', sa.String(64), nullable=False),
    # A name of `blockattach.rpc.history`; NULL: one from before there was this column.
    sa.Column('release', sa.String(16)),
    sa.Column('reported_at', base.Timestamp, nullable=False),
    *base.timestamps(),
    sa.UniqueConstraint('binary', 'host'),
    **base.OPTIONS)
