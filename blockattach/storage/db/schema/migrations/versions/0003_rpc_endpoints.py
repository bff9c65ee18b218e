"""Where the servers of processes listen that are sent to without a broker."""
import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None

NAME = sa.String(255)
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        'rpc_endpoints',
        sa.Column('instance', sa.String(32), primary_key=True),
        sa.Column('topic', NAME, nullable=False),
        sa.Column('server', NAME, nullable=False),
        sa.Column('host', NAME, nullable=False),
        sa.Column('port', sa.Integer, nullable=False),
        sa.Column('fingerprint', sa.String(64)),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.Column('reported_at', TIMESTAMP, nullable=False),
        mysql_engine='InnoDB', mysql_charset='utf8mb4', mysql_collate='utf8mb4_bin')
    op.create_index(None, 'rpc_endpoints', ['topic'])
