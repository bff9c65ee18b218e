"""Which grants were taken over from another service."""
import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column('grants', sa.Column('adopted', sa.Boolean, nullable=False, server_default='0'))
