"""Every credential says which key sealed it.

Needs `grants_key_id` of `blockattach.db.online_migrations`, and no process of release 0.2.
"""
import sqlalchemy as sa
from alembic import op

revision = 'c0001'
down_revision = None
branch_labels = ('contract',)
depends_on = None


def upgrade() -> None:
    """Refuse a credential of an unknown key."""
    with op.batch_alter_table('grants') as grants:
        grants.alter_column('key_id', existing_type=sa.String(16), nullable=False)
