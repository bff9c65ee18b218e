"""Looking at attachments: one, a page, or those on which work was left undone."""
import dataclasses
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import clock
from blockattach.db import engine
from blockattach.db import paging
from blockattach.db import rows
from blockattach.db import volume_rows
from blockattach.db.models import attachment
from blockattach.db.models import base
from blockattach.db.models import volume
from blockattach.domain import attachment_lifecycle
from blockattach.domain import records

_rows = attachment.attachments
_volumes = volume.volumes

SORT_COLUMNS: Mapping[str, sa.ColumnElement] = {
    'id': _rows.c.id, 'created_at': _rows.c.created_at, 'updated_at': _rows.c.updated_at,
    'volume_id': _rows.c.volume_id, 'instance_uuid': _rows.c.instance_uuid,
    'attached_host': _rows.c.host, 'mountpoint': _rows.c.mountpoint,
    'attach_time': _rows.c.attached_at, 'detach_time': _rows.c.detached_at,
    'attach_status': _rows.c.rank, 'attach_mode': _rows.c.mode,
}
"""Sort keys of an attachment list, by the peer's names of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """Which attachments; None means any. ``states`` are inner states."""

    project_id: str | None = None
    volume_id: str | None = None
    instance_uuid: str | None = None
    host: str | None = None
    attachment_id: str | None = None
    states: tuple[attachment_lifecycle.State, ...] | None = None
    hidden: bool = False
    """Also those that a legacy action holds for nobody yet: never for a client's eyes."""
    like: Mapping[str, str] = dataclasses.field(default_factory=dict)


def get(database: engine.Database, attachment_id: str) -> records.Attachment:
    """One live attachment.

    :raises AttachmentNotFound: there is none
    """
    with database.reader() as connection:
        row = connection.execute(_rows.select().where(
            _rows.c.id == attachment_id, base.live(_rows))).one_or_none()
    if row is None:
        raise errors.AttachmentNotFound(attachment_id=attachment_id)
    return rows.attachment(row)


def list_page(database: engine.Database, filters: Filters,
              page: paging.Page) -> list[records.Attachment]:
    """One page of live attachments in one query.

    :raises AttachmentNotFound: the marker is none
    """
    with database.reader() as connection:
        marker = None if page.marker is None else _marker(connection, page.marker, filters)
        found = connection.execute(paging.select_page(
            _filtered(_rows.select(), filters), SORT_COLUMNS, page, marker)).all()
    return [rows.attachment(row) for row in found]


def of_volume(database: engine.Database, volume_id: str,
              hidden: bool = False) -> list[records.Attachment]:
    """All live attachments of a volume, oldest first.

    :param hidden: also those that a legacy action holds for nobody yet
    """
    return list_page(database, Filters(volume_id=volume_id, hidden=hidden),
                     paging.Page(sort=(('created_at', paging.ASCENDING),)))


def interrupted(database: engine.Database, host: str,
                everything: bool = False) -> list[records.Attachment]:
    """Rows of one ``host@backend`` on which the service is at work and whose turn has passed.

    :param everything: at start, when nobody else serves this backend: whatever the deadline
    """
    query = (_rows.select().join(_volumes, _volumes.c.id == _rows.c.volume_id)
             .where(base.live(_rows), volume_rows.on_host(host),
                    _rows.c.state.in_([state.value
                                       for state in attachment_lifecycle.TRANSITIONAL])))
    if not everything:
        query = query.where(_rows.c.deadline < clock.now())
    with database.reader() as connection:
        return [rows.attachment(row) for row in connection.execute(query)]


def volumes_in_use(database: engine.Database, host: str) -> list[str]:
    """The volumes of one ``host@backend`` that have live attachments with a connector."""
    query = (sa.select(_rows.c.volume_id).distinct()
             .join(_volumes, _volumes.c.id == _rows.c.volume_id)
             .where(base.live(_rows), _rows.c.initiator.is_not(None),
                    volume_rows.on_host(host)))
    with database.reader() as connection:
        return list(connection.execute(query).scalars())


def _filtered(query: sa.Select, filters: Filters) -> sa.Select:
    query = query.where(base.live(_rows))
    if not filters.hidden:
        query = query.where(_rows.c.hidden == sa.false())
    for column, value in ((_rows.c.project_id, filters.project_id),
                          (_rows.c.volume_id, filters.volume_id),
                          (_rows.c.instance_uuid, filters.instance_uuid),
                          (_rows.c.host, filters.host),
                          (_rows.c.id, filters.attachment_id)):
        if value is not None:
            query = query.where(column == value)
    if filters.states is not None:
        query = query.where(_rows.c.state.in_([state.value for state in filters.states]))
    for key, text in filters.like.items():
        query = query.where(SORT_COLUMNS[key].contains(text, autoescape=True))
    return query


def _marker(connection: sa.Connection, marker: str, filters: Filters) -> sa.Row[Any]:
    query = sa.select(*(column.label(key) for key, column in SORT_COLUMNS.items())).where(
        _rows.c.id == marker, base.live(_rows), _rows.c.hidden == sa.false())
    if filters.project_id is not None:
        query = query.where(_rows.c.project_id == filters.project_id)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise errors.AttachmentNotFound(attachment_id=marker)
    return row
