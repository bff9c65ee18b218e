"""Floor of the costs: requests of clients executed with nothing but HTTP, SQL and a call.

A WSGI application without a framework reads a request. It executes the durable transactions of the
request as plain statements of the database driver, and calls a manager over a persistent
connection. It writes the same rows and changes the same indexes as the service. It has no policy,
no check of the previous state, no retries and no logs. `bench.load` runs the same operations on
the floor as on the service. The manager is a program of its own::

    python -m bench.floor CONFIGURATION PORT
"""
import configparser
import json
import os
import pathlib
import socket
import socketserver
import struct
import sys
import threading
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

import orjson
import sqlalchemy as sa

from blockattach.storage.db import models

CONFIGURATION, MANAGER = 'FLOOR_CONFIGURATION', 'FLOOR_MANAGER'
"""Environment variables of the API: configuration file, and port of the manager."""
SCENARIOS = ('attach-cycle', 'reserve-cycle', 'show-volume', 'show-attachment')
_LENGTH = struct.Struct('>I')
_WAITING = 128
_CONNECTION = json.dumps({'driver_volume_type': 'iscsi', 'data': {
    'target_portal': '192.0.2.1:3260', 'target_lun': 1, 'target_discovered': False,
    'target_iqn': 'iqn.2010-10.org.openstack:volume-00000000-0000-4000-a000-000000000000'}})
_volumes, _rows, _grants = models.volumes, models.attachments, models.grants
_ROW: sa.BindParameter[str] = sa.bindparam('row')
_VOLUME: sa.BindParameter[str] = sa.bindparam('volume')
_NOW = sa.func.utc_timestamp(6)
_LATER = sa.func.timestampadd(sa.text('SECOND'), 60, _NOW)


def _take(status: str, rank: int) -> sa.Update:
    return sa.update(_volumes).where(_volumes.c.id == _VOLUME, _volumes.c.status == 'available',
                                     ).values(_of_volume(status, status, rank))


def _insert(**values: Any) -> sa.Insert:
    return sa.insert(_rows).values(
        id=_ROW, volume_id=_VOLUME, project_id=sa.bindparam('project'), generation=1, slot=0,
        instance_uuid=sa.bindparam('instance'), legacy_reservation=False, mode='rw',
        deleted=False, created_at=_NOW, **values)


def _grant(volume_id: Any) -> dict[str, Any]:
    return {'volume_id': volume_id, 'initiator': sa.bindparam('of_initiator'),
            'alias': sa.literal(''), 'username': sa.literal('0123456789abcdef'),
            'sealed_password': sa.literal('0' * 120), 'key_id': sa.literal('floor'),
            'created_at': _NOW}


def _of_volume(status: str, attach_status: str, rank: int | None) -> dict[Any, Any]:
    return {_volumes.c.status: status, _volumes.c.attach_status: attach_status,
            _volumes.c.lowest_rank: rank,
            _volumes.c.attachment_moves: _volumes.c.attachment_moves + 1}


def _move(of_volume: dict[Any, Any], **values: Any) -> sa.Update:
    """Return the statement that updates an attachment and its volume."""
    return sa.update(_volumes).where(
        _rows.c.id == _ROW, _volumes.c.id == _rows.c.volume_id).values({
            **of_volume, _rows.c.generation: _rows.c.generation + 1,
            _rows.c.updated_at: _NOW, **{_rows.c[name]: one for name, one in values.items()}})


_CONNECTING = {'state': 'connecting', 'rank': 2, 'owner': 'floor', 'deadline': _LATER,
               'connector': sa.bindparam('of_connector'), 'mountpoint': '/dev/vdb',
               'initiator': sa.bindparam('of_initiator'), 'host': sa.bindparam('of_host')}
