"""Schema revision that creates the compute tables of the first release."""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '1000'
down_revision = None
branch_labels = ('expand',)
depends_on = None

UUID = sa.String(36)
NAME = sa.String(255)
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}

TABLES: dict[str, tuple[sa.schema.SchemaItem, ...]] = {
    'servers': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('user_id', NAME, nullable=False),
        sa.Column('name', NAME, nullable=False),
        sa.Column('description', NAME),
        sa.Column('flavor', sa.JSON, nullable=False),
        sa.Column('image_ref', NAME, nullable=False),
        sa.Column('host', NAME),
        sa.Column('old_host', NAME),
        sa.Column('old_flavor', sa.JSON),
        sa.Column('old_state', sa.String(32)),
        sa.Column('vm_state', sa.String(32), nullable=False),
        sa.Column('task_state', sa.String(32)),
        sa.Column('reservation_id', UUID),
        sa.Column('metadata', sa.JSON, nullable=False),
        sa.Column('fault', sa.Text),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.Column('updated_at', TIMESTAMP, nullable=False),
        sa.Column('launched_at', TIMESTAMP),
        sa.Column('generation', sa.BigInteger, nullable=False, server_default='1')),
    'block_devices': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('server_id', UUID, nullable=False),
        sa.Column('volume_id', UUID, nullable=False),
        sa.Column('device', NAME, nullable=False),
        sa.Column('mode', sa.String(2), nullable=False),
        sa.Column('state', sa.String(32), nullable=False),
        sa.Column('boot_index', sa.Integer),
        sa.Column('delete_on_termination', sa.Boolean, nullable=False),
        sa.Column('shared', sa.Boolean, nullable=False),
        sa.Column('tag', sa.String(60)),
        sa.Column('attachment_id', UUID),
        sa.Column('next_attachment_id', UUID),
        sa.UniqueConstraint('server_id', 'volume_id', name='uq_block_devices_volume'),
        sa.UniqueConstraint('server_id', 'device', name='uq_block_devices_device')),
    'acts': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('server_id', UUID, nullable=False),
        sa.Column('verb', sa.String(32), nullable=False),
        sa.Column('arguments', sa.Text, nullable=False),
        sa.Column('caller', sa.Text, nullable=False),
        sa.Column('finishing', sa.Boolean, nullable=False),
        sa.Column('notes', sa.Text, nullable=False),
        sa.Column('owner', NAME),
        sa.Column('deadline', TIMESTAMP, nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False)),
    'instance_actions': (
        sa.Column('number', sa.BigInteger().with_variant(sa.Integer(), 'sqlite'),
                  primary_key=True, autoincrement=True),
        sa.Column('act_id', UUID, nullable=False, unique=True),
        sa.Column('server_id', UUID, nullable=False),
        sa.Column('action', sa.String(32), nullable=False),
        sa.Column('request_id', NAME, nullable=False),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('user_id', NAME, nullable=False),
        sa.Column('host', NAME),
        sa.Column('started_at', TIMESTAMP, nullable=False),
        sa.Column('updated_at', TIMESTAMP, nullable=False),
        sa.Column('finished_at', TIMESTAMP),
        sa.Column('fault', sa.Text)),
    'agents': (
        sa.Column('host', NAME, primary_key=True),
        sa.Column('kind', sa.String(32), nullable=False),
        sa.Column('version', sa.String(16), nullable=False),
        sa.Column('reported_at', TIMESTAMP, nullable=False))}

# name: table, columns
INDEXES: dict[str, tuple[str, ...]] = {
    'ix_servers_host': ('servers', 'host'),
    'ix_servers_reservation_id': ('servers', 'reservation_id'),
    'ix_servers_project': ('servers', 'project_id', 'created_at', 'id'),
    'ix_block_devices_volume_id': ('block_devices', 'volume_id'),
    'ix_instance_actions_server': ('instance_actions', 'server_id', 'number'),
    'ix_acts_server_id': ('acts', 'server_id'),
    'ix_acts_deadline': ('acts', 'deadline')}


def upgrade() -> None:
    """Create the tables and indexes of the compute service."""
    for name, items in TABLES.items():
        op.create_table(name, *items, **OPTIONS)
    for name, (table, *columns) in INDEXES.items():
        op.create_index(name, table, columns)
