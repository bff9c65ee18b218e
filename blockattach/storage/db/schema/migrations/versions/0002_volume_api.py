"""What snapshots, images, quotas and types need, and volumes that are made of others or move."""
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = '0002'
down_revision = '0001'
branch_labels = None
depends_on = None

UUID = sa.String(36)
NAME = sa.String(255)
POOL_NAME = sa.String(255).with_variant(sa.String(255, collation='C'), 'postgresql')
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), 'mysql', 'mariadb')
TIMESTAMP = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), 'mysql', 'mariadb')
OPTIONS: dict[str, Any] = {
    'mysql_engine': 'InnoDB', 'mysql_charset': 'utf8mb4', 'mysql_collate': 'utf8mb4_bin'}

# What others refer to comes first. The names of constraints and indexes follow from the convention
# of `blockattach.storage.db.models.metadata`.
TABLES: dict[str, tuple[sa.schema.SchemaItem, ...]] = {
    'volume_image_metadata': (
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('key', NAME, primary_key=True),
        sa.Column('value', LONG_TEXT, nullable=False)),
    'snapshots': (
        sa.Column('id', UUID, primary_key=True),
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id'), nullable=False),
        sa.Column('project_id', NAME, nullable=False),
        sa.Column('user_id', NAME, nullable=False),
        sa.Column('name', NAME),
        sa.Column('description', NAME),
        sa.Column('size_gb', sa.Integer, nullable=False),
        sa.Column('status', sa.String(32), nullable=False),
        sa.Column('progress', sa.Integer, nullable=False),
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id'), nullable=False),
        sa.Column('availability_zone', NAME, nullable=False),
        sa.Column('pool', POOL_NAME),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('status_reset', sa.Boolean, nullable=False),
        sa.Column('created_at', TIMESTAMP, nullable=False),
        sa.Column('updated_at', TIMESTAMP),
        sa.Column('deleted', sa.Boolean, nullable=False),
        sa.Column('deleted_at', TIMESTAMP)),
    'snapshot_metadata': (
        sa.Column('snapshot_id', UUID, sa.ForeignKey('snapshots.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('key', NAME, primary_key=True),
        sa.Column('value', NAME, nullable=False)),
    'volume_type_projects': (
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id', ondelete='CASCADE'),
                  primary_key=True),
        sa.Column('project_id', NAME, primary_key=True),
        sa.Column('created_at', TIMESTAMP, nullable=False)),
    'default_volume_types': (
        sa.Column('project_id', NAME, primary_key=True),
        sa.Column('volume_type_id', UUID, sa.ForeignKey('volume_types.id'), nullable=False)),
    'quota_classes': (
        sa.Column('class_name', NAME, primary_key=True),
        sa.Column('resource', sa.String(64), primary_key=True),
        sa.Column('hard_limit', sa.Integer, nullable=False)),
    'cached_images': (
        sa.Column('host', NAME, primary_key=True),
        sa.Column('image_id', UUID, primary_key=True),
        sa.Column('volume_id', UUID, sa.ForeignKey('volumes.id'), nullable=False),
        sa.Column('image_updated_at', TIMESTAMP),
        sa.Column('used_at', TIMESTAMP, nullable=False)),
}

INDEXES: dict[str, tuple[tuple[str, ...], ...]] = {
    'volumes': (('claimed_pool',), ('snapshot_id', 'own_status'), ('source_volid', 'own_status'),
                ('deleted', 'project_id', 'volume_type_id', 'size_gb')),
    'snapshots': (('deleted', 'created_at', 'id'), ('deleted', 'project_id', 'created_at', 'id'),
                  ('deleted', 'project_id', 'volume_type_id', 'size_gb'),
                  ('volume_id', 'deleted'), ('volume_type_id',)),
    'volume_type_projects': (('project_id',),),
    'default_volume_types': (('volume_type_id',),),
    'cached_images': (('volume_id',),),
}


def upgrade() -> None:
    """Add the columns and make the tables."""
    op.add_column('volumes', sa.Column('snapshot_id', UUID))
    op.add_column('volumes', sa.Column('source_volid', UUID))
    op.add_column('volumes', sa.Column('migration_status', sa.String(32)))
    op.add_column('volumes', sa.Column('claimed_pool', POOL_NAME))
    op.add_column('volumes', sa.Column('claimed_gb', sa.Integer))
    op.add_column('messages', sa.Column('detail', LONG_TEXT))
    for name, parts in TABLES.items():
        op.create_table(name, *parts, **OPTIONS)
    for name, indexes in INDEXES.items():
        for columns in indexes:
            op.create_index(None, name, list(columns))
