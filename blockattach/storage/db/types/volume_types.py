"""Volume types with their extra specs and their encryption.

The extra specs and the encryption of a type cannot change while live volumes have the type. The
transaction of a change locks the row of the type before it looks for such volumes. The creation of
a volume takes a shared lock on that row, so no volume can get the type after the check. A type has
at most one live encryption.
"""
import dataclasses
import logging
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception
from oslo_utils import uuidutils

from blockattach.platform import log
from blockattach.platform.db import paging
from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_type

LOG = logging.getLogger(__name__)

_types = models.volume_types
_specs = models.volume_type_extra_specs
_encryptions = models.volume_type_encryptions
_projects = models.volume_type_projects
_defaults = models.default_volume_types
_ENCRYPTION = {f'encryption_{field.name}': field.name
               for field in dataclasses.fields(records.TypeEncryption)}
_ID = statements.value('type_id', _types.c.id.type)
_NAME = statements.value('name', _types.c.live_name.type)
_BY_ID = statements.Statement(lambda dialect: _whole().where(_types.c.id == _ID))
_BY_NAME = statements.Statement(lambda dialect: _whole().where(_types.c.live_name == _NAME))
_BY_EITHER = statements.Statement(lambda dialect: _whole().where(
    sa.or_(_types.c.id == _ID, _types.c.live_name == _NAME)))
_PROJECT = statements.value('project_id', _defaults.c.project_id.type)
_DEFAULT = statements.Statement(lambda dialect: _whole().where(sa.or_(
    _types.c.live_name == _NAME,
    _types.c.id == sa.select(_defaults.c.volume_type_id).where(
        _defaults.c.project_id == _PROJECT).scalar_subquery())))
_LOCK = statements.Statement(lambda dialect: _live().with_for_update())
_SHARE = statements.Statement(lambda dialect: _live().with_for_update(read=True))

SORT_COLUMNS: Mapping[str, sa.ColumnElement] = {name: _types.c[name] for name in (
    'id', 'name', 'description', 'is_public', 'created_at', 'updated_at')}
"""Columns by which a list of volume types can be sorted, by their names in the API."""


def columns_of(kind: records.VolumeType) -> dict[str, Any]:
    """Return the values of the volume columns that are derived from the volume type."""
    return {'volume_type_id': kind.id,
            'multiattach': volume_type.is_multiattach(kind.extra_specs),
            'single_writer': volume_type.is_single_writer(kind.extra_specs),
            'encrypted': kind.encryption is not None}


@storage_db.retried
def create(database: storage_db.Database, name: str, description: str | None, is_public: bool,
           extra_specs: Mapping[str, str]) -> records.VolumeType:
    """Create a volume type.

    :raises VolumeTypeExists: another live type has this name
    :raises InvalidInput: the extra specs contradict each other
    """
    volume_type.check_specs(extra_specs)
    type_id = database.new_id()
    try:
        with database.writer(storage_db.inserted(_types.c.id, type_id)) as connection:
            connection.execute(_types.insert().values(
                id=type_id, name=name, live_name=name, description=description,
                is_public=is_public, created_at=database.clock.utcnow()))
            _store_specs(connection, type_id, extra_specs)
            made = read(connection, type_id)
    except db_exception.DBDuplicateEntry as error:
        # The unique ``live_name`` decides, because a check before the insertion could be outdated.
        raise errors.VolumeTypeExists(name=name) from error
    log.step(LOG, 'Volume type created', volume_type_id=type_id, name=name)
    return made


def get(database: storage_db.Database, type_id: str) -> records.VolumeType:
    """Return a live volume type by its id.

    :raises VolumeTypeNotFound: no live volume type has this id
    """
    with database.reader() as connection:
        return read(connection, type_id)


def get_by_name(database: storage_db.Database, name: str) -> records.VolumeType:
    """Return a live volume type by its name.

    :raises VolumeTypeNameNotFound: there is no live type with this name
    """
    found = _records(_BY_NAME.rows(database, name=name))
    if not found:
        raise errors.VolumeTypeNameNotFound(name=name)
    return found[0]


