"""Legacy actions, modes of types and volumes, named requests, and limits.

Expands only: the release before this one runs on it unchanged.
"""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None

OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    """Add columns with what they mean for rows that are there, and two tables."""
    op.add_column('volumes', sa.Column('single_writer', sa.Boolean, nullable=False,
                                       server_default='0'))
    op.add_column('volumes', sa.Column('readonly', sa.Boolean))
    op.add_column('volumes', sa.Column('attached_mode', sa.String(2)))
    op.add_column('volumes', sa.Column('detach_announced', sa.Integer, nullable=False,
                                       server_default='0'))
    op.add_column('attachments', sa.Column('hidden', sa.Boolean, nullable=False,
                                           server_default='0'))
    op.create_table(
        'idempotency_keys',
        sa.Column('scope', sa.String(64), nullable=False),
        sa.Column('body_digest', sa.String(64), nullable=False),
        sa.Column('resource_id', sa.String(36), nullable=False),
        sa.Column('expires_at', TIMESTAMP, nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.PrimaryKeyConstraint('scope', name='pk_idempotency_keys'),
        **OPTIONS)
    op.create_index('ix_idempotency_keys_expires_at', 'idempotency_keys', ['expires_at'])
    op.create_index('ix_idempotency_keys_resource_id', 'idempotency_keys', ['resource_id'])
    op.create_table(
        'usages',
        sa.Column('project_id', sa.String(255), nullable=False),
        sa.Column('resource', sa.String(64), nullable=False),
        sa.Column('in_use', sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint('project_id', 'resource', name='pk_usages'),
        **OPTIONS)
