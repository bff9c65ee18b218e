"""QoS specs: limits under a name."""
import sqlalchemy as sa

from blockattach.db.models import base

qos_specs = sa.Table(
    'qos_specs', base.metadata,
    base.uuid_column('id', primary_key=True),
    sa.Column('name', sa.String(base.NAME_LENGTH), nullable=False),
    # NULL once deleted, so that the name is free again and the database itself keeps it unique.
    sa.Column('live_name', sa.String(base.NAME_LENGTH), unique=True),
    sa.Column('consumer', sa.String(32), nullable=False),
    # A JSON object: always read as a whole, and with a volume in one row.
    sa.Column('specs', base.LongText, nullable=False),
    *base.timestamps(), *base.soft_deletion(),
    sa.Index(None, 'deleted', 'created_at', 'id'),
    **base.OPTIONS)
