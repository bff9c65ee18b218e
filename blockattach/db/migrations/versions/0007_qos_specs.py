"""QoS specs, and which volume types have them.

Expands only: the release before this one runs on it unchanged.
"""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}
UUID = sa.String(36)
NAME = sa.String(255)
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade() -> None:
    """Add the table, and the column with what it means for types that are there: none."""
    op.create_table(
        'qos_specs',
        sa.Column('id', UUID, nullable=False),
        sa.Column('name', NAME, nullable=False),
        sa.Column('live_name', NAME),
        sa.Column('consumer', sa.String(32), nullable=False),
        sa.Column('specs', LONG_TEXT, nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.Column('updated_at', TIMESTAMP),
        sa.Column('deleted', sa.Boolean, nullable=False),
        sa.Column('deleted_at', TIMESTAMP),
        sa.PrimaryKeyConstraint('id', name='pk_qos_specs'),
        sa.UniqueConstraint('live_name', name='uq_qos_specs_live_name'),
        **OPTIONS)
    op.create_index('ix_qos_specs_deleted_created_at_id', 'qos_specs',
                    ['deleted', 'created_at', 'id'])
    op.add_column('volume_types', sa.Column('qos_specs_id', UUID))
    op.create_index('ix_volume_types_qos_specs_id', 'volume_types', ['qos_specs_id'])
