"""QoS specs and their associations with volume types.

A volume type is associated with at most one row of QoS specs. Several types may share a row. A
change locks the QoS specs first, and then the volume types.
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
"""Columns by which a list of QoS specs can be sorted, by their names in the API."""


@storage_db.retried
def create(database: storage_db.Database, name: str, consumer: str,
           specs: Mapping[str, str | None]) -> records.QosSpecs:
    """Create QoS specs.

    :raises QosSpecsExist: other live QoS specs have this name
    """
    specs_id = database.new_id()
    try:
        with database.writer(storage_db.inserted(_specs.c.id, specs_id)) as connection:
            connection.execute(_specs.insert().values(
                id=specs_id, name=name, live_name=name, consumer=consumer,
                specs=rows.to_json(dict(specs)), created_at=database.clock.utcnow()))
            made = _read(connection, specs_id)
    except db_exception.DBDuplicateEntry as error:
        # The unique ``live_name`` decides, because a check before the insertion could be outdated.
        raise errors.QosSpecsExist(name=name) from error
    log.step(LOG, 'QoS specs created', qos_specs_id=specs_id, name=name)
    return made


def get(database: storage_db.Database, specs_id: str) -> records.QosSpecs:
    """Return live QoS specs by their id.

    :raises QosSpecsNotFound: no live QoS specs have this id
    """
    with database.reader() as connection:
        return _read(connection, specs_id)


def list_page(database: storage_db.Database, filters: Mapping[str, str],
              page: paging.Page) -> list[records.QosSpecs]:
    """Return a page of live QoS specs with one query, or two if the page has a marker.

    :param filters: required values of columns, by the keys of `SORT_COLUMNS`
    :raises QosSpecsNotFound: the marker is not the id of live QoS specs
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
    """Set the consumer and the given keys of QoS specs in one transaction.

    Other keys keep their values. Attached volumes keep the old limits until they are connected
    again.

    :param consumer: new consumer of the limits; None to leave the consumer unchanged
    :param changes: new values by key
    :raises QosSpecsNotFound: no live QoS specs have this id
    """
    with database.writer() as connection:
        # The specs are read under the lock, because the JSON object is written as a whole.
        found = _lock(connection, specs_id)
        _store(connection, database, specs_id, consumer=consumer or found.consumer,
               specs=rows.to_json({**found.specs, **changes}))
    log.step(LOG, 'QoS specs updated', qos_specs_id=specs_id, keys=','.join(sorted(changes)))


@storage_db.retried
def delete_keys(database: storage_db.Database, specs_id: str, keys: Iterable[str]) -> None:
    """Delete all the given keys of QoS specs, or none of them on an error.

    :raises QosSpecsNotFound: no live QoS specs have this id
    :raises QosSpecsKeyNotFound: one of the keys does not exist in the QoS specs
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
    """Mark QoS specs as deleted. The row is kept as history.

    :param force: True to disassociate the QoS specs from all volume types first
    :raises QosSpecsNotFound: no live QoS specs have this id
    :raises QosSpecsInUse: volume types are associated with the QoS specs, and ``force`` is False
    """
    with database.writer() as connection:
        # `associate` also locks the QoS specs, so no type can be associated after the check.
        _lock(connection, specs_id)
        if not force and _types_of(connection, specs_id):
            raise errors.QosSpecsInUse
        _take(connection, database, specs_id)
        _store(connection, database, specs_id, live_name=None, deleted=True,
               deleted_at=database.clock.utcnow())
    log.step(LOG, 'QoS specs deleted', qos_specs_id=specs_id)


def types(database: storage_db.Database, specs_id: str) -> list[records.Limited]:
    """Return the live volume types that are associated with QoS specs, oldest first.

    :raises QosSpecsNotFound: no live QoS specs have this id
    """
    with database.reader() as connection:
        _read(connection, specs_id)
        return _types_of(connection, specs_id)


@storage_db.retried
def associate(database: storage_db.Database, specs_id: str, type_id: str) -> None:
    """Associate QoS specs with a volume type. Nothing changes if they are already associated.

    :raises QosSpecsNotFound: no live QoS specs have this id
    :raises VolumeTypeNotFound: no live volume type has this id
    :raises QosSpecsTaken: the type is associated with other QoS specs
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
    """Disassociate QoS specs from one volume type or from all.

    A type that is not associated with the QoS specs is left unchanged.

    :param type_id: id of the type; None for all types that are associated with the QoS specs
    :raises QosSpecsNotFound: no live QoS specs have this id
    :raises VolumeTypeNotFound: no live volume type has the given id
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
    # Always the first statement of a transaction. On MariaDB, later plain reads then see the
    # commits for which this statement has waited.
    return _read(connection, specs_id, lock=True)


def _store(connection: sa.Connection, database: storage_db.Database, specs_id: str,
           **values: Any) -> None:
    connection.execute(_specs.update().where(_specs.c.id == specs_id).values(
        updated_at=database.clock.utcnow(), **values))
