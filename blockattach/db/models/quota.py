"""What projects use of what is limited."""
import sqlalchemy as sa

from blockattach.db.models import base

usages = sa.Table(
    'usages', base.metadata,
    sa.Column('project_id', sa.String(base.NAME_LENGTH), primary_key=True),
    sa.Column('resource', sa.String(64), primary_key=True),
    sa.Column('in_use', sa.Integer, nullable=False),
    **base.OPTIONS)