_MADE = _grant(_rows.c.volume_id)
# Each entry is one transaction. Volume, attachment and grant are written in this order, which is
# the lock order of the service.
TRANSACTIONS: dict[str, tuple[sa.Executable, ...]] = {
    'attach': (_take('attaching', 2), _insert(**_CONNECTING),
               sa.insert(_grants).values(_grant(_VOLUME))),
    'reserve': (_take('reserved', 4), _insert(state='reserved', rank=4)),
    'update': (_move(_of_volume('attaching', 'attaching', 2), **_CONNECTING),
               sa.insert(_grants).from_select(list(_MADE), sa.select(
                   *_MADE.values()).where(_rows.c.id == _ROW))),
    'complete': (_move(_of_volume('in-use', 'attached', 1), state='attached', rank=1,
                       attached_at=_NOW),),
    'detach': (_move(_of_volume('detaching', 'detaching', 3), state='disconnecting', rank=3,
                     owner='floor', deadline=_LATER),),
}
"""Transactions of the API."""
MANAGED: dict[str, tuple[sa.Executable, ...]] = {
    # The status of the volume does not change.
    'connect': (sa.update(_rows).where(_rows.c.id == _ROW).values(
        state='connected', owner=None, deadline=None, connection=_CONNECTION, attached_at=_NOW,
        updated_at=_NOW, generation=_rows.c.generation + 1),),
    'disconnect': (
        _move(_of_volume('available', 'detached', None), state='gone', rank=None, slot=None,
              owner=None, deadline=None, deleted=True, deleted_at=_NOW, detached_at=_NOW),
        sa.delete(_grants).where(_rows.c.id == _ROW, _grants.c.volume_id == _rows.c.volume_id,
                                 _grants.c.initiator == _rows.c.initiator)),
}
"""Transactions of the manager."""
_SHOWN = {'volume': sa.select(_volumes).where(_volumes.c.id == _VOLUME),
          'of volume': sa.select(_rows).where(_rows.c.volume_id == _VOLUME,
                                              _rows.c.deleted == sa.false()),
          'attachment': sa.select(_rows).where(_rows.c.id == _ROW)}


class Statement:
    """SQL text for the driver, with the order of its values."""

    def __init__(self, dialect: sa.Dialect, built: Any) -> None:
        compiled = built.compile(dialect=dialect)
        self.text: str = compiled.string
        self._names: list[str] = compiled.positiontup or []
        self._fixed = compiled.params

    def values(self, given: dict[str, Any]) -> list[Any]:
        """Return the values in the order of the text."""
        return [given.get(name, self._fixed[name]) for name in self._names]


class Ground:
    """Database of a configuration file, with all statements compiled once."""

    def __init__(self, configuration: str) -> None:
        read = configparser.ConfigParser(interpolation=None, strict=False)
        read.read_string(pathlib.Path(configuration).read_text('utf-8'))
        url = sa.make_url(read['database']['connection']).update_query_dict(
            {'charset': 'utf8mb4'})
        kind: Any = url.get_dialect()
        self._driver = kind.import_dbapi()
        dialect = kind(dbapi=self._driver, paramstyle='format')
        self._arguments, self._options = dialect.create_connect_args(url)
        self.transactions = {name: tuple(Statement(dialect, one) for one in statements)
                             for name, statements in {**TRANSACTIONS, **MANAGED}.items()}
        self.looks = {name: Statement(dialect, one) for name, one in _SHOWN.items()}

    def connect(self) -> Any:
        """Return a connection with autocommit, on which a single statement is a transaction."""
        made = self._driver.connect(*self._arguments, **self._options)
        made.autocommit(True)
        return made


class Rows(threading.local):
    """Database connection of a thread."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._cursor = ground.connect().cursor()

    def run(self, transaction: str, **given: Any) -> None:
        """Execute a transaction.

        :param given: values of the statements
        :raises LookupError: a statement matches no row. Nothing was changed
        """
        statements = self._ground.transactions[transaction]
        if len(statements) > 1:
            self._cursor.execute('START TRANSACTION')
        for one in statements:
            if not self._cursor.execute(one.text, one.values(given)):
                self._cursor.execute('ROLLBACK')
                raise LookupError(transaction)
        if len(statements) > 1:
            self._cursor.execute('COMMIT')

    def look(self, query: str, **given: Any) -> list[dict[str, Any]]:
        """Return the rows of a query as dictionaries."""
        one = self._ground.looks[query]
        self._cursor.execute(one.text, one.values(given))
        names = [column[0] for column in self._cursor.description]
        return [dict(zip(names, row, strict=True)) for row in self._cursor.fetchall()]


class Calls(threading.local):
    """Connection of a thread to the manager."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(('127.0.0.1', port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile('rb')

    def call(self, verb: str, row: str) -> Any:
        """Call the manager, and return its result."""
        self._socket.sendall(_message({'verb': verb, 'row': row}))
        return _heard(self._answers)


