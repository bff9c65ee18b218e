"""Services and their heartbeats, whose times are set and compared in database time.

A service counts as down after ``down_after`` seconds without a heartbeat.
"""
import dataclasses
import datetime
import functools
import logging
from collections.abc import Callable
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import log
from blockattach.platform.db import clock
from blockattach.platform.db import statements
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.domain import binaries
from blockattach.storage.domain import records

LOG = logging.getLogger(__name__)

_services = models.services
# The character after "#" in byte order, see `on_host`.
_AFTER_HASH = chr(ord('#') + 1)
INSTANCE = '/'
"""Separator between the name of a service and its process instance in the name of an owner."""


@storage_db.retried
def register(database: storage_db.Database, binary: str, host: str, availability_zone: str,
             process_instance: str, release: str | None = None, cluster: str | None = None,
             reconciled: records.Reconciled | None = None) -> records.Service:
    """Insert or update the row of a service, and record a heartbeat.

    A service that already has a row keeps its UUID and its disabled flag.

    :param process_instance: identifier of this run of the process
    :param release: name of a release in `blockattach.storage.rpc.history`
    :param cluster: ``cluster@backend`` if several services share the backend, else None
    :param reconciled: repairs by the service; None if the service has no backend
    """
    now = database.clock.utcnow()
    values = {'availability_zone': availability_zone, 'process_instance': process_instance,
            'release': release, 'cluster': cluster, 'reported_at': clock.now(),
            'reconciled': _stored(reconciled)}
    registered = sa.select(_services.c.id).where(*_named(binary, host))
    update = _services.update().where(*_named(binary, host)).values(updated_at=now, **values)
    with database.writer() as connection:
        # The read comes first. On MariaDB, an UPDATE that matches no row locks the gap into which
        # other processes insert.
        if connection.execute(registered).first() is None \
                or connection.execute(update).rowcount == 0:
            try:
                connection.execute(_services.insert().values(
                    uuid=database.new_id(), binary=binary, host=host, created_at=now,
                    **_as_its_cluster(connection, binary, cluster), **values))
            except db_exception.DBDuplicateEntry as exc:
                # Another process with this name has inserted the row. When the function is
                # repeated, it updates this row, so that the last process is the registered one.
                raise db_exception.RetryRequest(exc) from exc
        row = connection.execute(_services.select().where(*_named(binary, host))).one()
    log.step(LOG, 'Service registered', binary=binary, host=host)
    return _record(row, up=True)


@storage_db.retried
def heartbeat(database: storage_db.Database, service_id: int, process_instance: str | None = None,
              reconciled: records.Reconciled | None = None) -> bool:
    """Record a heartbeat of a service.

    :param process_instance: required process instance in the row; None for any instance
    :param reconciled: repairs by the service; None if the service has no backend
    :returns: False if the row was deleted. The service must then register again
    :raises Conflict: the row contains another process instance
    """
    row = _services.c.id == service_id
    mine = row if process_instance is None else sa.and_(
        row, _services.c.process_instance == process_instance)
    with database.writer() as connection:
        done = connection.execute(_services.update().where(mine)
                                  .values(reported_at=clock.now(),
                                          reconciled=_stored(reconciled)))
        if done.rowcount == 1:
            return True
        # If there is no row, an administrator has removed the service. If the row contains another
        # instance, two processes run under one name.
        if process_instance is not None and connection.execute(
                sa.select(_services.c.id).where(row)).first() is not None:
            raise errors.Conflict(
                reason='another process is registered under the same service name')
        return False


def list_all(database: storage_db.Database, down_after: float, host: str | None = None,
             binary: str | None = None) -> list[records.Service]:
    """Return services ordered by id.

    :param host: ``host@backend``; or a host, which also selects all backends of the host; None for
        any host
    :param binary: None for any binary
    """
    query = _with_up(down_after).order_by(_services.c.id)
    if host is not None:
        query = query.where(sa.or_(_services.c.host == host,
                                   _services.c.host.startswith(f'{host}@', autoescape=True)))
    if binary is not None:
        query = query.where(_services.c.binary == binary)
    return _read(database, query)


def all_up(database: storage_db.Database, binary: str, down_after: float) -> bool:
    """Return True if a service of the binary is up for each backend that is not disabled.

    A backend is disabled if all its services are disabled. The members of a cluster count as one
    backend.
    """
    backends: dict[str, list[records.Service]] = {}
    for service in list_all(database, down_after, binary=binary):
        backends.setdefault(service.backend, []).append(service)
    return all(any(service.up for service in members)
               or all(service.disabled for service in members) for members in backends.values())


