"""The precondition of a new attachment, in one statement: the volume, its holders, its grants."""
import dataclasses
import functools

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import pairs
from blockattach.db import prepared
from blockattach.db import quotas
from blockattach.db import rows
from blockattach.db import volume_rows
from blockattach.domain import connection as connections
from blockattach.domain import multiattach
from blockattach.domain import records

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
_types = models.volume_types


@dataclasses.dataclass(frozen=True, slots=True)
class Precondition:
    """What was read. The write checks whether it still holds.

    :ivar initiator: the one whose grant was looked for; None: none was
    :ivar credential: of that grant; None: there is none
    :ivar granted: whether the volume has any grant
    :ivar hard_limit: how many attachments its project may have; None: the default
    """

    volume: records.Volume
    facts: records.VolumeFacts
    instance_uuid: str | None
    holders: tuple[multiattach.Holder, ...]
    another_writes: bool
    initiator: str | None
    credential: records.SealedCredential | None
    granted: bool
    hard_limit: int | None

    @property
    def reads_others(self) -> bool:
        """Whether the decision depends on other rows, not only on the volume's summary of them."""
        return (not self.facts.multiattach or self.facts.single_writer
                or self.credential is not None)


def get(database: engine.Database, volume_id: str, instance_uuid: str | None,
        initiator: str | None) -> Precondition:
    """The precondition of an attachment of this instance and this initiator.

    :raises VolumeNotFound: there is no such live volume
    """
    with database.reader() as connection:
        return read(connection, volume_id, instance_uuid, initiator)


def read(connection: sa.Connection, volume_id: str, instance_uuid: str | None,
         initiator: str | None) -> Precondition:
    """`get` inside a transaction.

    :raises VolumeNotFound: there is no such live volume
    """
    found = _query(instance_uuid is not None, initiator is not None).rows(
        connection, volume_id=volume_id,
        **_values(instance_uuid=instance_uuid, initiator=initiator))
    if not found:
        raise errors.VolumeNotFound(volume_id=volume_id)
    first = found[0]
    return Precondition(
        rows.volume(first, {}, ()), pairs.facts(first, prefix=''), instance_uuid,
        tuple(multiattach.Holder(row.held_for, row.held_mode and connections.AccessMode(
            row.held_mode), row.held_slot) for row in found if row.held_slot is not None),
        bool(first.another_writes), initiator, rows.sealed(first), bool(first.granted),
        first.hard_limit)


def _values(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


@functools.cache
def _query(for_instance: bool, for_initiator: bool) -> prepared.Statement:
    return prepared.Statement(lambda dialect: _with_grant(sa.select(
        _volumes, _types.c.name.label('volume_type_name'),
        _rows.c.instance_uuid.label('held_for'), _rows.c.mode.label('held_mode'),
        _rows.c.slot.label('held_slot'), _another_writes(for_instance).label('another_writes'),
        quotas.hard_limit_of(_volumes.c.project_id).scalar_subquery().label('hard_limit'),
    ).join(_types, _types.c.id == _volumes.c.volume_type_id).outerjoin(
        # Only rows of plain volumes have a slot, so there are two at most.
        _rows, sa.and_(_rows.c.volume_id == _volumes.c.id, _rows.c.slot.in_(multiattach.SLOTS))),
                                                          for_initiator).where(
            _volumes.c.id == prepared.value('volume_id'), volume_rows.LIVE,
    ).order_by(_rows.c.created_at))


def _with_grant(query: sa.Select, for_initiator: bool) -> sa.Select:
    if not for_initiator:
        return query.add_columns(
            sa.null().label('username'), sa.null().label('sealed_password'),
            sa.false().label('granted'))
    any_grant = _grants.alias('any_grant')
    return query.add_columns(
        _grants.c.username, _grants.c.sealed_password,
        sa.exists().where(any_grant.c.volume_id == _volumes.c.id).label('granted'),
    ).outerjoin(_grants, sa.and_(_grants.c.volume_id == _volumes.c.id,
                                 _grants.c.initiator == prepared.value('initiator')))


def _another_writes(for_instance: bool) -> sa.ColumnElement[bool]:
    """Whether another instance writes; only where a single one may."""
    writers = _rows.alias('writers')
    query = sa.exists().where(
        writers.c.volume_id == _volumes.c.id, writers.c.rank.is_not(None),
        writers.c.mode == connections.AccessMode.RW.value)
    if for_instance:
        query = query.where(sa.or_(
            writers.c.instance_uuid.is_(None),
            writers.c.instance_uuid != prepared.value('instance_uuid')))
    return sa.case((_volumes.c.single_writer == sa.true(), query), else_=sa.false())
