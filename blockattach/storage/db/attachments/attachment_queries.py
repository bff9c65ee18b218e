"""Queries of attachments, for the API and for the volume services."""
import dataclasses
from collections.abc import Iterable
from collections.abc import Mapping

import sqlalchemy as sa

from blockattach.platform.db import clock
from blockattach.platform.db import paging
from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import leases
from blockattach.storage.db.attachments import pairs
from blockattach.storage.db.services import services
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
_LIVE_VOLUMES = models.live(_volumes)
# The databases limit the number of bound values in a statement.
_SLICE = 1000
_TRANSITIONAL = tuple(state.value for state in attachment_lifecycle.TRANSITIONAL)

SORT_COLUMNS: Mapping[str, sa.ColumnElement] = {
    'id': _rows.c.id, 'created_at': _rows.c.created_at, 'updated_at': _rows.c.updated_at,
    'volume_id': _rows.c.volume_id, 'instance_uuid': _rows.c.instance_uuid,
    'attached_host': _rows.c.host, 'mountpoint': _rows.c.mountpoint,
    'attach_time': _rows.c.attached_at, 'detach_time': _rows.c.detached_at,
    'attach_status': _rows.c.rank, 'attach_mode': _rows.c.mode,
}
"""Columns by which attachment lists can be sorted and filtered, by their names in the API."""

_OF_VOLUME = statements.Statement(lambda dialect: pairs.with_grant(sa.select(*pairs.STORED)).where(
    pairs.LIVE, _rows.c.volume_id == statements.value('volume_id'),
).order_by(_rows.c.created_at, _rows.c.id))

are_others_connected = pairs.are_others_connected


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """Filters of an attachment list. None matches any value.

    :ivar states: allowed states of the attachment lifecycle, not statuses of the API
    :ivar like: text that each column must contain, by the keys of `SORT_COLUMNS`
    """

    project_id: str | None = None
    volume_id: str | None = None
    instance_uuid: str | None = None
    host: str | None = None
    attachment_id: str | None = None
    states: tuple[attachment_lifecycle.State, ...] | None = None
    like: Mapping[str, str] = dataclasses.field(default_factory=dict)


def get(database: storage_db.Database, attachment_id: str) -> records.Attachment:
    """Return a live attachment with the facts of its volume and the credential of its connection.

    :raises AttachmentNotFound: no live attachment has this id
    """
    return pairs.read(database, attachment_id)


def get_even_deleted(database: storage_db.Database, attachment_id: str) -> records.Attachment:
    """Return a live or deleted attachment with the credential of its connection.

    :raises AttachmentNotFound: no row has this id
    """
    with database.reader() as connection:
        row = connection.execute(pairs.with_grant(sa.select(_rows)).where(
            _rows.c.id == attachment_id)).one_or_none()
    if row is None:
        raise errors.AttachmentNotFound(attachment_id=attachment_id)
    return rows.attachment(row, sealed=pairs.sealed(row))


def list_page(database: storage_db.Database, filters: Filters, page: paging.Page,
              sealed: bool = False) -> list[records.Attachment]:
    """Return a page of live attachments, without legacy reservations.

    The function executes one query, or two if the page has a marker.

    :param sealed: True to include the credentials of the connections
    :raises AttachmentNotFound: the marker is not the id of a live attachment of the project
    """
    with database.reader() as connection:
        query = pairs.with_grant(sa.select(_rows)) if sealed else _rows.select()
        found = paging.fetch(connection, _filtered(query, filters), SORT_COLUMNS, page,
                             _listed(filters),
                             lambda marker: errors.AttachmentNotFound(attachment_id=marker))
    return [rows.attachment(row, sealed=pairs.sealed(row) if sealed else None) for row in found]


def of_volume(database: storage_db.Database, volume_id: str,
              with_legacy: bool = False) -> list[records.Attachment]:
    """Return the live attachments of a volume with the credentials of their connections.

    The oldest attachment comes first.

    :param with_legacy: True to include legacy reservations
    """
    found = _OF_VOLUME.rows(database, volume_id=volume_id)
    return [rows.attachment(row, sealed=pairs.sealed(row)) for row in found
            if with_legacy or not row.legacy_reservation]


def counts(database: storage_db.Database, volume_ids: Iterable[str]) -> dict[str, int]:
    """Return the number of live attachments of each volume, by volume id.

    Legacy reservations are not counted. A volume without attachments is absent from the result.
    """
    ids = sorted(set(volume_ids))
    if not ids:
        return {}
    query = (sa.select(_rows.c.volume_id, sa.func.count().label('number'))
             .where(_rows.c.volume_id.in_(ids), pairs.LIVE,
                    _rows.c.legacy_reservation == sa.false())
             .group_by(_rows.c.volume_id))
    with database.reader() as connection:
        return {row.volume_id: row.number for row in connection.execute(query)}


def shared_connections(database: storage_db.Database,
                       attachment_ids: Iterable[str]) -> dict[str, records.Pair]:
    """Return the (volume, initiator) pair of each attachment, by attachment id.

    The pair contains the other live attachments that share the connection of the attachment, the
    oldest one first. The pair of an attachment without a connector contains no other attachments.
    """
    ids = sorted(set(attachment_ids))
    found: dict[str, records.Pair] = {}
    other = _rows.alias('other')
    query = (
        sa.select(_rows.c.id.label('of'), _grants.c.adopted, other.c.id, other.c.mode,
                  other.c.legacy_reservation)
        .select_from(_rows.outerjoin(_grants, sa.and_(
            _grants.c.volume_id == _rows.c.volume_id, _grants.c.initiator == _rows.c.initiator,
        )).outerjoin(other, sa.and_(
            other.c.volume_id == _rows.c.volume_id, other.c.deleted == sa.false(),
            other.c.initiator == _rows.c.initiator, other.c.id != _rows.c.id)))
        .order_by(other.c.created_at, other.c.id))
    with database.reader() as connection:
        for start in range(0, len(ids), _SLICE):
            for row in connection.execute(
                    query.where(_rows.c.id.in_(ids[start:start + _SLICE]))):
                pair = found.setdefault(row.of, records.Pair([], bool(row.adopted)))
                if row.id is not None:
                    pair.others.append(records.PairAttachment(
                        row.id, rows.MODES[row.mode], row.legacy_reservation))
    return found


