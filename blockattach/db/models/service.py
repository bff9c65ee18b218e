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
    # cluster@backend where several processes serve one backend; NULL: it is the only one.
    sa.Column('cluster', sa.String(base.NAME_LENGTH), index=True),
    sa.Column('availability_zone', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('disabled', sa.Boolean, nullable=False, default=False),
    sa.Column('disabled_reason', sa.String(base.NAME_LENGTH)),
    # Of a volume service: no volume is made or deleted there. NULL: never frozen.
    sa.Column('frozen', sa.Boolean),
    # Of a volume service: what it has repaired since its start, as JSON. NULL: not reported.
    sa.Column('reconciled', sa.Text),
    # Names the process instance that wrote last: the work of earlier ones is orphaned.
    sa.Column('process_instance', sa.String(64), nullable=False),
    # A name of `blockattach.rpc.history`; NULL: one from before there was this column.
    sa.Column('release', sa.String(16)),
    sa.Column('reported_at', base.Timestamp, nullable=False),
    *base.timestamps(),
    sa.UniqueConstraint('binary', 'host'),
    **base.OPTIONS)