def find(database: storage_db.Database, id_or_name: str) -> records.VolumeType:
    """Return a live volume type by its id or its name.

    :raises VolumeTypeNotFound: no type is found, and ``id_or_name`` has the form of a UUID
    :raises VolumeTypeNameNotFound: no type is found, and ``id_or_name`` is not a UUID
    """
    found = _records(_BY_EITHER.rows(database, type_id=id_or_name, name=id_or_name))
    if found:
        # The name of a type can equal the id of another type. As in Cinder, the id takes
        # precedence.
        return next((kind for kind in found if kind.id == id_or_name), found[0])
    if uuidutils.is_uuid_like(id_or_name):
        raise errors.VolumeTypeNotFound(volume_type_id=id_or_name)
    raise errors.VolumeTypeNameNotFound(name=id_or_name)


def default(database: storage_db.Database, project_id: str | None,
            name: str) -> records.VolumeType:
    """Return the default type of a project, for volumes that are created without a type.

    :param name: name of the configured default type, for projects without a default type of their
        own
    :raises VolumeTypeNameNotFound: the project has no default type of its own, and no live type
        has this name
    """
    found = _records(_DEFAULT.rows(database, name=name, project_id=project_id))
    if not found:
        raise errors.VolumeTypeNameNotFound(name=name)
    # The type of the project takes precedence. Only one row is found if both are the same type.
    return next((kind for kind in found if kind.name != name), found[0])


def list_page(database: storage_db.Database, is_public: bool | None,
              extra_specs: Mapping[str, str], equal: Mapping[str, str], page: paging.Page,
              project_id: str | None = None,
              like: Mapping[str, str] | None = None) -> list[records.VolumeType]:
    """Return a page of live volume types by at most two queries, or three if there is a marker.

    :param is_public: True for public types and the private types that the project may use, False
        for all private types, None for all types
    :param extra_specs: extra specs that a listed type must have. A value of a key in
        `volume_type.LISTS` must be contained in the value of the type, other values must be equal
    :param equal: required values of columns, by the keys of `SORT_COLUMNS`
    :param like: texts that columns must contain, by the keys of `SORT_COLUMNS`
    :raises VolumeTypeNotFound: the marker is not the id of a type that ``is_public`` selects
    """
    shown = sa.and_(models.live(_types), _shown(is_public, project_id))
    query = _types.select().where(
        shown, *(SORT_COLUMNS[key] == value for key, value in equal.items()),
        *(SORT_COLUMNS[key].contains(text, autoescape=True)
          for key, text in (like or {}).items()))
    for key, value in extra_specs.items():
        has = _specs.c.value.contains(value, autoescape=True) if key in volume_type.LISTS \
            else _specs.c.value == value
        query = query.where(sa.exists().where(
            _specs.c.volume_type_id == _types.c.id, _specs.c.key == key, has))
    with database.reader() as connection:
        found = paging.fetch(connection, query, SORT_COLUMNS, page, shown,
                             lambda marker: errors.VolumeTypeNotFound(volume_type_id=marker))
        by_id = {kind.id: kind for kind in _records(connection.execute(
            _whole().where(_types.c.id.in_([row.id for row in found]))))} if found else {}
    return [by_id[row.id] for row in found if row.id in by_id]


def has_access(database: storage_db.Database, type_id: str, project_id: str | None) -> bool:
    """Return True if a project may use a volume type while it is private."""
    with database.reader() as connection:
        return connection.execute(sa.select(_projects.c.project_id).where(
            _projects.c.volume_type_id == type_id,
            _projects.c.project_id == project_id)).first() is not None


@storage_db.retried
def update(database: storage_db.Database, type_id: str, name: str | None = None,
           description: str | None = None, is_public: bool | None = None) -> records.VolumeType:
    """Update the name, the description and the visibility of a volume type.

    An argument that is None leaves the value unchanged.

    :raises VolumeTypeNotFound: no live volume type has this id
    :raises VolumeTypeExists: another live type has this name
    """
    changed: dict[str, Any] = {
        key: value for key, value in (('name', name), ('live_name', name),
                                      ('description', description), ('is_public', is_public))
        if value is not None}
    try:
        with database.writer() as connection:
            lock(connection, type_id)
            _touch(connection, database, type_id, **changed)
            made = read(connection, type_id)
    except db_exception.DBDuplicateEntry as error:
        raise errors.VolumeTypeExists(name=name) from error
    log.step(LOG, 'Volume type updated', volume_type_id=type_id)
    return made


