"""Statements that read a volume and its attachments before a state change.

A state change of an attachment needs the attachment and the facts of its volume. A new attachment
needs a `Precondition`. In both cases, one statement reads the rows. The module `attachments`
writes the change only if the rows have not changed since they were read.
"""
import contextlib
import dataclasses
import operator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql import operators

from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import connection as connections
from blockattach.storage.domain import multiattach
from blockattach.storage.domain import records

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
_others = sa.alias(_rows, 'others')
_writers = sa.alias(_rows, 'writers')
_any_grant = sa.alias(_grants, 'any_grant')

LIVE = models.live(_rows)
"""Condition for attachments that are not deleted."""
PREFIX = 'of_volume_'
_NAMES = tuple(field.name for field in dataclasses.fields(records.VolumeFacts)
               if field.name in _volumes.c)

FACTS: tuple[sa.ColumnElement[Any], ...] = tuple(
    _volumes.c[name].label(f'{PREFIX}{name}') for name in _NAMES)
"""Columns of the volume from which `facts` creates a record."""
_FACTS_OF = operator.attrgetter(*(f'{PREFIX}{name}' for name in _NAMES))

# If an outer join has found no attachment, all attachments of the volume count as other
# attachments.
_THIS = sa.func.coalesce(_rows.c.id, '')
# With ORDER BY and LIMIT, the database reads at most two entries of an index. A minimum would read
# the entries of all attachments of the volume.
OTHERS: sa.ColumnElement[Any] = sa.select(_others.c.rank).where(
    _others.c.volume_id == _volumes.c.id, operators.is_not(_others.c.rank, sa.null()),
    _others.c.id != _THIS).order_by(_others.c.rank).limit(1).correlate(
        _volumes, _rows).scalar_subquery().label('others_lowest')
"""Column with the lowest rank of the other attachments of the volume, for `facts`."""

STORED: tuple[sa.Column[Any], ...] = tuple(_rows.c[name] for name in rows.STORED)
"""Columns of an attachment from which a `records.Attachment` is created."""

# While a new connector is being connected, the stored connection belongs to the previous
# connector.
_FOR = sa.func.coalesce(_rows.c.previous_initiator, _rows.c.initiator)


def with_grant(query: sa.Select) -> sa.Select:
    """Add the columns with the credentials of the connections to a query for attachments."""
    return query.add_columns(_grants.c.username, _grants.c.sealed_password).outerjoin(
        _grants, sa.and_(_grants.c.volume_id == _rows.c.volume_id, _grants.c.initiator == _FOR))


_PAIR = statements.Statement(lambda dialect: with_grant(
    sa.select(*STORED, *FACTS, OTHERS).join(_volumes, _volumes.c.id == _rows.c.volume_id),
).where(LIVE, _rows.c.id == statements.value('attachment_id')))

_PRECONDITION = statements.Statement(lambda dialect: sa.select(
    *FACTS, _rows.c.instance_uuid.label('held_for'), _rows.c.mode.label('held_mode'),
    _rows.c.slot.label('held_slot'),
    # Attachments in mode rw matter only if the volume type allows a single writer.
    sa.case((_volumes.c.single_writer == sa.true(), sa.exists().where(
        _writers.c.volume_id == _volumes.c.id, _writers.c.rank.is_not(None),
        _writers.c.mode == connections.AccessMode.RW.value,
        sa.or_(_writers.c.instance_uuid.is_(None),
               _writers.c.instance_uuid != statements.value('instance_uuid')))),
            else_=sa.false()).label('another_writes'),
    *quotas.attachment_limit_of(_volumes.c.project_id),
    _grants.c.username, _grants.c.sealed_password,
    sa.exists().where(_any_grant.c.volume_id == _volumes.c.id).label('granted'),
).select_from(_volumes).outerjoin(
    # Only attachments of volumes without multiattach have a slot, at most two for each volume.
    _rows, sa.and_(_rows.c.volume_id == _volumes.c.id, _rows.c.slot.in_(multiattach.SLOTS)),
).outerjoin(_grants, sa.and_(_grants.c.volume_id == _volumes.c.id,
                             _grants.c.initiator == statements.value('initiator')),
).where(_volumes.c.id == statements.value('volume_id'), models.live(_volumes),
).order_by(_rows.c.created_at))

# Only attachments of volumes without multiattach have a slot.
_CONNECTED = statements.Statement(lambda dialect: sa.select(_rows.c.id).where(
    _rows.c.volume_id == statements.value('volume_id'), _rows.c.slot.in_(multiattach.SLOTS),
    _rows.c.id != statements.value('but_for'), _rows.c.connection.is_not(None)))


