"""What is read of a volume and its attachments before an act, in one statement each: an attachment
with its volume, and the precondition of a new one. `attachments` beside it writes where that still
holds.
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
"""Attachments that are not deleted."""
PREFIX = 'of_volume_'
_NAMES = tuple(field.name for field in dataclasses.fields(records.VolumeFacts)
               if field.name in _volumes.c)

FACTS: tuple[sa.ColumnElement[Any], ...] = tuple(
    _volumes.c[name].label(f'{PREFIX}{name}') for name in _NAMES)
"""What `facts` reads of a volume."""
_FACTS_OF = operator.attrgetter(*(f'{PREFIX}{name}' for name in _NAMES))

# Where a join found none, every row is another one; no query reads all of them.
_THIS = sa.func.coalesce(_rows.c.id, '')
# Two looks into an index at most, not a minimum over all of them.
OTHERS: sa.ColumnElement[Any] = sa.select(_others.c.rank).where(
    _others.c.volume_id == _volumes.c.id, operators.is_not(_others.c.rank, sa.null()),
    _others.c.id != _THIS).order_by(_others.c.rank).limit(1).correlate(
        _volumes, _rows).scalar_subquery().label('others_lowest')
"""What `facts` reads of a volume's rows besides the one that it was joined with."""

STORED: tuple[sa.Column[Any], ...] = tuple(_rows.c[name] for name in rows.STORED)
"""What a record of an attachment is made of."""

# While another connector is being connected, the stored connection is that of the former one.
_FOR = sa.func.coalesce(_rows.c.previous_initiator, _rows.c.initiator)


def with_grant(query: sa.Select) -> sa.Select:
    """A query for attachments, extended by the credential of their connection."""
    return query.add_columns(_grants.c.username, _grants.c.sealed_password).outerjoin(
        _grants, sa.and_(_grants.c.volume_id == _rows.c.volume_id, _grants.c.initiator == _FOR))


_PAIR = statements.Statement(lambda dialect: with_grant(
    sa.select(*STORED, *FACTS, OTHERS).join(_volumes, _volumes.c.id == _rows.c.volume_id),
).where(LIVE, _rows.c.id == statements.value('attachment_id')))

_PRECONDITION = statements.Statement(lambda dialect: sa.select(
    *FACTS, _rows.c.instance_uuid.label('held_for'), _rows.c.mode.label('held_mode'),
    _rows.c.slot.label('held_slot'),
    # Only where a single one may.
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
    # Only rows of plain volumes have a slot, so there are two at most.
    _rows, sa.and_(_rows.c.volume_id == _volumes.c.id, _rows.c.slot.in_(multiattach.SLOTS)),
).outerjoin(_grants, sa.and_(_grants.c.volume_id == _volumes.c.id,
                             _grants.c.initiator == statements.value('initiator')),
).where(_volumes.c.id == statements.value('volume_id'), models.live(_volumes),
).order_by(_rows.c.created_at))

# Only rows of plain volumes have a slot.
_CONNECTED = statements.Statement(lambda dialect: sa.select(_rows.c.id).where(
    _rows.c.volume_id == statements.value('volume_id'), _rows.c.slot.in_(multiattach.SLOTS),
    _rows.c.id != statements.value('but_for'), _rows.c.connection.is_not(None)))


def sealed(row: sa.Row[Any]) -> records.SealedCredential | None:
    """What a row that was joined with a grant holds of it."""
    if row.sealed_password is None:
        return None
    return records.SealedCredential(row.username, row.sealed_password)


def read(on: sa.Connection | storage_db.Database, attachment_id: str) -> records.Attachment:
    """A live attachment with its volume's facts, and with the credential of its connection.

    :raises AttachmentNotFound: there is none
    """
    row = _PAIR.first(on, attachment_id=attachment_id)
    if row is None:
        raise errors.AttachmentNotFound(attachment_id=attachment_id)
    return rows.attachment(row, facts(row), sealed(row))


def are_others_connected(database: storage_db.Database, row: records.Attachment) -> bool:
    """Whether another attachment of its plain volume has a connection."""
    return _CONNECTED.first(database, volume_id=row.volume_id, but_for=row.id) is not None


def facts(row: Any) -> records.VolumeFacts:
    """A row with the columns `FACTS`, and with `OTHERS`, if it was read with a row of it."""
    return records.VolumeFacts(*(*_FACTS_OF(row), getattr(row, 'others_lowest', None)))


def locked(connection: sa.Connection, volume_id: str, attachment_id: str) -> records.Attachment:
    """`read`, once the volume is locked."""
    with contextlib.suppress(errors.VolumeNotFound):
        volume_rows.lock(connection, volume_id)
    return read(connection, attachment_id)


@dataclasses.dataclass(frozen=True, slots=True)
class Precondition:
    """What was read for a new attachment: what the rule (`multiattach.admit`) decides on, and what
    is written by. The write checks whether it still holds.

    :ivar initiator: the one whose grant was looked for; None: none was
    :ivar credential: of that grant; None: there is none
    :ivar granted: whether the volume has any grant
    :ivar own_limit: how many attachments its project may have; None: it was given no limit
    :ivar class_limit: how many the default class says; None: nothing
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
        """Whether the decision depends on other rows, not only on the volume's summary of them."""
        return (not self.volume.multiattach or self.volume.single_writer
                or self.credential is not None)


def precondition(database: storage_db.Database, volume_id: str, instance_uuid: str | None,
                 connector: Mapping[str, Any] | None) -> Precondition:
    """The precondition of an attachment of this instance and this connector's initiator.

    :raises VolumeNotFound: there is no such live volume
    """
    return _precondition(database, volume_id, instance_uuid, connector)


def locked_precondition(connection: sa.Connection, volume_id: str, instance_uuid: str | None,
                        connector: Mapping[str, Any] | None) -> Precondition:
    """`precondition`, once the volume and its project are locked."""
    volume = volume_rows.lock(connection, volume_id)
    quotas.lock(connection, volume.project_id)
    return _precondition(connection, volume_id, instance_uuid, connector)


def _precondition(on: sa.Connection | storage_db.Database, volume_id: str,
                  instance_uuid: str | None,
                  connector: Mapping[str, Any] | None) -> Precondition:
    initiator = (connector or {}).get('initiator')
    initiator = (connections.canonical_name(initiator) if isinstance(initiator, str)
                 else None)
    # Nobody is called by the empty name: every writer is another one, and no grant is found.
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