@storage_db.retried
def delete(database: storage_db.Database, type_id: str, default_name: str | None = None) -> None:
    """Mark a volume type as deleted. The row is kept for deleted volumes that had the type.

    :param default_name: name of the configured default type, which cannot be deleted; None if no
        default type is configured
    :raises VolumeTypeNotFound: no live volume type has this id
    :raises InvalidInput: the type is the configured default type, the default type of a project,
        the only live type, or the type of live volumes
    """
    with database.writer() as connection:
        # All types are locked, so that one of two concurrent requests to delete the last two types
        # is refused.
        live = {row.id: row.name for row in connection.execute(
            sa.select(_types.c.id, _types.c.name).where(models.live(_types))
            .order_by(_types.c.id).with_for_update())}
        if type_id not in live:
            raise errors.VolumeTypeNotFound(volume_type_id=type_id)
        if len(live) == 1:
            raise errors.InvalidInput(
                reason=f'The volume type {type_id} is the only currently defined volume type '
                       f'and cannot be deleted.')
        if live[type_id] == default_name or _is_default(connection, type_id):
            raise errors.InvalidInput(
                reason=f'The volume type {type_id} is a default volume type and cannot be '
                       f'deleted.')
        if _is_used(connection, type_id):
            raise errors.InvalidInput(reason='Target volume type is still in use.')
        _store_encryption(connection, type_id, **_ended(database))
        connection.execute(_projects.delete().where(_projects.c.volume_type_id == type_id))
        quotas.forget_type(connection, type_id)
        _touch(connection, database, type_id, live_name=None, qos_specs_id=None, deleted=True,
               deleted_at=database.clock.utcnow())
    log.step(LOG, 'Volume type deleted', volume_type_id=type_id)


@storage_db.retried
def set_extra_specs(database: storage_db.Database, type_id: str, specs: Mapping[str, str]) -> None:
    """Set the given extra specs of a volume type. Other extra specs keep their values.

    :raises VolumeTypeNotFound: no live volume type has this id
    :raises VolumeTypeInUse: live volumes have the type
    :raises InvalidInput: the resulting extra specs contradict each other
    """
    with database.writer() as connection:
        _lock_unused(connection, type_id)
        connection.execute(_specs.delete().where(_specs.c.volume_type_id == type_id,
                                                 _specs.c.key.in_(specs)))
        _store_specs(connection, type_id, specs)
        _touch(connection, database, type_id)
        # The new specs can contradict specs that were set before. An error rolls back the
        # transaction.
        volume_type.check_specs(read(connection, type_id).extra_specs)
    log.step(LOG, 'Volume type extra specs updated', volume_type_id=type_id,
             keys=','.join(sorted(specs)))


@storage_db.retried
def delete_extra_spec(database: storage_db.Database, type_id: str, key: str) -> None:
    """Delete an extra spec of a volume type.

    :raises VolumeTypeNotFound: no live volume type has this id
    :raises VolumeTypeInUse: live volumes have the type
    :raises ExtraSpecNotFound: the type has no extra spec with this key
    """
    with database.writer() as connection:
        _lock_unused(connection, type_id)
        done = connection.execute(_specs.delete().where(_specs.c.volume_type_id == type_id,
                                                        _specs.c.key == key))
        if done.rowcount != 1:
            raise errors.ExtraSpecNotFound(volume_type_id=type_id, key=key)
        _touch(connection, database, type_id)
    log.step(LOG, 'Volume type extra spec deleted', volume_type_id=type_id, key=key)