def silent(database: storage_db.Database, binary: str, down_after: float) -> list[str]:
    """Return the sorted names of the backends for which no service of the binary is up.

    Backends whose services are disabled are included.
    """
    found = list_all(database, down_after, binary=binary)
    living = {service.backend for service in found if service.up}
    return sorted({service.backend for service in found} - living)


def silent_managers(database: storage_db.Database, down_after: float) -> list[str]:
    """Return the sorted names of the backends for which no volume service is up."""
    return silent(database, binaries.VOLUME, down_after)


def of_releases(database: storage_db.Database, down_after: float,
                releases: Collection[str]) -> list[str]:
    """Return descriptions of the services that are up and run one of the given releases.

    Each description names the binary, the host and the release.
    """
    query = sa.select(_services).where(
        _services.c.reported_at >= clock.now(-down_after), _services.c.release.in_(releases))
    with database.reader() as connection:
        return [f'{row.binary} on {row.host} (release {row.release})'
                for row in connection.execute(query.order_by(_services.c.id))]


def keeping(database: storage_db.Database, binary: str, backend: str,
            down_after: float) -> list[records.Service]:
    """Return the services of a backend. Services that are up come first.

    :param backend: ``host@backend`` or ``cluster@backend``
    """
    up = _services.c.reported_at >= clock.now(-down_after)
    return _read(database, _with_up(down_after).where(
        _services.c.binary == binary, keeps(backend)).order_by(up.desc(), _services.c.id))


def on_host(host: str, pool: sa.ColumnElement[str] = models.volumes.c.pool,
            ) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a pool belongs to a backend.

    :param host: ``host@backend``
    :param pool: column that contains the full name of the pool; ``volumes.pool`` by default
    """
    # A range instead of LIKE, because names contain underscores, and not every database uses an
    # index for LIKE.
    return sa.and_(pool > f'{host}#', pool < f'{host}{_AFTER_HASH}')


def of_service(column: sa.ColumnElement[str], owner: str) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a column names a process instance of the owner's service.

    :param column: column that contains the name of an owner
    :param owner: name of a process instance: its service, `INSTANCE`, and its identifier
    """
    service = owner.rpartition(INSTANCE)[0]
    return column.startswith(f'{service}{INSTANCE}', autoescape=True)


def keeps(backend: sa.ColumnElement[str] | str) -> sa.ColumnElement[bool]:
    """Return the SQL condition that selects the services of a backend.

    :param backend: ``cluster@backend`` for all members of the cluster, or ``host@backend`` for a
        service that is not a member of a cluster
    """
    return sa.or_(_services.c.cluster == backend,
                  sa.and_(_services.c.cluster.is_(None), _services.c.host == backend))


def is_frozen(connection: sa.Connection, backend: str) -> bool:
    """Return True if a volume service of a backend is frozen.

    On a frozen backend, volumes cannot be created or deleted.
    """
    return _FROZEN.first(connection, backend=backend) is not None


_FROZEN = statements.Statement(lambda dialect: sa.select(_services.c.id).where(
    _services.c.binary == binaries.VOLUME, _services.c.frozen == sa.true(),
    keeps(statements.value('backend', _services.c.host.type))).limit(1))


def get_by_host(database: storage_db.Database, binary: str, host: str,
                down_after: float) -> records.Service:
    """Return a service by its binary and its host.

    :raises ServiceNotFound: no service has this binary and host
    """
    found = _read(database, _with_up(down_after).where(*_named(binary, host)))
    if not found:
        raise errors.ServiceNotFound(binary=binary, host=host)
    return found[0]


@storage_db.retried
def set_disabled(database: storage_db.Database, binary: str, host: str, disabled: bool,
                 reason: str | None = None) -> None:
    """Disable or enable a service.

    :param reason: reason for disabling the service; enabling removes the stored reason
    :raises ServiceNotFound: no service has this binary and host
    """
    _change(database, binary, host, _services.c.host == host,
            disabled=disabled, disabled_reason=reason if disabled else None)
    if disabled:
        log.step(LOG, 'Service disabled', binary=binary, host=host, disabled=True)
    else:
        log.step(LOG, 'Service enabled', binary=binary, host=host, disabled=False)


@storage_db.retried
def set_frozen(database: storage_db.Database, host: str, frozen: bool) -> None:
    """Freeze or thaw a backend. The disabled flags of its services are not changed.

    :param host: ``host@backend``, or ``cluster@backend`` for all members of the cluster
    :raises ServiceNotFound: the backend has no volume service
    """
    _change(database, binaries.VOLUME, host,
            sa.or_(_services.c.host == host, _services.c.cluster == host), frozen=frozen)
    if frozen:
        log.step(LOG, 'Backend marked as frozen', host=host, frozen=True)
    else:
        log.step(LOG, 'Backend thawed', host=host, frozen=False)


