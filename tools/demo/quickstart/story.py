"""Story that `tools/quickstart` plays: one volume on three hosts, each with its own access mode.

The story uses the released openstacksdk for the API and QEMU's user-space iSCSI initiator for I/O.
It runs on a real `blockattach-all`, so it shows what a consumer sees.
"""
import contextlib
import threading
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from types import TracebackType
from typing import Any
from typing import NamedTuple

import openstack
from keystoneauth1 import exceptions as keystone_exceptions
from openstack import exceptions as openstack_exceptions

from blockattach.platform import clock
from blockattach.testing import initiator

TYPE = 'multiattach'
KIB = 1024
MIB = 1024 * KIB

# Data that A writes before other hosts attach, and data that A writes repeatedly.
FIRST = (0, 4 * MIB, 0xa1)
ONGOING_AT = 64 * MIB
ONGOING_PIECE = 64 * KIB
ONGOING_PIECES = 256
ONGOING_PATTERN = 0x5a

# Timeouts. The service usually responds much earlier.
API_SECONDS = 30
STATUS_SECONDS = 30
GOES_ON_SECONDS = 20
POLL_SECONDS = 0.1


class StoryFailed(Exception):
    """Raised if a step has an unexpected result."""


class Shown(NamedTuple):
    """Result of a step."""

    title: str
    text: str
    seconds: float


