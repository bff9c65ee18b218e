"""What happened to attachments, a row for each move."""
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None

ID = sa.String(36)
NAME = sa.String(255)
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        'attachment_events',
        sa.Column('id', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'), primary_key=True,
                  autoincrement=True),
        sa.Column('attachment_id', ID, nullable=False),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('volume_id', ID, nullable=False),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('instance_uuid', ID),
        sa.Column('host', NAME),
        sa.Column('event', sa.String(32), nullable=False),
        sa.Column('old_state', sa.String(32)),
        sa.Column('new_state', sa.String(32), nullable=False),
        sa.Column('user_id', NAME),
        sa.Column('request_id', NAME),
        sa.Column('reason', LONG_TEXT),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.Column('position', sa.BigInteger),
        sa.UniqueConstraint('position'),
        sa.UniqueConstraint('attachment_id', 'generation'),
        mysql_engine='InnoDB', mysql_charset='utf8mb4', mysql_collate='utf8mb4_bin')
