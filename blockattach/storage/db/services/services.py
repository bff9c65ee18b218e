"""Services and their heartbeats, by the database's clock alone."""
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
_AFTER_HASH = chr(ord('#') + 1)
INSTANCE = '/'
"""In the name of an owner: between a service and its process instance."""


@storage_db.retried
def register(database: storage_db.Database, binary: str, host: str, availability_zone: str,
             process_instance: str, release: str | None = None, cluster: str | None = None,
             reconciled: records.Reconciled | None = None) -> records.Service:
    """Register a service as up, by its name; it keeps its uuid and whether it is disabled.

    :param process_instance: names this run of the process
    :param release: a name of `blockattach.storage.rpc.history`
    :param cluster: ``cluster@backend``, where it serves a backend together with others
    :param reconciled: what it has repaired, if it serves a backend
    """
    now = database.clock.utcnow()
    values = {'availability_zone': availability_zone, 'process_instance': process_instance,
            'release': release, 'cluster': cluster, 'reported_at': clock.now(),
            'reconciled': _stored(reconciled)}
    known = sa.select(_services.c.id).where(*_named(binary, host))
    update = _services.update().where(*_named(binary, host)).values(updated_at=now, **values)
    with database.writer() as connection:
        # Read first: an update that finds nothing locks the gap that others insert into.
        if connection.execute(known).first() is None or connection.execute(update).rowcount == 0:
            try:
                connection.execute(_services.insert().values(
                    uuid=database.new_id(), binary=binary, host=host, created_at=now,
                    **_as_its_cluster(connection, binary, cluster), **values))
            except db_exception.DBDuplicateEntry as exc:
                # Another process of this name was faster: again, the last one counts.
                raise db_exception.RetryRequest(exc) from exc
        row = connection.execute(_services.select().where(*_named(binary, host))).one()
    log.step(LOG, 'Service registered', binary=binary, host=host)
    return _record(row, up=True)


