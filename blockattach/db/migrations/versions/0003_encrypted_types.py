"""How the volumes of a type are encrypted, and which volumes are.

Expands only: the release before this one runs on it unchanged.
"""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}
UUID = sa.String(36)
NAME = sa.String(255)
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    """Add the table, and the column with what it means for volumes that are there: plain."""
    op.create_table(
        'volume_type_encryptions',
        sa.Column('id', UUID, nullable=False),
        sa.Column('volume_type_id', UUID, nullable=False),
        sa.Column('live_volume_type_id', UUID),
        sa.Column('provider', NAME, nullable=False),
        sa.Column('control_location', sa.String(32), nullable=False),
        sa.Column('cipher', NAME),
        sa.Column('key_size', sa.Integer),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.Column('updated_at', TIMESTAMP),
        sa.Column('deleted', sa.Boolean, nullable=False),
        sa.Column('deleted_at', TIMESTAMP),
        sa.PrimaryKeyConstraint('id', name='pk_volume_type_encryptions'),
        sa.UniqueConstraint('live_volume_type_id',
                            name='uq_volume_type_encryptions_live_volume_type_id'),
        sa.ForeignKeyConstraint(['volume_type_id'], ['volume_types.id'],
                                name='fk_volume_type_encryptions_volume_type_id'),
        **OPTIONS)
    op.add_column('volumes', sa.Column('encrypted', sa.Boolean, nullable=False,
                                       server_default='0'))
