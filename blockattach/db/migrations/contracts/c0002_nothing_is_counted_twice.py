"""What a project has is counted where it is judged; no count is kept beside the rows.

Needs no process of release 0.3.
"""
from alembic import op

revision = 'c0002'
down_revision = 'c0001'
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the counts."""
    op.drop_table('usages')
