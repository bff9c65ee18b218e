"""Asynchronous acts that are under way: one row each, and none once it has ended."""
import sqlalchemy as sa

from blockattach.db.models import base

# No foreign key: the rows of several nouns, some of which outlive what they are about.
work = sa.Table(
    'work', base.metadata,
    base.uuid_column('id', primary_key=True),
    sa.Column('noun', sa.String(32), nullable=False),
    # Of what may remain of a volume on a pool: the volume's id, "@" and the name of the pool.
    sa.Column('resource_id', sa.String(base.ID_LENGTH + 9 + base.NAME_LENGTH), nullable=False),
    sa.Column('verb', sa.String(32), nullable=False),
    # Of the resource, under which the act runs; a message of an older one changes nothing.
    sa.Column('generation', sa.Integer, nullable=False),
    # host@backend that does it; NULL: any scheduler.
    sa.Column('host', sa.String(base.NAME_LENGTH)),
    # The process instance that does it; NULL: none has taken it on.
    sa.Column('owner', sa.String(base.NAME_LENGTH)),
    sa.Column('deadline', base.Timestamp, nullable=False),
    # How often it was taken on.
    sa.Column('attempts', sa.Integer, nullable=False, default=0),
    # A JSON object: what the verb has to remember of earlier attempts.
    sa.Column('progress', base.LongText, nullable=False, default='{}'),
    # Of the last attempt that failed.
    sa.Column('error', base.LongText),
    sa.Column('request_id', sa.String(base.NAME_LENGTH)),
    sa.Column('project_id', sa.String(base.NAME_LENGTH)),
    sa.Column('created_at', base.Timestamp, nullable=False),
    # One act at a time on a resource.
    sa.UniqueConstraint('noun', 'resource_id'),
    sa.Index(None, 'deadline'),
    sa.Index(None, 'host', 'deadline'),
    **base.OPTIONS)
