"""How many attachments a project may have, by project.

Expands only: the release before this one runs on it unchanged.
"""
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None

NAME = sa.String(255)
OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}


def upgrade() -> None:
    """Add a table that the release before does not know."""
    op.create_table(
        'quotas',
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('resource', sa.String(64), nullable=False),
        sa.Column('hard_limit', sa.Integer),
        sa.PrimaryKeyConstraint('project_id', 'resource', name='pk_quotas'),
        **OPTIONS)
