"""Requests that a client named, and what they made."""
import sqlalchemy as sa

from blockattach.db.models import base

idempotency_keys = sa.Table(
    'idempotency_keys', base.metadata,
    # A digest of project, user, method, path and the client's key: of any length and content.
    sa.Column('scope', sa.String(64), primary_key=True),
    sa.Column('body_digest', sa.String(64), nullable=False),
    base.uuid_column('resource_id', nullable=False),
    sa.Column('expires_at', base.Timestamp, nullable=False),
    sa.Column('created_at', base.Timestamp, nullable=False),
    sa.Index(None, 'expires_at'),
    sa.Index(None, 'resource_id'),
    **base.OPTIONS)
