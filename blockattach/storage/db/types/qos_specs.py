"""QoS specs, and which volume types have them. A type has one at most; many may share one.

Lock order, to change specs or associate them with a type: the specs' row, then the types'.
"""
import logging
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import log
from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.types import volume_types
from blockattach.storage.domain import records

LOG = logging.getLogger(__name__)

_specs = models.qos_specs
_types = models.volume_types

SORT_COLUMNS: Mapping[str, sa.ColumnElement] = {
    name: _specs.c[name] for name in ('id', 'name', 'consumer', 'created_at', 'updated_at')}
"""Sort keys of a list; it may be filtered by the first three."""


@storage_db.retried
def create(database: storage_db.Database, name: str, consumer: str,
           specs: Mapping[str, str | None]) -> records.QosSpecs:
    """Write new specs down.

    :raises QosSpecsExist: live ones have that name
    """
    specs_id = database.new_id()
    try:
        with database.writer(storage_db.inserted(_specs.c.id, specs_id)) as connection:
            connection.execute(_specs.insert().values(
                id=specs_id, name=name, live_name=name, consumer=consumer,
                specs=rows.to_json(dict(specs)), created_at=database.clock.utcnow()))
            made = _read(connection, specs_id)
    except db_exception.DBDuplicateEntry as error:
        raise errors.QosSpecsExist(name=name) from error
    log.step(LOG, 'QoS specs created', qos_specs_id=specs_id, name=name)
    return made


def get(database: storage_db.Database, specs_id: str) -> records.QosSpecs:
    """Live specs.

    :raises QosSpecsNotFound: there are none
    """
    with database.reader() as connection:
        return _read(connection, specs_id)


def list_page(database: storage_db.Database, filters: Mapping[str, str],
              page: paging.Page) -> list[records.QosSpecs]:
    """One page of live specs in one query.

    :param filters: values by keys of `SORT_COLUMNS`
    :raises QosSpecsNotFound: the marker is none
    """
    query = _specs.select().where(models.live(_specs), *(
        SORT_COLUMNS[key] == value for key, value in filters.items()))
    with database.reader() as connection:
        found = paging.fetch(connection, query, SORT_COLUMNS, page, models.live(_specs),
                             lambda marker: errors.QosSpecsNotFound(qos_specs_id=marker))
    return [rows.qos_specs(row) for row in found]


@storage_db.retried
def update(database: storage_db.Database, specs_id: str, consumer: str | None,
           changes: Mapping[str, str | None]) -> None:
    """Write specs over those of the same keys, all or none; other keys stay.

    What is attached keeps the old limits; the next connect gets the new ones.

    :param consumer: what enforces them from now on; None: unchanged
    :raises QosSpecsNotFound: there are none
    """
    with database.writer() as connection:
        found = _lock(connection, specs_id)
        _store(connection, database, specs_id, consumer=consumer or found.consumer,
               specs=rows.to_json({**found.specs, **changes}))
    log.step(LOG, 'QoS specs updated', qos_specs_id=specs_id, keys=','.join(sorted(changes)))


@storage_db.retried
def delete_keys(database: storage_db.Database, specs_id: str, keys: Iterable[str]) -> None:
    """Remove some, all or none.

    :raises QosSpecsNotFound: there are no such specs
    :raises QosSpecsKeyNotFound: they lack one of the keys; nothing was changed
    """
    removed = list(keys)
    with database.writer() as connection:
        found = _lock(connection, specs_id)
        for key in removed:
            if key not in found.specs:
                raise errors.QosSpecsKeyNotFound(qos_specs_id=specs_id, key=key)
        _store(connection, database, specs_id, specs=rows.to_json(
            {key: value for key, value in found.specs.items() if key not in removed}))
    log.step(LOG, 'QoS specs keys deleted', qos_specs_id=specs_id,
             keys=','.join(sorted(removed)))


