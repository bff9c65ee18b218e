"""Agent inside a guest, which executes one command per connection, several at a time.

A request is a line of JSON (`Request`). The response consists of frames: a letter (``o`` standard
output, ``e`` standard error, ``x`` exit code, ``f`` reason why the command could not be started),
the length in four bytes, and the bytes. Closing the connection before the exit code kills the
command and its children.

The script only uses the standard library, since it is the first process that the guest starts.
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
# Line on the console when the agent is ready.
READY = b'lab: the agent listens'
HEADER = struct.Struct('>cI')


class Request(TypedDict):
    """Command to execute. ``input`` is its standard input, in latin-1 to allow any bytes."""

    command: list[str]
    directory: str
    environment: dict[str, str]
    input: str


class Command(socketserver.StreamRequestHandler):
    """Handler of a connection, which executes a command and sends its output and exit code."""

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
        """Forward output until the command ends or the connection is closed.

        The end of output is not awaited, since a daemon started by the command may keep the pipe
        open.
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
                # All output before the end is in the pipes by now. Read it before returning.
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
    """Server on all addresses. Only the lab can reach the guest."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


if __name__ == '__main__':
    with Server(('', PORT), Command) as server:
        os.write(1, READY + b'\n')
        server.serve_forever()