def _message(content: Any) -> bytes:
    body = orjson.dumps(content)
    return _LENGTH.pack(len(body)) + body


def _heard(stream: Any) -> Any:
    """Return the next message of a stream.

    :raises EOFError: the stream has ended
    """
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    return orjson.loads(stream.read(*_LENGTH.unpack(head)))


class Application:
    """WSGI application of the API.

    Requests that are unknown or fail raise an error in the WSGI server.
    """

    def __init__(self, ground: Ground, manager: int) -> None:
        self._rows = Rows(ground)
        self._calls = Calls(manager)
        self._handlers: dict[tuple[str, str, int], Callable[..., tuple[str, Any]]] = {
            ('POST', 'attachments', 0): self._create, ('PUT', 'attachments', 1): self._update,
            ('POST', 'attachments', 2): self._complete, ('DELETE', 'attachments', 1): self._delete,
            ('GET', 'volumes', 1): self._volume, ('GET', 'attachments', 1): self._attachment}

    def __call__(self, environ: dict[str, Any],
                 start_response: Callable[[str, list[tuple[str, str]]], Any]) -> Iterable[bytes]:
        _, _, project, noun, *ids = environ['PATH_INFO'].split('/')
        length = int(environ.get('CONTENT_LENGTH') or 0)
        body = orjson.loads(environ['wsgi.input'].read(length)) if length else None
        status, answer = self._handlers[environ['REQUEST_METHOD'], noun, len(ids)](
            body, project, *ids)
        data = b'' if answer is None else orjson.dumps(answer)
        start_response(status, [('Content-Type', 'application/json'),
                                ('Content-Length', str(len(data)))])
        return [data]

    def _create(self, body: Any, project: str) -> tuple[str, Any]:
        wanted, row = body['attachment'], str(uuid.uuid4())
        given = {'row': row, 'volume': wanted['volume_uuid'], 'project': project,
                 'instance': wanted['instance_uuid']}
        if 'connector' not in wanted:
            self._rows.run('reserve', **given)
            return '200 OK', {'attachment': {'id': row, 'status': 'reserved'}}
        self._rows.run('attach', **given, **_connecting(wanted['connector']))
        return self._connected(row)

    def _update(self, body: Any, project: str, row: str) -> tuple[str, Any]:
        self._rows.run('update', row=row, **_connecting(body['attachment']['connector']))
        return self._connected(row)

    def _connected(self, row: str) -> tuple[str, Any]:
        return '200 OK', {'attachment': {'id': row, 'status': 'attaching',
                                         **self._calls.call('connect', row)}}

    def _complete(self, body: Any, project: str, row: str, action: str) -> tuple[str, Any]:
        self._rows.run('complete', row=row)
        return '204 No Content', None

    def _delete(self, body: Any, project: str, row: str) -> tuple[str, Any]:
        self._rows.run('detach', row=row)
        self._calls.call('disconnect', row)
        return '200 OK', {'attachments': []}

    def _volume(self, body: Any, project: str, volume: str) -> tuple[str, Any]:
        return '200 OK', {'volume': {**self._rows.look('volume', volume=volume)[0],
                                     'attachments': self._rows.look('of volume', volume=volume)}}

    def _attachment(self, body: Any, project: str, row: str) -> tuple[str, Any]:
        return '200 OK', {'attachment': self._rows.look('attachment', row=row)[0]}


def _connecting(connector: dict[str, Any]) -> dict[str, Any]:
    return {'of_connector': orjson.dumps(connector).decode(), 'of_host': connector['host'],
            'of_initiator': connector['initiator']}


def build() -> Application:
    """Return the WSGI application, configured by the environment."""
    return Application(Ground(os.environ[CONFIGURATION]), int(os.environ[MANAGER]))


def manage(ground: Ground, port: int) -> None:
    """Serve calls until the process is stopped, with a thread for each connection."""
    rows = Rows(ground)

    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True

        def handle(self) -> None:
            while True:
                try:
                    asked = _heard(self.rfile)
                except EOFError:
                    return
                rows.run(asked['verb'], row=asked['row'])
                self.wfile.write(_message({'connection_info': _CONNECTION}))

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = _WAITING

    with Server(('127.0.0.1', port), Handler) as server:
        print('ready', flush=True)
        server.serve_forever()


if __name__ == '__main__':
    manage(Ground(sys.argv[1]), int(sys.argv[2]))
