"""What projects may have, where that is not the default."""
import sqlalchemy as sa

from blockattach.db.models import base

quotas = sa.Table(
    'quotas', base.metadata,
    sa.Column('project_id', sa.String(base.NAME_LENGTH), primary_key=True),
    sa.Column('resource', sa.String(64), primary_key=True),
    # NULL: the default. Such a row is there to be locked.
    sa.Column('hard_limit', sa.Integer),
    **base.OPTIONS)