def sealed(row: sa.Row[Any]) -> records.SealedCredential | None:
    """Return the credential in a row, or None if the pair of the attachment has no grant.

    :param row: row with the columns of a grant, see `with_grant`
    """
    if row.sealed_password is None:
        return None
    return records.SealedCredential(row.username, row.sealed_password)


def read(on: sa.Connection | storage_db.Database, attachment_id: str) -> records.Attachment:
    """Return a live attachment with the facts of its volume and the credential of its connection.

    :raises AttachmentNotFound: no live attachment has this id
    """
    row = _PAIR.first(on, attachment_id=attachment_id)
    if row is None:
        raise errors.AttachmentNotFound(attachment_id=attachment_id)
    return rows.attachment(row, facts(row), sealed(row))


def are_others_connected(database: storage_db.Database, row: records.Attachment) -> bool:
    """Return True if another attachment of the same volume has a connection.

    :param row: attachment of a volume without multiattach
    """
    return _CONNECTED.first(database, volume_id=row.volume_id, but_for=row.id) is not None


def facts(row: Any) -> records.VolumeFacts:
    """Return the facts of a volume that decide on changes of its attachments.

    :param row: row with the columns `FACTS`, and with `OTHERS` if the volume was read together
        with an attachment
    """
    return records.VolumeFacts(*(*_FACTS_OF(row), getattr(row, 'others_lowest', None)))


def locked(connection: sa.Connection, volume_id: str, attachment_id: str) -> records.Attachment:
    """Lock the volume of an attachment if the volume is live, then return the attachment."""
    # It must remain possible to end the attachments of a deleted volume.
    with contextlib.suppress(errors.VolumeNotFound):
        volume_rows.lock(connection, volume_id)
    return read(connection, attachment_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Precondition:
    """Facts about a volume that decide whether an attachment can be created.

    The attachment is written only if these facts still hold.

    :ivar holders: argument of `multiattach.admit`
    :ivar another_writes: argument of `multiattach.admit`
    :ivar instance_uuid: instance of the new attachment; None if there is none
    :ivar initiator: initiator whose grant was read; None if the connector has no initiator
    :ivar credential: credential of this grant; None if the initiator has no grant
    :ivar granted: True if the volume has a grant for any initiator
    :ivar own_limit: quota of attachments of the project; None if the default applies
    :ivar class_limit: quota of attachments of the default quota class; None if not set
    """

    volume: records.VolumeFacts
    holders: Sequence[multiattach.Holder]
    another_writes: bool
    instance_uuid: str | None
    initiator: str | None
    credential: records.SealedCredential | None
    granted: bool
    own_limit: int | None
    class_limit: int | None

    @property
    def reads_others(self) -> bool:
        """True if the decision depends on the rows of other attachments of the volume.

        If False, the decision depends only on the row of the volume, with the lowest rank of its
        attachments.
        """
        return (not self.volume.multiattach or self.volume.single_writer
                or self.credential is not None)


def precondition(database: storage_db.Database, volume_id: str, instance_uuid: str | None,
                 connector: Mapping[str, Any] | None) -> Precondition:
    """Return the precondition of a new attachment.

    :param instance_uuid: instance of the new attachment; None if there is none
    :param connector: connector of the new attachment; None if there is none
    :raises VolumeNotFound: there is no such live volume
    """
    return _precondition(database, volume_id, instance_uuid, connector)


def locked_precondition(connection: sa.Connection, volume_id: str, instance_uuid: str | None,
                        connector: Mapping[str, Any] | None) -> Precondition:
    """Lock a volume and its project, then return the precondition like `precondition`."""
    volume = volume_rows.lock(connection, volume_id)
    # The project is locked before the first plain read. After such a read, MariaDB shows no more
    # commits of other transactions, and `quotas.check_attachment` would not count them.
    quotas.lock(connection, volume.project_id)
    return _precondition(connection, volume_id, instance_uuid, connector)


def _precondition(on: sa.Connection | storage_db.Database, volume_id: str,
                  instance_uuid: str | None,
                  connector: Mapping[str, Any] | None) -> Precondition:
    initiator = (connector or {}).get('initiator')
    initiator = (connections.canonical_name(initiator) if isinstance(initiator, str)
                 else None)
    # An empty text matches no row. So every writer counts as another instance, and no grant is
    # found.
    found = _PRECONDITION.rows(on, volume_id=volume_id,
                               instance_uuid=instance_uuid or '', initiator=initiator or '')
    if not found:
        raise errors.VolumeNotFound(volume_id=volume_id)
    first = found[0]
    holders = tuple(multiattach.Holder(row.held_for, rows.MODES[row.held_mode], row.held_slot)
                    for row in found if row.held_slot is not None)
    return Precondition(
        facts(first), holders, bool(first.another_writes), instance_uuid, initiator,
        sealed(first), bool(first.granted), first.own_limit, first.class_limit)
