"""Execution of `tools/quickstart` after the installation: start the service, play the story."""
import argparse
import contextlib
import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable

from blockattach.platform import clock
from blockattach.platform.conf import core
from blockattach.testing import stack
from demo.quickstart import story

PORT = 8776
PORTS_TRIED = 100
ADDRESS = '127.0.0.1'
LOOK_SECONDS = 1.0

# Prefix of error lines of blockattach-all, and its error if another instance is running.
REFUSES = 'blockattach-all: '
IN_USE = 'another blockattach-all uses the state directory'

PROGRAMS = {'tgtd': 'tgt', 'qemu-io': 'qemu-utils and qemu-block-extra'}
# Debian installs daemons in directories that are not in the PATH of ordinary users.
SEARCH = os.pathsep.join((os.environ.get('PATH', os.defpath), '/usr/local/sbin', '/usr/sbin'))

HOW_TO_GO_ON = """
blockattach is serving at {endpoint}
  state  {state_dir}
  log    {log_path}

From another terminal:

  . {venv}/bin/activate
  export OS_AUTH_TYPE=none OS_ENDPOINT={endpoint}
  openstack volume create --type multiattach --size 1 v1
  openstack volume attachment direct create v1 --host host-a --mode ro \\
      --initiator iqn.2026-01.org.example:host-a
  openstack volume attachment tree

Ctrl-C stops the service and its tgtd. The data is kept for the next start."""


class CannotStart(Exception):
    """Raised if the service cannot start. The text is the reason with the remedy."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog='tools/quickstart')
    parser.add_argument('--state-dir', default=core.default_state_path())
    parser.add_argument('--port', type=int)
    parser.add_argument('--exit', action='store_true')
    return parser.parse_args(arguments)


def check_programs() -> None:
    """Check that the programs of the story are installed.

    :raises CannotStart: a program is missing
    """
    missing = [f'{program} (Debian: {packages})' for program, packages in PROGRAMS.items()
               if shutil.which(program, path=SEARCH) is None]
    if missing:
        raise CannotStart(f'missing programs: {", ".join(missing)}')


def free_port() -> int:
    """Return the usual port, or the next port on which no process listens.

    :raises CannotStart: all ports that were tried are in use
    """
    for port in range(PORT, PORT + PORTS_TRIED):
        with socket.socket() as probe, contextlib.suppress(OSError):
            # Use the same option as the server: a port with connections in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((ADDRESS, port))
            return port
    raise CannotStart(f'no free port from {PORT} on. Specify a port with --port')


def make_stack(options: argparse.Namespace) -> stack.Stack:
    """Return the service, which is not started.

    :raises CannotStart: the state directory cannot be used
    """
    state_dir = os.path.abspath(options.state_dir)
    log_path = os.path.join(state_dir, 'blockattach-all.log')
    try:
        os.makedirs(state_dir, mode=0o700, exist_ok=True)
        with open(log_path, 'a', encoding='utf-8'):
            pass
    except OSError as exc:
        raise CannotStart(f'cannot use {state_dir}: {exc.strerror}. Specify another directory '
                          'with --state-dir') from exc
    return stack.Stack('file', state_dir=state_dir, log_path=log_path,
                       port=free_port() if options.port is None else options.port)


def start(service: stack.Stack, options: argparse.Namespace) -> None:
    """Start the service, and print its port if it is not the usual one.

    :raises CannotStart: the service does not start
    """
    say('Starting blockattach-all')
    try:
        service.start()
    except stack.StackRefused as exc:
        raise CannotStart(refusal(exc.words, service.log_path)) from exc
    port = int(service.url.rpartition(':')[2])
    if options.port is None and port != PORT:
        say(f'Port {PORT} is in use, using port {port}')


def refusal(words: str, log_path: str) -> str:
    """Return the reason why the service did not start, with the remedy."""
    own = [line.removeprefix(REFUSES) for line in words.splitlines() if line.startswith(REFUSES)]
    reason = (own or words.splitlines() or ['unknown reason'])[-1]
    reason = reason.removeprefix('cannot start: ')
    if IN_USE in reason:
        return f'{reason}\nUse or stop that service, or specify another directory with --state-dir'
    return f'{reason}\nSee the log {log_path}'


def serve(options: argparse.Namespace) -> int:
    """Play the story, and then serve until a signal or, with ``--exit``, stop.

    :returns: exit status
    """
    service = make_stack(options)
    try:
        start(service, options)
        begin = clock.Clock().monotonic()
        shown = story.play(story.Story(service.endpoint), say)
        say('')
        for line in story.table(shown):
            say(line)
        say(f'\nThe demonstration took {clock.Clock().monotonic() - begin:.1f} s.')
        if options.exit:
            return 0
        return wait(service)
    finally:
        # A second Ctrl-C must not interrupt the removal.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        service.stop()
        service.remove()


def wait(service: stack.Stack) -> int:
    """Print instructions, and wait for a signal.

    :returns: exit status: 0 after a signal, 1 if the service has ended unexpectedly
    """
    say(HOW_TO_GO_ON.format(endpoint=service.endpoint, state_dir=service.state_dir,
                            log_path=service.log_path, venv=os.path.relpath(sys.prefix)))
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: over.set())
    while not clock.Clock().wait(over, LOOK_SECONDS):
        if not service.running():
            print(f'blockattach-all ended unexpectedly. See the log {service.log_path}',
                  file=sys.stderr)
            return 1
    say('\nStopping blockattach-all and its tgtd')
    return 0


def say(text: str) -> None:
    """Print a line and flush it."""
    print(text, flush=True)


def main(arguments: list[str]) -> int:
    """Run the command.

    :returns: exit status: 0 on success, 1 on failure, 130 if interrupted before the end of the
        story
    """
    options = parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    # A proxy in the environment of the caller cannot reach a service on loopback.
    os.environ['no_proxy'] = ','.join(filter(None, (os.environ.get('no_proxy'), ADDRESS)))
    def act() -> int:
        check_programs()
        return serve(options)

    return status(act, (CannotStart,))


def status(act: Callable[[], int], refusals: tuple[type[Exception], ...]) -> int:
    """Call a function, and return its exit status.

    :param refusals: exceptions that mean that the service cannot start
    :returns: 1 if the service cannot start or the story fails, 130 if interrupted
    """
    try:
        return act()
    except refusals as exc:
        print(f'Cannot start: {exc}', file=sys.stderr)
    except story.StoryFailed as exc:
        print(f'The demonstration failed at: {exc}', file=sys.stderr)
    except KeyboardInterrupt:
        print('Interrupted', file=sys.stderr)
        return 130
    return 1
