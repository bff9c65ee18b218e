"""Attachments are counted by state without looking at each.

Expands only: the release before this one runs on it unchanged.
"""
from alembic import op

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index that the metrics count by."""
    op.create_index('ix_attachments_deleted_state', 'attachments', ['deleted', 'state'])
