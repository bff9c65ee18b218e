"""The row of a volume type as a lock, and what a type is made of.

Used inside the transactions that change a type, or make a volume of one; nowhere else.
"""
import types
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from blockattach import errors
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import prepared
from blockattach.db import rows
from blockattach.domain import records

_types = models.volume_types
_specs = models.volume_type_extra_specs
_encryptions = models.volume_type_encryptions
_ENCRYPTED = 'encryption_'
_ID = prepared.value('type_id', _types.c.id.type)
_NAME = prepared.value('name', _types.c.live_name.type)
_BY_ID = prepared.Statement(lambda dialect: _whole().where(_types.c.id == _ID))
_BY_NAME = prepared.Statement(lambda dialect: _whole().where(_types.c.live_name == _NAME))
_BY_EITHER = prepared.Statement(lambda dialect: _whole().where(
    sa.or_(_types.c.id == _ID, _types.c.live_name == _NAME)))
_LOCK = prepared.Statement(lambda dialect: _live().with_for_update())
_SHARE = prepared.Statement(lambda dialect: _live().with_for_update(read=True))


def lock(connection: sa.Connection, type_id: str) -> None:
    """Lock a live type's row until the transaction ends; the transaction's first statement.

    :raises VolumeTypeNotFound: there is none
    """
    _lock(connection, _LOCK, type_id)


def lock_unused(connection: sa.Connection, type_id: str, refusal: str | None = None) -> None:
    """Lock a type that no live volume has, until the transaction ends.

    :param refusal: the error for one that is used
    :raises VolumeTypeNotFound: there is none
    :raises VolumeTypeInUse: live volumes have the type
    """
    lock(connection, type_id)
    if is_used(connection, type_id):
        raise errors.VolumeTypeInUse(refusal)


def hold(connection: sa.Connection, kind: records.VolumeType) -> None:
    """Keep a type as it was read before, until the transaction ends; its first statement.

    Any number of transactions share a type; one that changes it waits for all of them.

    :raises VolumeTypeNotFound: it is gone
    :raises VolumeTypeChanged: what it says of its volumes is not what it was
    """
    _lock(connection, _SHARE, kind.id)
    [now] = read(connection, kind.id)
    if (now.extra_specs, now.encryption) != (kind.extra_specs, kind.encryption):
        raise errors.VolumeTypeChanged(volume_type_id=kind.id)


def is_used(connection: sa.Connection, type_id: str) -> bool:
    """Whether a live volume has the type."""
    volumes = models.volumes
    return connection.execute(
        sa.select(volumes.c.id).where(models.live(volumes), volumes.c.volume_type_id == type_id)
        .limit(1)).first() is not None


def read(connection: sa.Connection, type_id: str) -> list[records.VolumeType]:
    """The live type with an id, if there is one; in one query."""
    return _read(_BY_ID.rows(connection, type_id=type_id))


def read_by_name(connection: sa.Connection, name: str) -> list[records.VolumeType]:
    """The live type with a name, if there is one; in one query."""
    return _read(_BY_NAME.rows(connection, name=name))


def read_by_either(connection: sa.Connection, id_or_name: str) -> list[records.VolumeType]:
    """The live types with this id or this name, in one query."""
    return _read(_BY_EITHER.rows(connection, type_id=id_or_name, name=id_or_name))


def _whole() -> sa.Select[Any]:
    return sa.select(
        _types, _specs.c.key.label('spec_key'), _specs.c.value.label('spec_value'),
        *(column.label(f'{_ENCRYPTED}{column.name}') for column in _encryptions.c),
    ).outerjoin(_specs, _specs.c.volume_type_id == _types.c.id,
                ).outerjoin(_encryptions, _encryptions.c.live_volume_type_id == _types.c.id,
                            ).where(models.live(_types))


def _live() -> sa.Select[Any]:
    return sa.select(_types.c.id).where(_types.c.id == _ID, models.live(_types))


def _read(found: Sequence[Any]) -> list[records.VolumeType]:
    by_id: dict[str, Any] = {}
    specs: dict[str, dict[str, str]] = {}
    for row in found:
        by_id[row.id] = row
        of_type = specs.setdefault(row.id, {})
        if row.spec_key is not None:
            of_type[row.spec_key] = row.spec_value
    return [_record(row, specs[row.id], _encryption_of(row)) for row in by_id.values()]


def to_records(connection: sa.Connection,
               found: Sequence[sa.Row[Any]]) -> list[records.VolumeType]:
    """Rows of types with what belongs to them: two queries, however many there are."""
    specs: dict[str, dict[str, str]] = {row.id: {} for row in found}
    encryptions: dict[str, records.TypeEncryption] = {}
    if specs:
        for row in connection.execute(_specs.select().where(_specs.c.volume_type_id.in_(specs))):
            specs[row.volume_type_id][row.key] = row.value
        for row in connection.execute(
                _encryptions.select().where(_encryptions.c.live_volume_type_id.in_(specs))):
            encryptions[row.volume_type_id] = to_encryption(row)
    return [_record(row, specs[row.id], encryptions.get(row.id)) for row in found]


def remove_encryption(connection: sa.Connection, database: engine.Database,
                      type_id: str) -> None:
    """Let the encryption of a type that is locked become history, if it has one."""
    connection.execute(
        _encryptions.update().where(_encryptions.c.live_volume_type_id == type_id)
        .values(live_volume_type_id=None, deleted=True, deleted_at=database.clock.utcnow()))


def _record(row: Any, specs: dict[str, str],
            encryption: records.TypeEncryption | None) -> records.VolumeType:
    return rows.record(records.VolumeType, row, extra_specs=specs, encryption=encryption)


def _encryption_of(row: Any) -> records.TypeEncryption | None:
    columns = {column.name: getattr(row, f'{_ENCRYPTED}{column.name}')
               for column in _encryptions.c}
    return None if columns['id'] is None else to_encryption(types.SimpleNamespace(**columns))


def to_encryption(row: Any) -> records.TypeEncryption:
    """One row of ``volume_type_encryptions``."""
    return rows.record(records.TypeEncryption, row)


def _lock(connection: sa.Connection, how: prepared.Statement, type_id: str) -> None:
    if how.first(connection, type_id=type_id) is None:
        raise errors.VolumeTypeNotFound(volume_type_id=type_id)
