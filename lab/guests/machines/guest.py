"""Guest with User-Mode Linux on the root file system of the machine, and its own disks and links.

    disk = guest.make_disk(units.gib_to_bytes(4))
    with guest.Guest('storage', disks=[disk], modules=guest.STORAGE) as storage:
        storage.start()
        storage.run('vgcreate', 'lab', storage.device(0))
        storage.power_cut()
        storage.start()
        storage.run('vgchange', '-ay', 'lab')

Files that a guest writes are in its memory, except on its disks and in the shared directory.
Guests only work inside ``lab/guests/enclose``.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
from typing import Any
from typing import Self

import blockattach
from blockattach.platform import clock as clocks
from lab.guests.machines import console as consoles
from lab.guests.machines import links
from lab.guests.machines import remote

# Kernel modules of storage hosts and of initiators.
STORAGE = ('dm-thin-pool', 'dm-snapshot', 'target_core_iblock', 'target_core_file',
           'iscsi_target_mod')
INITIATOR = ('iscsi_tcp', 'sd_mod', 'sg', 'dm-multipath')

# Seconds, longer than a busy machine needs.
START_TIMEOUT = 60.0
COMMAND_TIMEOUT = 60.0
_END_TIMEOUT = 30.0
_TICK = 0.1

_HERE = pathlib.Path(__file__).parent
_CHECKOUT = pathlib.Path(blockattach.__file__).parent.parent
_PROGRAMS = ('linux.uml', 'gcc', 'ip', 'busybox', 'modprobe')


def missing() -> str | None:
    """Return the reason why guests are unavailable, or None."""
    if os.geteuid() != 0:
        return 'the lab needs root'
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            return f'the lab needs {program} (bindep.txt, profile lab)'
    return None if is_enclosed() else 'the lab runs inside lab/guests/enclose, see tools/run-lab'


def is_enclosed() -> bool:
    """Return True in a process in the namespaces that ``lab/guests/enclose`` creates."""
    return 'BLOCKATTACH_LAB' in os.environ


def make_disk(size: int) -> str:
    """Create a sparse disk image of ``size`` bytes and return its path."""
    descriptor, path = tempfile.mkstemp(prefix='disk-')
    with os.fdopen(descriptor, 'wb') as file:
        file.truncate(size)
    return path


def start_all(*guests: 'Guest') -> None:
    """Start several guests in parallel."""
    with futures.ThreadPoolExecutor() as pool:
        for started in [pool.submit(guest.start) for guest in guests]:
            started.result()


class Guest:
    """Machine that can be started and stopped repeatedly. Its disks and addresses stay the same.
    """

    def __init__(self, name: str, *, memory: str = '512M', disks: Sequence[str] = (),
                 link_count: int = 1, modules: Sequence[str] = (), udev: bool = False,
                 shared: str | None = None) -> None:
        """
        :param disks: paths of disk images
        :param shared: directory that the guest sees as ``/results``
        """
        self.name = name
        self._memory = memory
        self._disks = tuple(disks)
        self._modules = tuple(modules)
        self._udev = udev
        self._shared = shared
        self._clock = clocks.Clock()
        self._process: subprocess.Popen[bytes] | None = None
        self._console: consoles.Console | None = None
        self.links = links.Links(link_count)

    @property
    def address(self) -> str:
        """Address on link 0."""
        return self.links.addresses[0]

    def device(self, disk: int) -> str:
        """Return the path in the guest of a disk, by its index."""
        return f'/dev/ubd{"abcdefgh"[disk]}'

    def start(self, timeout: float = START_TIMEOUT) -> None:
        """Start the guest and wait until it accepts commands.

        :raises remote.LabError: if the guest ends or hangs, with its console output
        """
        assert self._process is None, f'{self.name} is on'
        reading, writing = os.pipe()
        self._console = consoles.Console(os.fdopen(reading, 'rb'))
        try:
            self._process = subprocess.Popen(
                self._command(writing), stdin=subprocess.DEVNULL, stdout=writing,
                stderr=writing, pass_fds=[writing], start_new_session=True,
                env={**os.environ, 'LD_PRELOAD': _shim()})
        finally:
            os.close(writing)
        if not self._console.wait_until_ready(timeout):
            self.power_cut()
            raise remote.LabError(f'cannot start: {self.fate()}')

    def run(self, *command: str, timeout: float = COMMAND_TIMEOUT, check: bool = True,
            given: bytes = b'', directory: str = '/',
            environment: Mapping[str, str] | None = None,
            listener: remote.Listener | None = None) -> remote.Done:
        """Run a command and wait for its end.

        :param given: standard input of the command
        :raises remote.CommandFailed: if the exit code is not 0 and ``check`` is true
        :raises remote.CommandTimeout: if the command did not end in time and was killed
        :raises remote.ConnectionLost: if the guest ended
        """
        running = self.spawn(*command, given=given, directory=directory, environment=environment)
        done = running.wait(timeout, listener)
        if check and done.code:
            raise remote.CommandFailed(done)
        return done

    def spawn(self, *command: str, given: bytes = b'', directory: str = '/',
              environment: Mapping[str, str] | None = None) -> remote.Running:
        """Start a command without waiting for its end."""
        programs = os.path.dirname(sys.executable)
        own = {'PATH': f'{programs}:/usr/sbin:/usr/bin:/sbin:/bin',
               'PYTHONPATH': str(_CHECKOUT)}
        return remote.Running(self.address, command, directory=directory, given=given,
                              environment={**own, **(environment or {})}, fate=self.fate)

    def wait_for(self, *command: str, timeout: float = COMMAND_TIMEOUT) -> remote.Done:
        """Repeat a command until its exit code is 0.

        :raises remote.CommandFailed: if the timeout expires
        """
        never = threading.Event()
        deadline = self._clock.monotonic() + timeout
        while (done := self.run(*command, check=False)).code:
            if self._clock.monotonic() > deadline:
                raise remote.CommandFailed(done)
            self._clock.wait(never, _TICK)
        return done

    def call(self, function: Callable[..., Any], *arguments: Any,
             timeout: float = COMMAND_TIMEOUT) -> Any:
        """Call a function of a module in the guest. Arguments and result are encoded as JSON.

        :raises remote.CommandFailed: if the function raises, with the traceback
        """
        asked = {'module': function.__module__, 'name': function.__name__,
                 'arguments': arguments}
        done = self.run('python', '-m', 'lab.guests.machines.call',
                        given=json.dumps(asked).encode(), timeout=timeout)
        return json.loads(done.output.splitlines()[-1])

    def fate(self) -> str | None:
        """Return None if the guest is running, else a message with the end of its console output.
        """
        if self._process is not None and self._process.poll() is None:
            return None
        return f'{self.name} is off; its console:\n{self.console()}'

    def console(self) -> str:
        """Return the last lines of the console since the start."""
        return self._console.text() if self._console is not None else ''

    def stop(self) -> None:
        """Shut the guest down. All data is written to its disks.

        :raises remote.LabError: if the guest does not end
        """
        assert self._console is not None, f'{self.name} is off'
        last = self.spawn('sh', '-c', 'sync; busybox poweroff -f')
        self._console.wait_until_closed(_END_TIMEOUT)
        last.kill()
        self.power_cut()

    def power_cut(self) -> None:
        """Kill the guest like a power loss. A stopped guest is left alone."""
        if self._process is None:
            return
        assert self._console is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        # Disks and taps can be reused when the last process of the guest has ended.
        self._console.wait_until_closed(_END_TIMEOUT)
        self._process = None

    def close(self) -> None:
        """Kill the guest and remove its links. Disk images are kept."""
        self.power_cut()
        self.links.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _command(self, console: int) -> list[str]:
        variables = {'NAME': self.name, 'ADDRESSES': ' '.join(self.links.addresses),
                     'ADDRESSES6': ' '.join(self.links.addresses6),
                     'MODULES': ' '.join(self._modules), 'UDEV': str(int(self._udev)),
                     'SHARED': self._shared or '', 'PYTHON': sys.executable,
                     'AGENT': str(_HERE / 'agent.py')}
        return ['linux.uml', f'mem={self._memory}', 'root=/dev/root', 'rootfstype=hostfs',
                'rootflags=/', 'ro', f'init={_HERE / "init.sh"}', 'con=null',
                f'con0=null,fd:{console}', 'quiet', 'panic=-1', 'noreboot',
                f'uml_dir={tempfile.gettempdir()}/',
                *(f'ubd{number}={path}' for number, path in enumerate(self._disks)),
                *(f'vec{number}:transport=tap,ifname={tap},depth=64,gro=1'
                  for number, tap in enumerate(self.links.taps)),
                *(f'LAB_{name}="{value}"' for name, value in variables.items())]


def _shim() -> str:
    """Return the library that the kernel of a guest needs, compiled once. Its source explains why.
    """
    path = os.path.join(tempfile.gettempdir(), 'ptrace_shim.so')
    if not os.path.exists(path):
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, 'shim.so')
            subprocess.run(['gcc', '-O2', '-Wall', '-shared', '-fPIC', '-o', made,
                            str(_HERE / 'ptrace_shim.c')], check=True)
            # A concurrent process may do the same, with the same result.
            os.replace(made, path)
    return path
