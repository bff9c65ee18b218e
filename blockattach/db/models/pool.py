"""What the pools last reported, and what has been given away of them."""
import sqlalchemy as sa

from blockattach.db.models import base

pools = sa.Table(
    'pools', base.metadata,
    # host@backend#pool
    sa.Column('name', base.PoolName, primary_key=True),
    sa.Column('host', sa.String(base.NAME_LENGTH), nullable=False, index=True),
    sa.Column('availability_zone', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('capabilities', base.LongText, nullable=False),
    # GiB; NULL means without limit.
    sa.Column('total_gb', sa.Double),
    sa.Column('free_gb', sa.Double),
    sa.Column('provisioned_gb', sa.Double, nullable=False),
    sa.Column('limit_gb', sa.Double),
    sa.Column('thin', sa.Boolean, nullable=False),
    sa.Column('multiattach', sa.Boolean, nullable=False),
    # Raised by a claim and lowered with the volume, never by a report.
    sa.Column('allocated_gb', sa.Integer, nullable=False, default=0),
    sa.Column('reported_at', base.Timestamp, nullable=False),
    **base.OPTIONS)
