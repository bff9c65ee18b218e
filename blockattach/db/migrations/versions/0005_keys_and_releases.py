"""Which key sealed a credential, and of which release a service is.

Expands only: the release before this one runs on it unchanged.
"""
import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add columns that the release before leaves empty."""
    op.add_column('grants', sa.Column('key_id', sa.String(16)))
    op.create_index('ix_grants_key_id', 'grants', ['key_id'])
    op.add_column('services', sa.Column('release', sa.String(16)))
