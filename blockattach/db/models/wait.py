"""Since when an attachment waits for its consumer, in database time."""
import sqlalchemy as sa

from blockattach.db.models import base

# No foreign key: it would hold rows that are purged, and what is left of those is harmless.
waits = sa.Table(
    'waits', base.metadata,
    base.uuid_column('attachment_id', primary_key=True),
    # Of the attachment: one that has moved since waits anew, or no more.
    sa.Column('generation', sa.Integer, nullable=False),
    sa.Column('since', base.Timestamp, nullable=False, index=True),
    **base.OPTIONS)
