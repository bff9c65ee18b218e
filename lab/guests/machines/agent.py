"""Runs inside a guest and does what the lab says, a command a connection, many at once.

Asked is one line of JSON (`Request`), answered are frames: a letter (``o`` standard output, ``e``
standard error, ``x`` the exit code, ``f`` why it could not be started), the length in four bytes,
the bytes. A connection that is closed before the exit code kills the command and what it started.

It is a script of the standard library alone: a guest starts it before anything else.
"""
import contextlib
import json
import os
import selectors
import signal
import socketserver
import struct
import subprocess
import tempfile
from typing import TypedDict

PORT = 4000
# The line on the console that says so.
READY = b'lab: the agent listens'
HEADER = struct.Struct('>cI')


class Request(TypedDict):
    """A command; ``input`` is what it reads, in latin-1 so that any bytes pass."""

    command: list[str]
    directory: str
    environment: dict[str, str]
    input: str


class Command(socketserver.StreamRequestHandler):
    """One connection: start the command, hand on what it says, say how it ended."""

    def handle(self) -> None:
        line = self.rfile.readline()
        if not line:
            return
        try:
            process = _start(json.loads(line))
        except OSError as exc:
            self._answer(b'f', str(exc).encode())
            return
        with process, contextlib.suppress(ConnectionError):
            try:
                self._hand_on(process)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
            self._answer(b'x', str(process.wait()).encode())

    def _hand_on(self, process: 'subprocess.Popen[bytes]') -> None:
        """Until the command ends, or the connection does.

        A daemon that the command started may hold its output open for ever, so the end of the
        command counts, not the end of its output.
        """
        assert process.stdout is not None and process.stderr is not None
        pipes = {process.stdout.fileno(): b'o', process.stderr.fileno(): b'e'}
        ended = os.pidfd_open(process.pid)
        with os.fdopen(ended), selectors.DefaultSelector() as selector:
            for source in (self.connection.fileno(), ended, *pipes):
                selector.register(source, selectors.EVENT_READ)
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if self.connection.fileno() in ready:
                    return
                for pipe in ready & pipes.keys():
                    said = os.read(pipe, 65536)
                    if said:
                        self._answer(pipes[pipe], said)
                    else:
                        selector.unregister(pipe)
                        del pipes[pipe]
                # All that was said before the end is in the pipes by now: first empty them.
                if ready == {ended}:
                    return

    def _answer(self, letter: bytes, payload: bytes) -> None:
        self.connection.sendall(HEADER.pack(letter, len(payload)) + payload)


def _start(request: Request) -> 'subprocess.Popen[bytes]':
    with tempfile.TemporaryFile() as given:
        given.write(request['input'].encode('latin-1'))
        given.seek(0)
        return subprocess.Popen(
            request['command'], cwd=request['directory'], stdin=given, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
            env={**os.environ, **request['environment']})


class Server(socketserver.ThreadingTCPServer):
    """Hears on all addresses: what reaches a guest is the lab itself."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


if __name__ == '__main__':
    with Server(('', PORT), Command) as server:
        os.write(1, READY + b'\n')
        server.serve_forever()
