"""What clients say of where a volume goes.

Expands only: the release before this one runs on it unchanged.
"""
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None

LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade() -> None:
    """Add a column that the release before leaves empty."""
    op.add_column('volumes', sa.Column('scheduler_hints', LONG_TEXT))
