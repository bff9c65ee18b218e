"""Whether a backend is frozen.

Expands only: the release before this one runs on it unchanged.
"""
import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column that the release before leaves empty."""
    op.add_column('services', sa.Column('frozen', sa.Boolean))