def of_pair(database: storage_db.Database, volume_id: str, initiator: str,
            except_for: str | None = None) -> records.Pair:
    """Return a (volume, initiator) pair with its live attachments, the oldest one first.

    :param except_for: id of an attachment to leave out; None to include all attachments
    """
    query = sa.select(
        _rows.c.id, _rows.c.mode, _rows.c.legacy_reservation, _grants.c.adopted,
    ).outerjoin(_grants, sa.and_(
        _grants.c.volume_id == _rows.c.volume_id, _grants.c.initiator == _rows.c.initiator),
    ).where(
        _rows.c.volume_id == volume_id, pairs.LIVE, _rows.c.initiator == initiator,
    ).order_by(_rows.c.created_at, _rows.c.id)
    with database.reader() as connection:
        found = connection.execute(query).all()
    return records.Pair([
        records.PairAttachment(row.id, rows.MODES[row.mode], row.legacy_reservation)
        for row in found if row.id != except_for], any(row.adopted for row in found))


def interrupted(database: storage_db.Database, host: str, owner: str | None = None,
                shared: bool = False) -> list[records.Attachment]:
    """Return attachments of a backend that are connecting or disconnecting after their deadline.

    At the start of a process, attachments are also returned before their deadline. Attachments of
    deleted volumes are left out, see `of_deleted_volumes`.

    :param host: ``host@backend``
    :param owner: owner name of the process instance that is starting; None for a process that has
        started already
    :param shared: True if other processes serve the backend too. An attachment is then returned
        before its deadline only if an earlier instance of this process holds a lease on its pair
    """
    query = _on(host).where(_LIVE_VOLUMES, _rows.c.state.in_(_TRANSITIONAL))
    if owner is None:
        query = query.where(_rows.c.deadline < clock.now())
    elif shared:
        query = query.where(sa.or_(
            _rows.c.deadline < clock.now(),
            leases.of_earlier_instance(_rows.c.volume_id, _rows.c.initiator,
                                   _rows.c.previous_initiator, owner=owner)))
    with database.reader() as connection:
        return [rows.attachment(row) for row in connection.execute(query)]


def of_deleted_volumes(database: storage_db.Database, host: str, owner: str | None = None,
                       shared: bool = False) -> list[records.Attachment]:
    """Return live attachments whose deadline has passed and whose volume is deleted.

    At the start of a process, attachments without a deadline are returned as well.

    :param host: ``host@backend`` of the volumes
    :param owner: owner name of the process instance that is starting; None for a process that has
        started already
    :param shared: ignored; present because `interrupted` is called with the same arguments
    """
    due: sa.ColumnElement[bool] = _rows.c.deadline < clock.now()
    if owner is not None:
        # The condition is added only at the start, because no index finds attachments without a
        # deadline.
        due = sa.or_(due, _rows.c.deadline.is_(None))
    with database.reader() as connection:
        return [rows.attachment(row) for row in connection.execute(
            _on(host).where(_volumes.c.deleted == sa.true(), due))]


def volumes_in_use(database: storage_db.Database, host: str) -> list[str]:
    """Return the ids of live volumes that have a live attachment with a connector.

    :param host: ``host@backend`` of the volumes
    """
    query = sa.select(_volumes.c.id).where(
        _LIVE_VOLUMES, services.on_host(host),
        sa.exists().where(_rows.c.volume_id == _volumes.c.id, pairs.LIVE,
                          _rows.c.initiator.is_not(None)))
    with database.reader() as connection:
        return list(connection.execute(query).scalars())


def at_work(database: storage_db.Database, host: str) -> set[tuple[str, str]]:
    """Return the (volume, initiator) pairs of connecting and disconnecting attachments.

    Attachments whose deadline has passed are left out.

    :param host: ``host@backend`` of the volumes
    """
    query = _on(host, _rows.c.volume_id, _rows.c.initiator, _rows.c.previous_initiator).where(
        _rows.c.state.in_(_TRANSITIONAL), _rows.c.deadline >= clock.now())
    with database.reader() as connection:
        return {(row.volume_id, initiator) for row in connection.execute(query)
                for initiator in (row.initiator, row.previous_initiator) if initiator}


def _on(host: str, *columns: sa.ColumnElement) -> sa.Select:
    return sa.select(*(columns or [_rows])).join(
        _volumes, _volumes.c.id == _rows.c.volume_id).where(pairs.LIVE, services.on_host(host))


def _filtered(query: sa.Select, filters: Filters) -> sa.Select:
    query = query.where(_listed(filters))
    for column, value in ((_rows.c.volume_id, filters.volume_id),
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


def _listed(filters: Filters) -> sa.ColumnElement[bool]:
    # Cinder creates no attachment for os-reserve, and only sets the status of the volume.
    listed = sa.and_(pairs.LIVE, _rows.c.legacy_reservation == sa.false())
    if filters.project_id is None:
        return listed
    return sa.and_(listed, _rows.c.project_id == filters.project_id)