@storage_db.retried
def delete(database: storage_db.Database, specs_id: str, force: bool = False) -> None:
    """Remove specs; the row stays as history.

    :param force: also from the types that have them, which have none then
    :raises QosSpecsNotFound: there are none
    :raises QosSpecsInUse: types have them
    """
    with database.writer() as connection:
        _lock(connection, specs_id)
        if not force and _types_of(connection, specs_id):
            raise errors.QosSpecsInUse
        _take(connection, database, specs_id)
        _store(connection, database, specs_id, live_name=None, deleted=True,
               deleted_at=database.clock.utcnow())
    log.step(LOG, 'QoS specs deleted', qos_specs_id=specs_id)


def types(database: storage_db.Database, specs_id: str) -> list[records.Limited]:
    """The live types that have these specs.

    :raises QosSpecsNotFound: there are none
    """
    with database.reader() as connection:
        _read(connection, specs_id)
        return _types_of(connection, specs_id)


@storage_db.retried
def associate(database: storage_db.Database, specs_id: str, type_id: str) -> None:
    """Give specs to a type; one that has them already keeps them.

    :raises QosSpecsNotFound: there are none
    :raises VolumeTypeNotFound: there is no such type
    :raises QosSpecsTaken: the type has other ones
    """
    with database.writer() as connection:
        _lock(connection, specs_id)
        volume_types.lock(connection, type_id)
        present = connection.execute(
            sa.select(_types.c.qos_specs_id).where(_types.c.id == type_id)).scalar_one()
        if present not in (None, specs_id):
            raise errors.QosSpecsTaken(volume_type_id=type_id, qos_specs_id=present)
        if present is None:
            connection.execute(_types.update().where(_types.c.id == type_id).values(
                qos_specs_id=specs_id, updated_at=database.clock.utcnow()))
    log.step(LOG, 'QoS specs associated with volume type', qos_specs_id=specs_id,
             volume_type_id=type_id)


@storage_db.retried
def disassociate(database: storage_db.Database, specs_id: str, type_id: str | None = None) -> None:
    """Take specs from a type; one that does not have them is left as it is.

    :param type_id: None: from every type that has them
    :raises QosSpecsNotFound: there are none
    :raises VolumeTypeNotFound: there is no such type
    """
    with database.writer() as connection:
        _lock(connection, specs_id)
        if type_id is not None:
            volume_types.lock(connection, type_id)
        _take(connection, database, specs_id, type_id)
    log.step(LOG, 'QoS specs disassociated from volume types', qos_specs_id=specs_id,
             volume_type_id=type_id or 'all')


def _take(connection: sa.Connection, database: storage_db.Database, specs_id: str,
          type_id: str | None = None) -> None:
    associated = _types.update().where(_types.c.qos_specs_id == specs_id)
    if type_id is not None:
        associated = associated.where(_types.c.id == type_id)
    connection.execute(associated.values(qos_specs_id=None, updated_at=database.clock.utcnow()))


def _types_of(connection: sa.Connection, specs_id: str) -> list[records.Limited]:
    return [records.Limited(row.id, row.name) for row in connection.execute(
        sa.select(_types.c.id, _types.c.name)
        .where(_types.c.qos_specs_id == specs_id, models.live(_types))
        .order_by(_types.c.created_at, _types.c.id))]


def _read(connection: sa.Connection, specs_id: str, lock: bool = False) -> records.QosSpecs:
    query = _specs.select().where(_specs.c.id == specs_id, models.live(_specs))
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise errors.QosSpecsNotFound(qos_specs_id=specs_id)
    return rows.qos_specs(row)


def _lock(connection: sa.Connection, specs_id: str) -> records.QosSpecs:
    """Lock live specs until the transaction ends; the transaction's first statement."""
    return _read(connection, specs_id, lock=True)


def _store(connection: sa.Connection, database: storage_db.Database, specs_id: str,
           **values: Any) -> None:
    connection.execute(_specs.update().where(_specs.c.id == specs_id).values(
        updated_at=database.clock.utcnow(), **values))
