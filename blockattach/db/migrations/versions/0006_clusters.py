"""Several processes may serve one backend: their cluster, and their leases.

Expands only: the release before this one runs on it unchanged.
"""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None

UUID = sa.String(36)
NAME = sa.String(255)
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def upgrade() -> None:
    """Add what stays empty where each backend has one process."""
    op.add_column('services', sa.Column('cluster', NAME))
    op.create_index('ix_services_cluster', 'services', ['cluster'])
    op.add_column('volumes', sa.Column('lease_owner', NAME))
    op.add_column('volumes', sa.Column('lease_deadline', TIMESTAMP))
    op.create_table(
        'leases',
        sa.Column('volume_id', UUID, nullable=False),
        sa.Column('initiator', NAME, nullable=False),
        sa.Column('owner', NAME, nullable=False),
        sa.Column('deadline', TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint('volume_id', 'initiator', name='pk_leases'),
        **OPTIONS)
    op.create_index('ix_leases_deadline', 'leases', ['deadline'])