@storage_db.retried
def create_encryption(database: storage_db.Database, type_id: str, provider: str,
                      control_location: str, cipher: str | None = None,
                      key_size: int | None = None) -> records.TypeEncryption:
    """Create the encryption of a volume type that no live volume has.

    :param key_size: size of the key in bits; None if it is not specified
    :raises VolumeTypeNotFound: no live volume type has this id
    :raises VolumeTypeInUse: live volumes have the type
    :raises VolumeTypeEncryptionExists: the type has an encryption already
    """
    encryption_id = database.new_id()
    with database.writer(storage_db.inserted(_encryptions.c.id, encryption_id)) as connection:
        if _lock_encryption(connection, type_id, 'create') is not None:
            raise errors.VolumeTypeEncryptionExists(volume_type_id=type_id)
        connection.execute(_encryptions.insert().values(
            id=encryption_id, volume_type_id=type_id, live_volume_type_id=type_id,
            provider=provider, control_location=control_location, cipher=cipher,
            key_size=key_size, created_at=database.clock.utcnow()))
        made = read(connection, type_id).encryption
        assert made is not None
    log.step(LOG, 'Volume type encryption created', volume_type_id=type_id)
    return made


@storage_db.retried
def update_encryption(database: storage_db.Database, type_id: str, encryption_id: str | None,
                      changes: Mapping[str, str | int | None]) -> None:
    """Update the given encryption fields of a volume type.

    :param encryption_id: id of the encryption; None for the encryption that the type has
    :param changes: new values, by the names of fields in `records.TypeEncryption`
    :raises VolumeTypeNotFound: no live volume type has this id
    :raises VolumeTypeInUse: live volumes have the type
    :raises VolumeTypeEncryptionNotFound: the type has no encryption, or its encryption has another
        id
    """
    _change_encryption(database, type_id, encryption_id, 'update',
                       updated_at=database.clock.utcnow(), **changes)
    log.step(LOG, 'Volume type encryption updated', volume_type_id=type_id,
             keys=','.join(sorted(changes)))


@storage_db.retried
def delete_encryption(database: storage_db.Database, type_id: str,
                      encryption_id: str | None) -> None:
    """Mark the encryption of a volume type as deleted. The row is kept as history.

    :param encryption_id: id of the encryption; None for the encryption that the type has
    :raises VolumeTypeNotFound: no live volume type has this id
    :raises VolumeTypeInUse: live volumes have the type
    :raises VolumeTypeEncryptionNotFound: the type has no encryption, or its encryption has another
        id
    """
    _change_encryption(database, type_id, encryption_id, 'delete', **_ended(database))
    log.step(LOG, 'Volume type encryption deleted', volume_type_id=type_id)


def lock(connection: sa.Connection, type_id: str) -> None:
    """Lock the row of a live volume type until the transaction ends.

    Call this function before any plain read of the transaction.

    :raises VolumeTypeNotFound: no live volume type has this id
    """
    _lock(connection, _LOCK, type_id)


def hold(connection: sa.Connection, kind: records.VolumeType) -> None:
    """Take a shared lock on a volume type, and check that the type has not changed.

    Call this function before any plain read of the transaction. Any number of transactions can
    share the lock. A transaction that changes the type waits until all of them have ended.

    :param kind: the type as read in an earlier transaction
    :raises VolumeTypeNotFound: the type is deleted
    :raises VolumeTypeChanged: the extra specs or the encryption have changed, or the type is not
        public any more
    """
    # The lock comes first. After an earlier plain read, MariaDB would return an outdated type.
    _lock(connection, _SHARE, kind.id)
    now = read(connection, kind.id)
    if (now.extra_specs, now.encryption) != (kind.extra_specs, kind.encryption) \
            or kind.is_public and not now.is_public:
        raise errors.VolumeTypeChanged(volume_type_id=kind.id)


def read(connection: sa.Connection, type_id: str) -> records.VolumeType:
    """Return a live volume type within an open transaction.

    :raises VolumeTypeNotFound: no live volume type has this id
    """
    found = _records(_BY_ID.rows(connection, type_id=type_id))
    if not found:
        raise errors.VolumeTypeNotFound(volume_type_id=type_id)
    return found[0]