class Host:
    """Host of the story: its initiator, its attachment, and its iSCSI session."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.initiator = initiator.Initiator(f'iqn.2026-01.org.example:{name}')
        self.attachment: Any = None
        self._session: initiator.Session | None = None

    def connector(self) -> dict[str, Any]:
        """Return the connector that the host sends to attach."""
        return {'initiator': self.initiator.name, 'host': self.name, 'ip': '127.0.0.1',
                'platform': 'x86_64', 'os_type': 'linux', 'multipath': False}

    def log_in(self, read_only: bool = False) -> initiator.Session:
        """Open an iSCSI session with the connection information of the attachment."""
        self._session = self.initiator.open(self.attachment.connection_info, read_only=read_only)
        return self._session

    @property
    def session(self) -> initiator.Session:
        """Open iSCSI session."""
        assert self._session is not None
        return self._session

    def log_out(self) -> None:
        """Close the iSCSI session, if there is one."""
        if self._session is not None:
            session, self._session = self._session, None
            session.close()


class GoesOn:
    """Function that is repeated in a background thread during a ``with`` block."""

    def __init__(self, act: Callable[[int], object]) -> None:
        self.count = 0
        self._act = act
        self._failure: Exception | None = None
        self._over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> 'GoesOn':
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._over = True
        self._thread.join(GOES_ON_SECONDS)

    def further(self, times: int = 3) -> None:
        """Wait until the function has been called several times more.

        :raises StoryFailed: the function has raised an exception, or has not been called in time
        """
        with self._changed:
            wanted = self.count + times
            self._changed.wait_for(lambda: self.count >= wanted or self._failure is not None,
                                   GOES_ON_SECONDS)
            if self._failure is not None:
                raise StoryFailed(f'background I/O failed: {self._failure}')
            if self.count < wanted:
                raise StoryFailed(f'background I/O stopped after {self.count} operations')

    def _repeat(self) -> None:
        while not self._over:
            try:
                self._act(self.count)
            except Exception as exc:
                self._failure = exc
            with self._changed:
                self.count += self._failure is None
                self._changed.notify_all()
            if self._failure is not None:
                return


class Story:
    """Steps that build on each other, with a cleanup after a failed step."""

    def __init__(self, endpoint: str) -> None:
        cloud = openstack.connect(
            load_yaml_config=False, load_envvars=False, auth_type='none',
            auth={'endpoint': endpoint}, api_timeout=API_SECONDS)
        self._storage: Any = cloud.block_storage
        self._volume: Any = None
        self._a, self._b, self._c = Host('host-a'), Host('host-b'), Host('host-c')
        self.steps: tuple[tuple[str, Callable[[], str]], ...] = (
            ('Create a multiattach volume', self._create),
            ('Attach host A read-write, host B read-only', self._attach),
            ('Write on A over iSCSI', self._write),
            ('Read the data on B', self._read),
            ('Try to write on B', self._try_to_write),
            ('Attach host C while A is writing', self._join),
            ('Detach A while B is reading', self._leave),
            ('Detach all hosts', self._detach_all),
            ('Delete the volume', self._delete),
        )

    def clean(self) -> None:
        """Delete as much as possible of what a failed story has left."""
        for host in (self._a, self._b, self._c):
            with contextlib.suppress(Exception):
                host.log_out()
        if self._volume is None:
            return
        with contextlib.suppress(Exception):
            for attachment in self._storage.attachments(volume_id=self._volume.id):
                self._storage.delete_attachment(attachment)
        with contextlib.suppress(Exception):
            self._delete()

    def _create(self) -> str:
        self._volume = self._storage.create_volume(
            name='quickstart', size=1, volume_type=TYPE)
        self._volume = self._storage.wait_for_status(
            self._volume, 'available', interval=POLL_SECONDS, wait=STATUS_SECONDS)
        expect(self._volume.is_multiattach, 'the volume is not multiattach')
        return f'{self._volume.size} GiB of type {self._volume.volume_type}, available'

    def _attach(self) -> str:
        modes = (self._attach_host(self._a, 'rw'), self._attach_host(self._b, 'ro'))
        status = self._storage.get_volume(self._volume.id).status
        expect(status == 'in-use', f'the volume status is {status}')
        return f'mode of A: {modes[0]}, mode of B: {modes[1]}, volume status: {status}'

    def _attach_host(self, host: Host, mode: str) -> str:
        host.attachment = self._storage.create_attachment(
            self._volume.id, connector=host.connector(), attach_mode=mode,
            instance=str(uuid.uuid4()))
        self._storage.complete_attachment(host.attachment)
        shown = self._storage.get_attachment(host.attachment.id)
        expect(shown.status == 'attached',
               f'the status of the attachment of {host.name} is {shown.status}')
        access = str(shown.connection_info['access_mode'])
        expect(access == mode, f'the access mode of {host.name} is {access}')
        return access

    def _write(self) -> str:
        self._a.log_in().write(*FIRST)
        return f'{FIRST[1] // MIB} MiB written'

    def _read(self) -> str:
        expect(self._b.log_in(read_only=True).read(*FIRST), 'B read different data')
        return f'{FIRST[1] // MIB} MiB read, identical data'

    def _try_to_write(self) -> str:
        """Write in a session that is not opened read-only, so that only the target rejects it."""
        self._b.log_out()
        try:
            self._b.log_in().write(FIRST[0], FIRST[1], 0xb2)
        except initiator.WriteRefused:
            pass
        else:
            raise StoryFailed('the write on B succeeded')
        finally:
            self._b.log_out()
        expect(self._b.log_in(read_only=True).read(*FIRST), 'the data of A changed')
        return 'rejected by the target, data of A unchanged'

    def _join(self) -> str:
        writer = self._a.session
        with GoesOn(lambda number: writer.write(*_ongoing(number))) as writing:
            writing.further()
            self._attach_host(self._c, 'rw')
            session = self._c.log_in()
            expect(session.read(*FIRST), 'C read different data than A wrote before the attach')
            expect(session.read(*_ongoing(0)), 'C read different data than A is writing')
            writing.further()
        return f'C read identical data, A wrote {writing.count} times without errors'

    def _leave(self) -> str:
        reader, old = self._b.session, self._a.attachment
        with GoesOn(lambda number: expect(
                reader.read(*_ongoing(0)), 'B read different data')) as reading:
            reading.further()
            self._storage.delete_attachment(old.id, ignore_missing=False)
            self._a.log_out()
            try:
                self._a.log_in()
            except initiator.LoginRefused:
                pass
            else:
                raise StoryFailed('A logged in after the detach')
            reading.further()
        self._a.attachment = None
        return f'login of A rejected, B read {reading.count} times without errors'

    def _detach_all(self) -> str:
        for host in (self._b, self._c):
            host.log_out()
            self._storage.delete_attachment(host.attachment.id, ignore_missing=False)
            host.attachment = None
        status = self._storage.get_volume(self._volume.id).status
        expect(status == 'available', f'the volume status is {status}')
        return f'volume status: {status}'

    def _delete(self) -> str:
        self._storage.delete_volume(self._volume)
        self._storage.wait_for_delete(self._volume, interval=POLL_SECONDS, wait=STATUS_SECONDS)
        self._volume = None
        return 'volume deleted'


def play(story: Story, say: Callable[[str], None]) -> list[Shown]:
    """Play all steps.

    :raises StoryFailed: a step failed. The text names the step and the reason. The attachments and
        the volume of the story were deleted as far as possible
    """
    time = clock.Clock()
    shown: list[Shown] = []
    for number, (title, act) in enumerate(story.steps, 1):
        say(f'[{number}/{len(story.steps)}] {title}')
        begin = time.monotonic()
        try:
            text = act()
        except (StoryFailed, initiator.InitiatorError, openstack_exceptions.SDKException,
                keystone_exceptions.ClientException) as exc:
            story.clean()
            raise StoryFailed(f'{title}: {exc}') from exc
        except BaseException:
            story.clean()
            raise
        shown.append(Shown(title, text, time.monotonic() - begin))
        say(f'      {text}')
    return shown


def table(shown: list[Shown]) -> Iterator[str]:
    """Yield the lines of the table of steps."""
    first = max(len(row.title) for row in shown)
    second = max(len(row.text) for row in shown)
    rule = f'{"-" * first}  {"-" * second}  {"-" * 7}'
    yield from (f'{"step":<{first}}  {"result":<{second}}  seconds', rule)
    for row in shown:
        yield f'{row.title:<{first}}  {row.text:<{second}}  {row.seconds:7.2f}'
    yield rule
    yield f'{"":<{first}}  {"":<{second}}  {sum(row.seconds for row in shown):7.2f}'


def expect(fact: bool, otherwise: str) -> None:
    """Raise StoryFailed with a text unless a condition holds.

    :param fact: the condition
    :param otherwise: the text
    :raises StoryFailed: the condition does not hold
    """
    if not fact:
        raise StoryFailed(otherwise)


def _ongoing(number: int) -> tuple[int, int, int]:
    return (ONGOING_AT + number % ONGOING_PIECES * ONGOING_PIECE, ONGOING_PIECE, ONGOING_PATTERN)