@storage_db.retried
def remove(database: storage_db.Database, binary: str, host: str, down_after: float) -> None:
    """Delete the row of a service that is down.

    :raises ServiceNotFound: no service has this binary and host
    :raises Conflict: the service is up. It would insert the row again at its next heartbeat
    """
    with database.writer() as connection:
        row = connection.execute(_with_up(down_after).where(*_named(binary, host))
                                 .with_for_update()).one_or_none()
        if row is None:
            raise errors.ServiceNotFound(binary=binary, host=host)
        if row.up:
            raise errors.Conflict(
                reason=f'{binary} on {host} is still sending heartbeats. Stop the service first.')
        connection.execute(_services.delete().where(_services.c.id == row.id))
    log.step(LOG, 'Service removed', binary=binary, host=host)


def _named(binary: str, host: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _services.c.binary == binary, _services.c.host == host


def _as_its_cluster(connection: sa.Connection, binary: str,
                    cluster: str | None) -> dict[str, Any]:
    # If all members of the cluster are disabled, a new member is disabled too.
    others = [] if cluster is None else connection.execute(
        sa.select(_services.c.disabled, _services.c.disabled_reason).where(
            _services.c.binary == binary, _services.c.cluster == cluster)).all()
    if not others or not all(one.disabled for one in others):
        return {'disabled': False}
    return {'disabled': True, 'disabled_reason': others[0].disabled_reason}


def _change(database: storage_db.Database, binary: str, host: str,
            which: sa.ColumnElement[bool], **values: Any) -> None:
    with database.writer() as connection:
        done = connection.execute(
            _services.update().where(_services.c.binary == binary, which)
            .values(updated_at=database.clock.utcnow(), **values))
        if not done.rowcount:
            raise errors.ServiceNotFound(binary=binary, host=host)


def _read(database: storage_db.Database, query: sa.Select[Any]) -> list[records.Service]:
    with database.reader() as connection:
        return [_record(row, row.up) for row in connection.execute(query)]


def _with_up(down_after: float) -> sa.Select[Any]:
    return sa.select(_services, (_services.c.reported_at >= clock.now(-down_after)).label('up'))


def _record(row: sa.Row[Any], up: bool) -> records.Service:
    return rows.record(records.Service, row, updated_at=row.reported_at, up=bool(up),
                       frozen=bool(row.frozen), reconciled=_reconciled(row.reconciled))


def _stored(values: records.Reconciled | None) -> str | None:
    if values is None:
        return None
    return rows.to_json({**dataclasses.asdict(values),
                         'last_at': values.last_at and values.last_at.isoformat()})


def _reconciled(text: str | None) -> records.Reconciled | None:
    values = rows.from_json(text)
    if values is None:
        return None
    at = values['last_at']
    # A newer release may have stored more fields, which are ignored.
    return records.Reconciled(values['repaired'], values['last'],
                              at and datetime.datetime.fromisoformat(at))


class Presence:
    """Registration of this process as a service, renewed by heartbeats."""

    def __init__(self, database: storage_db.Database, binary: str, host: str,
                 availability_zone: str, release: str | None = None,
                 cluster: str | None = None, sole: bool = False,
                 reconciled: Callable[[], records.Reconciled] | None = None) -> None:
        """
        :param cluster: ``cluster@backend`` if several services share the backend, else None
        :param sole: True if only one process may run with this binary and host
        :param reconciled: function that returns the repairs by the service, for its heartbeats;
            None if the service has no backend
        """
        self.process_instance = database.new_id().replace('-', '')
        """Identifier of this process instance."""
        self._database = database
        self._register = functools.partial(register, database, binary, host, availability_zone,
                                           self.process_instance, release, cluster)
        self._named = log.fields(binary=binary, host=host)
        self._sole = sole
        self._reconciled = reconciled
        self._superseded = False
        self._service_id: int | None = None

    def beat(self) -> None:
        """Record a heartbeat.

        The first call registers the service. A later call registers the service again if its row
        was deleted.
        """
        reconciled = None if self._reconciled is None else self._reconciled()
        try:
            if self._service_id is None or not heartbeat(
                    self._database, self._service_id,
                    self.process_instance if self._sole else None, reconciled):
                self._service_id = self._register(reconciled).id
        except errors.Conflict:
            # If two instances run, the row belongs to the instance that registered last.
            if not self._superseded:
                LOG.error('Lost the service registration to another process with the same name%s',
                          self._named)
            self._superseded = True

    def wrong(self) -> str | None:
        """Return the reason to stop this process, or None if there is none.

        The reason is that another process has registered under the same name.
        """
        return 'another process is registered under the same service name' \
            if self._superseded else None