def _change_encryption(database: storage_db.Database, type_id: str, encryption_id: str | None,
                       verb: str, **values: Any) -> None:
    with database.writer() as connection:
        found = _lock_encryption(connection, type_id, verb)
        if found is None or encryption_id not in (None, found.id):
            raise errors.VolumeTypeEncryptionNotFound(volume_type_id=type_id)
        _store_encryption(connection, type_id, **values)


def _lock_encryption(connection: sa.Connection, type_id: str,
                     verb: str) -> records.TypeEncryption | None:
    _lock_unused(connection, type_id,
                 f'Cannot {verb} encryption specs. Volume type in use.')
    return read(connection, type_id).encryption


def _store_encryption(connection: sa.Connection, type_id: str, **values: Any) -> None:
    connection.execute(_encryptions.update().where(
        _encryptions.c.live_volume_type_id == type_id).values(**values))


def _ended(database: storage_db.Database) -> dict[str, Any]:
    return {'live_volume_type_id': None, 'deleted': True, 'deleted_at': database.clock.utcnow()}


def _lock_unused(connection: sa.Connection, type_id: str, refusal: str | None = None) -> None:
    # The creation of a volume takes a shared lock on the type, so no volume can get the type after
    # the check.
    lock(connection, type_id)
    if _is_used(connection, type_id):
        raise errors.VolumeTypeInUse(refusal)


def _lock(connection: sa.Connection, how: statements.Statement, type_id: str) -> None:
    if how.first(connection, type_id=type_id) is None:
        raise errors.VolumeTypeNotFound(volume_type_id=type_id)


def _is_used(connection: sa.Connection, type_id: str) -> bool:
    volumes = models.volumes
    return connection.execute(
        sa.select(volumes.c.id).where(models.live(volumes), volumes.c.volume_type_id == type_id)
        .limit(1)).first() is not None


def _is_default(connection: sa.Connection, type_id: str) -> bool:
    return connection.execute(sa.select(_defaults.c.project_id).where(
        _defaults.c.volume_type_id == type_id).limit(1)).first() is not None


def _shown(is_public: bool | None, project_id: str | None) -> sa.ColumnElement[bool]:
    if is_public is None:
        return sa.true()
    if not is_public:
        return _types.c.is_public.is_(False)
    return sa.or_(_types.c.is_public.is_(True), sa.exists().where(
        _projects.c.volume_type_id == _types.c.id, _projects.c.project_id == project_id))


def _live() -> sa.Select[Any]:
    return sa.select(_types.c.id).where(_types.c.id == _ID, models.live(_types))


def _whole() -> sa.Select[Any]:
    """Return a query for live types and their encryption, with one row for each extra spec."""
    return sa.select(
        _types, _specs.c.key.label('spec_key'), _specs.c.value.label('spec_value'),
        *(_encryptions.c[name].label(label) for label, name in _ENCRYPTION.items()),
    ).outerjoin(_specs, _specs.c.volume_type_id == _types.c.id,
                ).outerjoin(_encryptions, _encryptions.c.live_volume_type_id == _types.c.id,
                            ).where(models.live(_types))


def _records(type_rows: Iterable[Any]) -> list[records.VolumeType]:
    by_id: dict[str, records.VolumeType] = {}
    for row in type_rows:
        kind = by_id.get(row.id)
        if kind is None:
            kind = by_id[row.id] = rows.record(
                records.VolumeType, row, extra_specs={}, encryption=_encryption(row))
        if row.spec_key is not None:
            kind.extra_specs[row.spec_key] = row.spec_value
    return list(by_id.values())


def _encryption(row: Any) -> records.TypeEncryption | None:
    if row.encryption_id is None:
        return None
    return records.TypeEncryption(**{
        name: getattr(row, label) for label, name in _ENCRYPTION.items()})


def _touch(connection: sa.Connection, database: storage_db.Database, type_id: str,
           **values: Any) -> None:
    connection.execute(_types.update().where(_types.c.id == type_id).values(
        updated_at=database.clock.utcnow(), **values))


def _store_specs(connection: sa.Connection, type_id: str, specs: Mapping[str, str]) -> None:
    if specs:
        connection.execute(_specs.insert(), [
            {'volume_type_id': type_id, 'key': key, 'value': value}
            for key, value in specs.items()])
