"""User messages about failures that came after the answer."""
import sqlalchemy as sa

from blockattach.db.models import base

messages = sa.Table(
    'messages', base.metadata,
    base.uuid_column('id', primary_key=True),
    sa.Column('project_id', sa.String(base.NAME_LENGTH), nullable=False),
    sa.Column('request_id', sa.String(base.NAME_LENGTH)),
    sa.Column('event_id', sa.String(64), nullable=False),
    sa.Column('user_message', base.LongText, nullable=False),
    sa.Column('message_level', sa.String(16), nullable=False),
    sa.Column('resource_type', sa.String(64), nullable=False),
    base.uuid_column('resource_id'),
    sa.Column('expires_at', base.Timestamp, nullable=False),
    *base.timestamps(),
    sa.Index(None, 'project_id', 'created_at', 'id'),
    sa.Index(None, 'expires_at'),
    **base.OPTIONS)
