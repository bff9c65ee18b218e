"""Commands in a running guest, as its agent carries them out."""
import dataclasses
import json
import socket
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from blockattach.platform import clock as clocks
from lab.guests.machines import agent

# Takes what a command says while it says it: which stream ('o' or 'e'), and the bytes.
Listener = Callable[[str, bytes], None]

_CONNECT_TIMEOUT = 30.0
# How often a command that says nothing is looked after, in seconds.
_LOOK_INTERVAL = 0.5


class LabError(Exception):
    """The lab could not do what was asked; the text says what and where."""


class CommandFailed(LabError):
    """A command in a guest ended with another code than 0; ``done`` is all that is known of it."""

    def __init__(self, done: 'Done') -> None:
        super().__init__(f'{done.command} ended with {done.code}\n{done.output}{done.errors}')
        self.done = done


class CommandTimeout(LabError):
    """A command did not end in time, and was killed."""


class ConnectionLost(LabError):
    """The guest went while it carried out a command."""


@dataclasses.dataclass(frozen=True)
class Done:
    """A command that has ended, with what it wrote. ``code`` is negative for a signal."""

    command: tuple[str, ...]
    code: int
    output: str
    errors: str


class Running:
    """A command that runs; closed before its end, it is killed."""

    def __init__(self, address: str, command: Sequence[str], *, directory: str,
                 environment: Mapping[str, str], given: bytes,
                 fate: Callable[[], str | None]) -> None:
        """``fate`` says what became of a guest that has ended: it closes no connection.

        :raises ConnectionLost: there is no agent
        """
        self.command = tuple(command)
        self._fate = fate
        self._clock = clocks.Clock()
        self._said: dict[str, list[bytes]] = {'o': [], 'e': []}
        request: agent.Request = {'command': list(command), 'directory': directory,
                                  'environment': dict(environment),
                                  'input': given.decode('latin-1')}
        try:
            self._socket = socket.create_connection((address, agent.PORT), _CONNECT_TIMEOUT)
            self._socket.sendall(json.dumps(request).encode() + b'\n')
        except OSError as exc:
            raise ConnectionLost(f'{self.command}: {fate() or exc}') from exc

    def wait(self, timeout: float, listener: Listener | None = None) -> Done:
        """How it ended, after at most ``timeout`` seconds; then it is killed.

        :raises CommandTimeout: it did not end
        :raises ConnectionLost: the guest did
        """
        deadline = self._clock.monotonic() + timeout
        with self._socket:
            while (done := self._go_on(deadline, listener)) is None:
                pass
            return done

    def wait_until_it_says(self, words: str, timeout: float) -> None:
        """Wait until a daemon says that it serves, for at most ``timeout`` seconds; it goes on.

        :raises CommandFailed: it ended instead
        :raises CommandTimeout, ConnectionLost: as `wait`
        """
        deadline = self._clock.monotonic() + timeout
        while words not in self.said('o'):
            if (done := self._go_on(deadline)) is not None:
                raise CommandFailed(done)

    def said(self, stream: str) -> str:
        """What it has written to ``o`` or ``e`` as far as it has been read."""
        return b''.join(self._said[stream]).decode(errors='replace')

    def kill(self) -> None:
        """Kill it with all that it started, and forget it."""
        self._socket.close()

    def _go_on(self, deadline: float, listener: Listener | None = None) -> Done | None:
        """Read the next that it says; how it ended, if it has."""
        letter, payload = self._frame(deadline)
        if letter == 'x':
            return Done(self.command, int(payload), self.said('o'), self.said('e'))
        if letter == 'f':
            raise LabError(f'cannot start {self.command}: {payload.decode()}')
        self._said[letter].append(payload)
        if listener is not None:
            listener(letter, payload)
        return None

    def _frame(self, deadline: float) -> tuple[str, bytes]:
        letter, length = agent.HEADER.unpack(self._exactly(agent.HEADER.size, deadline))
        return letter.decode(), self._exactly(length, deadline)

    def _exactly(self, length: int, deadline: float) -> bytes:
        got = bytearray()
        self._socket.settimeout(_LOOK_INTERVAL)
        while len(got) < length:
            # A peer that goes on talking is waited for no longer than a silent one.
            if self._clock.monotonic() > deadline:
                raise CommandTimeout(f'{self.command} did not end in time. {self._so_far()}')
            try:
                part = self._socket.recv(length - len(got))
            except TimeoutError:
                fate = self._fate()
                if fate is not None:
                    raise ConnectionLost(f'{self.command}: {fate}\n{self._so_far()}') from None
                continue
            except OSError as exc:
                raise ConnectionLost(f'{self.command}: {exc}') from exc
            if not part:
                raise ConnectionLost(f'{self.command}: the agent has ended')
            got += part
        return bytes(got)

    def _so_far(self) -> str:
        return f'It said so far:\n{self.said("o")}{self.said("e")}'
