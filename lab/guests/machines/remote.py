"""Commands in a running guest, executed by its agent."""
import dataclasses
import json
import socket
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

from blockattach.platform import clock as clocks
from lab.guests.machines import agent

# Called with output while the command runs: the stream ('o' or 'e') and the bytes.
Listener = Callable[[str, bytes], None]

_CONNECT_TIMEOUT = 30.0
# Seconds between checks of the guest while the command writes nothing.
_LOOK_INTERVAL = 0.5


class LabError(Exception):
    """Failed operation of the lab."""


class CommandFailed(LabError):
    """Command in a guest that ended with another code than 0.

    :ivar done: result of the command
    """

    def __init__(self, done: 'Done') -> None:
        super().__init__(f'{done.command} ended with {done.code}\n{done.output}{done.errors}')
        self.done = done


class CommandTimeout(LabError):
    """Command that did not end in time and was killed."""


class ConnectionLost(LabError):
    """Guest that ended while it executed a command."""


@dataclasses.dataclass(frozen=True)
class Done:
    """Result of a command that has ended. ``code`` is negative for a signal."""

    command: tuple[str, ...]
    code: int
    output: str
    errors: str


class Running:
    """Running command. Closing the connection before its end kills the command."""

    def __init__(self, address: str, command: Sequence[str], *, directory: str,
                 environment: Mapping[str, str], given: bytes,
                 fate: Callable[[], str | None]) -> None:
        """Start the command.

        :param fate: function that returns a message if the guest has ended, as a killed guest does
            not close its connections
        :raises ConnectionLost: if the agent cannot be reached
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
        """Wait for the end of the command, and kill the command after ``timeout`` seconds.

        :raises CommandTimeout: if the command did not end in time
        :raises ConnectionLost: if the guest ended
        """
        deadline = self._clock.monotonic() + timeout
        with self._socket:
            while (done := self._go_on(deadline, listener)) is None:
                pass
            return done

    def wait_until_it_says(self, words: str, timeout: float) -> None:
        """Wait until the output of a daemon contains a text. The daemon keeps running.

        :raises CommandFailed: if the daemon ended
        :raises CommandTimeout: if the text is missing after ``timeout`` seconds
        :raises ConnectionLost: if the guest ended
        """
        deadline = self._clock.monotonic() + timeout
        while words not in self.said('o'):
            if (done := self._go_on(deadline)) is not None:
                raise CommandFailed(done)

    def said(self, stream: str) -> str:
        """Return the received output of stream ``o`` or ``e``."""
        return b''.join(self._said[stream]).decode(errors='replace')

    def kill(self) -> None:
        """Kill the command and its children, and close the connection."""
        self._socket.close()

    def _go_on(self, deadline: float, listener: Listener | None = None) -> Done | None:
        """Read the next frame. Return the result if the command has ended, else None."""
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
            # The deadline also holds for a command that keeps writing.
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
                raise ConnectionLost(f'{self.command}: the agent closed the connection')
            got += part
        return bytes(got)

    def _so_far(self) -> str:
        return f'It said so far:\n{self.said("o")}{self.said("e")}'
