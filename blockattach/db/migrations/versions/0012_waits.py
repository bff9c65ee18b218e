"""Since when attachments wait for their consumers.

Expands only: the release before this one runs on it unchanged.
"""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None

UUID = sa.String(36)
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def upgrade() -> None:
    """Add a table that the release before does not know."""
    op.create_table(
        'waits',
        sa.Column('attachment_id', UUID, nullable=False),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('since', TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint('attachment_id', name='pk_waits'),
        **OPTIONS)
    op.create_index('ix_waits_since', 'waits', ['since'])
