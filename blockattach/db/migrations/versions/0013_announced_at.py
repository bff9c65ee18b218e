"""When detaches were announced.

Expands only: the release before this one runs on it unchanged.
"""
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    """Add a column that the release before does not know."""
    op.add_column('volumes', sa.Column('detach_announced_at', TIMESTAMP))
