"""Add the number of the newest lease to servers, which agents compare."""
import sqlalchemy as sa
from alembic import op

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column ``generation``."""
    op.add_column('servers', sa.Column('generation', sa.BigInteger, nullable=False,
                                       server_default='1'))