@storage_db.retried
def heartbeat(database: storage_db.Database, service_id: int, process_instance: str | None = None,
              reconciled: records.Reconciled | None = None) -> bool:
    """Send a heartbeat; False when the service was removed and must register again.

    :param process_instance: only if no other instance has registered meanwhile
    :param reconciled: what it has repaired, if it serves a backend
    :raises Conflict: one has
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
        if process_instance is not None and connection.execute(
                sa.select(_services.c.id).where(row)).first() is not None:
            raise errors.Conflict(
                reason='another process is registered under the same service name')
        return False


def list_all(database: storage_db.Database, down_after: float, host: str | None = None,
             binary: str | None = None) -> list[records.Service]:
    """Every service, or those of one host (with its backends) or of one name.

    :param down_after: seconds without a heartbeat after which a service counts as down
    """
    query = _with_up(down_after).order_by(_services.c.id)
    if host is not None:
        query = query.where(sa.or_(_services.c.host == host,
                                   _services.c.host.startswith(f'{host}@', autoescape=True)))
    if binary is not None:
        query = query.where(_services.c.binary == binary)
    return _read(database, query)


def all_up(database: storage_db.Database, binary: str, down_after: float) -> bool:
    """Whether every enabled service of this name sends heartbeats; of a cluster, one does."""
    up: dict[str, bool] = {}
    for one in list_all(database, down_after, binary=binary):
        up[one.backend] = up.get(one.backend, False) or one.up or one.disabled
    return all(up.values())


def silent(database: storage_db.Database, binary: str, down_after: float) -> list[str]:
    """The backends none of whose services sends heartbeats."""
    found = list_all(database, down_after, binary=binary)
    living = {service.backend for service in found if service.up}
    return sorted({service.backend for service in found} - living)


def silent_managers(database: storage_db.Database, down_after: float) -> list[str]:
    """The same of volume managers."""
    return silent(database, binaries.VOLUME, down_after)


def of_releases(database: storage_db.Database, down_after: float,
                releases: Collection[str]) -> list[str]:
    """The services of some releases that send heartbeats, by name."""
    query = sa.select(_services).where(
        _services.c.reported_at >= clock.now(-down_after), _services.c.release.in_(releases))
    with database.reader() as connection:
        return [f'{row.binary} on {row.host} (release {row.release})'
                for row in connection.execute(query.order_by(_services.c.id))]


def keeping(database: storage_db.Database, binary: str, backend: str,
            down_after: float) -> list[records.Service]:
    """The services that keep one backend, those that send heartbeats first."""
    up = _services.c.reported_at >= clock.now(-down_after)
    return _read(database, _with_up(down_after).where(
        _services.c.binary == binary, keeps(backend)).order_by(up.desc(), _services.c.id))


def on_host(host: str, pool: sa.ColumnElement[str] = models.volumes.c.pool,
            ) -> sa.ColumnElement[bool]:
    """Volumes, or what else has such a column, on any pool of one ``host@backend``.

    A range of bytes, not LIKE: names hold underscores, and no index serves LIKE everywhere.
    """
    return sa.and_(pool > f'{host}#', pool < f'{host}{_AFTER_HASH}')


def of_service(column: sa.ColumnElement[str], owner: str) -> sa.ColumnElement[bool]:
    """Whether an owner is an instance of the same service as another one."""
    service = owner.rpartition(INSTANCE)[0]
    return column.startswith(f'{service}{INSTANCE}', autoescape=True)


def keeps(backend: sa.ColumnElement[str] | str) -> sa.ColumnElement[bool]:
    """Services that keep a backend: alone under its name, or as a member of its cluster."""
    return sa.or_(_services.c.cluster == backend,
                  sa.and_(_services.c.cluster.is_(None), _services.c.host == backend))


def is_frozen(connection: sa.Connection, backend: str) -> bool:
    """Whether no volume is to be made or deleted on a backend."""
    return _FROZEN.first(connection, backend=backend) is not None


_FROZEN = statements.Statement(lambda dialect: sa.select(_services.c.id).where(
    _services.c.binary == binaries.VOLUME, _services.c.frozen == sa.true(),
    keeps(statements.value('backend', _services.c.host.type))).limit(1))


def get_by_host(database: storage_db.Database, binary: str, host: str,
                down_after: float) -> records.Service:
    """One service by its name.

    :raises ServiceNotFound: there is none
    """
    found = _read(database, _with_up(down_after).where(*_named(binary, host)))
    if not found:
        raise errors.ServiceNotFound(binary=binary, host=host)
    return found[0]


@storage_db.retried
def set_disabled(database: storage_db.Database, binary: str, host: str, disabled: bool,
                 reason: str | None = None) -> None:
    """Take a service out of use, or back into use, which forgets the reason.

    :raises ServiceNotFound: there is none
    """
    _change(database, binary, host, _services.c.host == host,
            disabled=disabled, disabled_reason=reason if disabled else None)
    log.step(LOG, 'Service status changed', binary=binary, host=host, disabled=disabled)


@storage_db.retried
def set_frozen(database: storage_db.Database, host: str, frozen: bool) -> None:
    """Freeze a backend, or thaw it; whether its service is disabled is another matter.

    :param host: ``host@backend``; or ``cluster@backend``, for all that keep it
    :raises ServiceNotFound: there is none
    """
    _change(database, binaries.VOLUME, host,
            sa.or_(_services.c.host == host, _services.c.cluster == host), frozen=frozen)
    log.step(LOG, 'Backend frozen flag changed', host=host, frozen=frozen)


@storage_db.retried
def remove(database: storage_db.Database, binary: str, host: str, down_after: float) -> None:
    """Forget a service that will not come back.

    :raises ServiceNotFound: there is none
    :raises Conflict: it is up, and would be back at its next heartbeat
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
    """Whether a new service begins disabled: where all others of its cluster are."""
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
    # A newer release may have reported more.
    return records.Reconciled(values['repaired'], values['last'],
                              at and datetime.datetime.fromisoformat(at))


class Presence:
    """A running service's own row: written at its start, and again at each heartbeat."""

    def __init__(self, database: storage_db.Database, binary: str, host: str,
                 availability_zone: str, release: str | None = None,
                 cluster: str | None = None, sole: bool = False,
                 reconciled: Callable[[], records.Reconciled] | None = None) -> None:
        """
        :param cluster: see `register`
        :param sole: no other process may serve under this name; see `wrong`
        :param reconciled: what each heartbeat reports, see `register`
        """
        self.process_instance = database.new_id().replace('-', '')
        """Names this process instance: the work of others is orphaned."""
        self._database = database
        self._register = functools.partial(register, database, binary, host, availability_zone,
                                           self.process_instance, release, cluster)
        self._named = log.fields(binary=binary, host=host)
        self._sole = sole
        self._reconciled = reconciled
        self._superseded = False
        self._service_id: int | None = None

    def beat(self) -> None:
        """Send a heartbeat; a service that was removed registers anew."""
        reconciled = None if self._reconciled is None else self._reconciled()
        try:
            if self._service_id is None or not heartbeat(
                    self._database, self._service_id,
                    self.process_instance if self._sole else None, reconciled):
                self._service_id = self._register(reconciled).id
        except errors.Conflict:
            # Of two instances, the later one is the service.
            if not self._superseded:
                LOG.error('Lost the service registration to another process with the same name%s',
                          self._named)
            self._superseded = True

    def wrong(self) -> str | None:
        """Why this process should be ended; None: it is the only one of its name."""
        return 'another process is registered under the same service name' \
            if self._superseded else None
