"""How often the attachments of a volume have moved.

Expands only: the release before this one runs on it unchanged.
"""
import sqlalchemy as sa
from alembic import op

revision = '0010'
down_revision = '0009'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column that the release before leaves at zero."""
    op.add_column('volumes', sa.Column('attachment_moves', sa.Integer, nullable=False,
                                       server_default='0'))
