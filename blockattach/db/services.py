"""Services and their heartbeat: who is there, judged by the database's clock alone."""
import uuid
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as db_exception
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import clock
from blockattach.db import engine
from blockattach.db.models import service
from blockattach.domain import records

LOG = oslo_log.getLogger(__name__)

_services = service.services


@engine.retried
def register(database: engine.Database, binary: str, host: str, availability_zone: str,
             incarnation: str) -> records.Service:
    """Say that a service lives, under its name; it keeps its uuid and whether it is disabled.

    :param incarnation: names this life of the process
    """
    now = database.clock.utcnow()
    told = {'availability_zone': availability_zone, 'incarnation': incarnation,
            'reported_at': clock.now()}
    known = sa.select(_services.c.id).where(*_named(binary, host))
    update = _services.update().where(*_named(binary, host)).values(updated_at=now, **told)
    with database.writer() as connection:
        # Looked for first: an update that finds nothing locks the gap that others insert into.
        if connection.execute(known).first() is None or connection.execute(update).rowcount == 0:
            try:
                connection.execute(_services.insert().values(
                    uuid=str(uuid.uuid4()), binary=binary, host=host, disabled=False,
                    created_at=now, **told))
            except db_exception.DBDuplicateEntry as exc:
                # Another process of the same name was faster: again, the last to speak counts.
                raise db_exception.RetryRequest(exc) from exc
        row = connection.execute(_services.select().where(*_named(binary, host))).one()
    LOG.info('Service is registered%s', log.fields(binary=binary, host=host))
    return _record(row, up=True)


@engine.retried
def heartbeat(database: engine.Database, service_id: int) -> bool:
    """Give a sign of life; False when the service was removed and must register again."""
    with database.writer() as connection:
        done = connection.execute(_services.update().where(_services.c.id == service_id)
                                  .values(reported_at=clock.now()))
        return done.rowcount == 1


def list_all(database: engine.Database, down_after: float, host: str | None = None,
             binary: str | None = None) -> list[records.Service]:
    """Every service, or those of one host (with its backends) or of one name.

    :param down_after: seconds without a sign of life after which a service counts as down
    """
    query = _with_up(down_after).order_by(_services.c.id)
    if host is not None:
        query = query.where(sa.or_(_services.c.host == host,
                                   _services.c.host.startswith(f'{host}@', autoescape=True)))
    if binary is not None:
        query = query.where(_services.c.binary == binary)
    with database.reader() as connection:
        return [_record(row, row.up) for row in connection.execute(query)]


def all_heard(database: engine.Database, binary: str, down_after: float) -> bool:
    """Whether every enabled service of this name gives signs of life."""
    return all(service.up or service.disabled
               for service in list_all(database, down_after, binary=binary))


def get_by_host(database: engine.Database, binary: str, host: str,
                down_after: float) -> records.Service:
    """One service by its name.

    :raises ServiceNotFound: there is none
    """
    with database.reader() as connection:
        row = connection.execute(
            _with_up(down_after).where(*_named(binary, host))).one_or_none()
    if row is None:
        raise errors.ServiceNotFound(binary=binary, host=host)
    return _record(row, row.up)


def is_up(database: engine.Database, binary: str, host: str, down_after: float) -> bool:
    """Whether a service gave a sign of life lately; False for one that nobody knows."""
    try:
        return get_by_host(database, binary, host, down_after).up
    except errors.ServiceNotFound:
        return False


@engine.retried
def set_disabled(database: engine.Database, binary: str, host: str, disabled: bool,
                 reason: str | None = None) -> None:
    """Take a service out of use, or back into use, which forgets the reason.

    :raises ServiceNotFound: there is none
    """
    with database.writer() as connection:
        done = connection.execute(_services.update().where(*_named(binary, host)).values(
            disabled=disabled, disabled_reason=reason if disabled else None,
            updated_at=database.clock.utcnow()))
        if done.rowcount != 1:
            raise errors.ServiceNotFound(binary=binary, host=host)
    LOG.info('Service is enabled or disabled%s',
             log.fields(binary=binary, host=host, disabled=disabled))


def _named(binary: str, host: str) -> tuple[sa.ColumnElement[bool], ...]:
    return _services.c.binary == binary, _services.c.host == host


def _with_up(down_after: float) -> sa.Select[Any]:
    return sa.select(_services, (_services.c.reported_at >= clock.now(-down_after)).label('up'))


def _record(row: sa.Row[Any], up: bool) -> records.Service:
    return records.Service(
        id=row.id, uuid=row.uuid, binary=row.binary, host=row.host,
        availability_zone=row.availability_zone, disabled=row.disabled,
        disabled_reason=row.disabled_reason, updated_at=row.reported_at, up=bool(up))


class Presence:
    """A running service's own row: written at its start, and again at each sign of life."""

    def __init__(self, database: engine.Database, binary: str, host: str,
                 availability_zone: str) -> None:
        self._database = database
        self._binary = binary
        self._host = host
        self._availability_zone = availability_zone
        self.incarnation = uuid.uuid4().hex
        """Names this life of the process: what another life owns is orphaned."""
        self._service_id: int | None = None

    def beat(self) -> None:
        """Give a sign of life; a service that was removed registers anew."""
        if self._service_id is None or not heartbeat(self._database, self._service_id):
            self._service_id = register(self._database, self._binary, self._host,
                                        self._availability_zone, self.incarnation).id
