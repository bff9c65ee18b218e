"""Streams of attachment events as server-sent events, served by one thread.

The thread reads the events in the order of the positions that
`blockattach.storage.db.attachments.history` assigns. The id of an event on a stream is its
position. A client that resumes after the id of its last event (``Last-Event-ID``) therefore misses
no event, even if another process serves the new stream. Streams that have received all events that
the thread has read get new events at once. Other streams get one page of the history at a time.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""
import contextlib
import functools
import logging
import os
import select
import threading
from collections.abc import Callable
from typing import Any

from oslo_db import exception as db_exception

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform.http import streams
from blockattach.platform.log import fields
from blockattach.platform.webserver import loop
from blockattach.storage.conf import watch as watch_conf
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import history
from blockattach.storage.domain import records

LOG = logging.getLogger(__name__)

_COMMENT = b':\n\n'
_LAST_SECONDS = 30.0
"""Seconds from the last event of a stream until its connection is closed.

The connection is closed even if the client has not read the event.
"""
_READABLE = select.EPOLLIN | select.EPOLLRDHUP


def frame(event: str, data: bytes, position: int | None = None) -> bytes:
    """Return an event encoded as a server-sent event.

    :param event: type of the event
    :param data: data of the event, without line feeds
    :param position: id of the event; None for an event without id
    """
    name = b'' if position is None else b'id: %d\n' % position
    return b'%sevent: %s\ndata: %s\n\n' % (name, event.encode(), data)


def matches(filters: attachment_queries.Filters, event: records.AttachmentEvent) -> bool:
    """Return True if an event matches the filters of a stream."""
    return all(expected in (None, value) for expected, value in (
        (filters.project_id, event.project_id), (filters.volume_id, event.volume_id),
        (filters.instance_uuid, event.instance_uuid), (filters.host, event.host),
        (filters.attachment_id, event.attachment_id)))


class _Stream:
    """Stream to one client: its connection, its position and the queued data.

    :ivar position: position of the last event that the stream has got from the history
    :ivar until: monotonic time at which the last event is queued; if ``ends`` is True, monotonic
        time at which the connection is closed
    :ivar ends: True if the last event has been queued
    :ivar waits: True if the send buffer of the socket is full
    """

    def __init__(self, connection: loop.Connection, watch: streams.Watch, until: float) -> None:
        self.connection = connection
        self.wanted = watch.wanted
        self.position = watch.after
        self.until = until
        self.ends = False
        self.waits = False
        self._parts: list[bytes] = []
        self._size = 0

    def put(self, data: bytes, most: int) -> bool:
        """Queue data to send. Return False if more than ``most`` bytes are queued then."""
        self._parts.append(data)
        self._size += len(data)
        return self._size <= most

    @property
    def idle(self) -> bool:
        """True if all queued data was sent."""
        return not (self._parts or self.waits)

    def send(self) -> bool:
        """Send queued data until the send buffer is full. Return True if all data was sent.

        :raises OSError: if the connection is lost
        """
        while self.waits or self._parts:
            if not self.waits:
                self.connection.answer(b''.join(self._parts), closes=False, leaves=False)
                self._parts = []
                self._size = 0
            self.waits = not self.connection.write()
            if self.waits:
                return False
        return True


class Hub:
    """All streams of a process, and the thread that serves them.

    The thread reads the history only while there are streams.
    """

    def __init__(self, database: storage_db.Database, settings: watch_conf.WatchSettings,
                 render: Callable[[records.AttachmentEvent], bytes],
                 clock: clocks.Clock) -> None:
        """
        :param render: function that returns an event as JSON
        """
        self._database = database
        self._settings = settings
        self._render = render
        self._clock = clock
        self._poll = select.epoll()
        # Ends the wait of the thread when a connection arrives, or when `stop` is called.
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll.register(self._wake, select.EPOLLIN)
        # Other threads add to `_arriving` and set `_ending` under the lock. Only the thread itself
        # changes the other attributes, so they need no lock.
        self._arriving: list[_Stream] = []
        self._lock = threading.Lock()
        self._streams: dict[int, _Stream] = {}
        # Streams that have reached the position of the thread, by the volume in their filters.
        self._live: dict[str | None, set[_Stream]] = {}
        self._behind: set[_Stream] = set()
        self._position = 0
        self._next_look = self._next_beat = 0.0
        self._fails = False
        self._ending = False
        self._thread = threading.Thread(target=self._run, name='watch', daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End every stream with an event that gives the reason, and stop the thread."""
        with self._lock:
            self._ending = True
            os.eventfd_write(self._wake, 1)
        if self._thread.ident is not None:
            self._thread.join()
        self._poll.close()
        os.close(self._wake)

    def count(self) -> int:
        return len(self._streams) + len(self._arriving)

    def offer(self, environ: dict[str, Any]) -> None:
        """Allow the WSGI application to answer a request with a stream."""
        environ[streams.HUB] = self

    def admit(self) -> None:
        """Check that the process may serve another stream.

        :raises QueueFull: if the maximum number of streams is reached, or the hub is stopping
        """
        if self._ending or self.count() >= self._settings.most_watchers:
            raise errors.QueueFull()

    def take(self, connection: loop.Connection, head: bytes, watch: streams.Watch) -> None:
        """Serve a stream on a connection, which no other thread may use any more.

        :param head: head of the HTTP response
        """
        stream = _Stream(connection, watch,
                         self._clock.monotonic() + self._settings.longest_seconds)
        first = frame('missed', b'{"reason":"removed"}') if watch.missed else b''
        stream.put(head + first + frame('ready', b'{}', watch.after), self._settings.buffer_bytes)
        with self._lock:
            # The thread may have taken its last connections already.
            if self._ending:
                connection.close()
                return
            self._arriving.append(stream)
            os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        while not self._ending:
            events = self._poll.poll(self._seconds())
            self._admit_arriving()
            for number, happened in events:
                stream = self._streams.get(number)
                if stream is not None:
                    self._guard(stream, functools.partial(self._on, happened=happened))
            if not self._streams:
                continue
            now = self._clock.monotonic()
            if now >= self._next_look:
                self._next_look = now + self._settings.poll_seconds
                self._look()
                if not self._fails and any(stream.idle for stream in self._behind):
                    # Streams that are behind get the next page as soon as the last page is sent.
                    # New events are sent to the other streams in between.
                    self._next_look = now
                self._tend(now)
        # Connections that arrived before `stop` get the last event as well.
        self._admit_arriving()
        for stream in list(self._streams.values()):
            self._guard(stream, functools.partial(self._end, reason='stopping'))
            self._close(stream)

    def _seconds(self) -> float | None:
        """Return the seconds until the history is read next; None if there are no streams."""
        if not self._streams:
            return None
        return min(max(self._next_look - self._clock.monotonic(), 0.0),
                   self._settings.poll_seconds)

    def _admit_arriving(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        with self._lock:
            arriving, self._arriving = self._arriving, []
        for stream in arriving:
            number = stream.connection.number
            self._streams[number] = stream
            self._behind.add(stream)
            self._poll.register(number, _READABLE)
            self._guard(stream, self._flush)

    def _guard(self, stream: _Stream, act: Callable[[_Stream], None]) -> None:
        """Call ``act`` with a stream. If the call fails, only this stream is closed.

        A failure of the database is raised, because it is not a failure of the stream.
        """
        try:
            act(stream)
        except OSError as exc:
            LOG.debug('Lost the connection to a client%s', fields(reason=exc))
            self._close(stream)
        except (errors.BlockattachError, db_exception.DBError):
            # The database failed, which is no reason to end this stream.
            raise
        except Exception:
            LOG.exception('Failed to serve watch stream')
            self._close(stream)

    def _on(self, stream: _Stream, happened: int) -> None:
        if happened & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
            self._close(stream)
        elif happened & select.EPOLLIN and not stream.connection.skip():
            # The client has closed its side. Data that it sends after the request is ignored.
            self._close(stream)
        else:
            self._flush(stream)

    def _look(self) -> None:
        """Read new events, and send them to the streams."""
        try:
            # Events have no position until a process that reads them assigns one.
            while history.number(self._database):
                pass
            if not self._live:
                # Streams that are behind read the history themselves, in _catch_up.
                self._position = history.positions(self._database)[1]
            while found := history.after(self._database, self._position):
                for event in found:
                    self._hand_on(event)
            for stream in list(self._behind):
                self._guard(stream, self._catch_up)
            self._fails = False
        except (errors.BlockattachError, db_exception.DBError) as exc:
            # Logged once for each outage, since the thread tries again after `poll_seconds`.
            if not self._fails:
                LOG.warning('Failed to read attachment events, will retry%s',
                            fields(reason=exc))
            self._fails = True

    def _hand_on(self, event: records.AttachmentEvent) -> None:
        assert event.position is not None
        self._position = event.position
        # The event is rendered once for all streams, and only if any stream gets it.
        data = None
        for key in (event.volume_id, None):
            for stream in list(self._live.get(key, ())):
                # A stream starts after the last event that existed when the stream was requested.
                # The thread may not have read this event yet.
                if event.position > stream.position and matches(stream.wanted, event):
                    data = data or self._framed(event)
                    self._guard(stream, functools.partial(self._send, data=data))

    def _catch_up(self, stream: _Stream) -> None:
        """Send the next page of the history to a stream that is behind.

        Nothing is sent before the client has received the previous page.
        """
        if stream.idle and stream.position < self._position:
            page = history.after(self._database, stream.position)
            for event in page:
                assert event.position is not None
                stream.position = event.position
                if matches(stream.wanted, event):
                    stream.put(self._framed(event), self._settings.buffer_bytes)
            if not page:
                stream.position = self._position
            self._flush(stream)
        if stream.idle and not stream.ends and stream.position >= self._position:
            self._behind.discard(stream)
            self._live.setdefault(stream.wanted.volume_id, set()).add(stream)

    def _framed(self, event: records.AttachmentEvent) -> bytes:
        return frame('attachment', self._render(event), event.position)

    def _send(self, stream: _Stream, data: bytes) -> None:
        if stream.ends:
            return
        if stream.put(data, self._settings.buffer_bytes):
            self._flush(stream)
        else:
            self._end(stream, 'slow')

    def _end(self, stream: _Stream, reason: str) -> None:
        """Queue the last event of a stream. The client reads further events on a new stream.

        :param reason: reason that the last event gives to the client
        """
        stream.ends = True
        self._leave(stream)
        stream.until = self._clock.monotonic() + _LAST_SECONDS
        stream.put(frame('end', b'{"reason":"%s"}' % reason.encode()),
                   self._settings.buffer_bytes)
        self._flush(stream)

    def _flush(self, stream: _Stream) -> None:
        waited = stream.waits
        sent = stream.send()
        if sent and stream.ends:
            self._close(stream)
        elif sent is waited:
            # Called only if the stream starts or stops waiting, to save a system call per event.
            self._poll.modify(stream.connection.number,
                              _READABLE | (0 if sent else stream.connection.waits_for))

    def _tend(self, now: float) -> None:
        """End old streams, and send heartbeats on all other streams.

        Streams end so that clients must authenticate again for a new stream.
        """
        for stream in [stream for stream in self._streams.values() if stream.until <= now]:
            self._guard(stream, self._close if stream.ends
                        else functools.partial(self._end, reason='renew'))
        if now >= self._next_beat:
            self._next_beat = now + self._settings.heartbeat_seconds
            for stream in list(self._streams.values()):
                self._guard(stream, functools.partial(self._send, data=_COMMENT))

    def _leave(self, stream: _Stream) -> None:
        self._behind.discard(stream)
        live = self._live.get(stream.wanted.volume_id)
        if live is not None:
            live.discard(stream)
            if not live:
                del self._live[stream.wanted.volume_id]

    def _close(self, stream: _Stream) -> None:
        self._leave(stream)
        if self._streams.pop(stream.connection.number, None) is not None:
            stream.connection.close()
