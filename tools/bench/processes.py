"""CPU time and memory of processes: of a service, of the database and of the bus.

CPU times are differences of proc(5). Memory is PSS, in which pages shared by several processes
count only once. Peak memory is sampled every half second.
"""
import contextlib
import os
import pathlib
import threading
from collections.abc import Iterable
from collections.abc import Mapping

from blockattach.platform import clock as clocks

TICK_MS = 1000 / os.sysconf('SC_CLK_TCK')
BACKING = {'mariadbd': 'database', 'mysqld': 'database', 'postgres': 'database',
           'beam.smp': 'bus'}
"""Names of database and bus by program."""
_LOOK_SECONDS = 0.5


def roots(text: str) -> dict[str, int]:
    """Parse ``NAME=PID,...``, or read a directory of ``NAME.pid`` files.

    :param text: the pairs, or the path with an optional ``@`` before it
    :raises ValueError: the text is neither
    :raises OSError: the directory cannot be read
    """
    if not text or '=' in text:
        pairs = [part.partition('=') for part in text.split(',') if part]
        return {name: int(pid) for name, _, pid in pairs}
    files = sorted(pathlib.Path(text.removeprefix('@')).glob('*.pid'))
    if not files:
        raise ValueError(f'no NAME.pid files in {text}')
    return {file.stem: int(file.read_text().split()[0]) for file in files}


def backing(*ports: int) -> dict[str, int]:
    """Return the pids of the database and the bus that listen on these ports of this machine."""
    sockets = _listening(ports)
    found: dict[str, int] = {}
    for proc in pathlib.Path('/proc').iterdir():
        if proc.name.isdigit():
            with contextlib.suppress(OSError):
                kind = BACKING.get((proc / 'comm').read_text().strip())
                if kind is not None and any(
                        os.readlink(file) in sockets for file in (proc / 'fd').iterdir()):
                    found[kind] = int(proc.name)
    return found


def _listening(ports: Iterable[int]) -> set[str]:
    """Return the names in /proc of the sockets that listen on ports."""
    wanted = {f'{port:04X}' for port in ports}
    found = set()
    for table in ('tcp', 'tcp6'):
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f'/proc/net/{table}').read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == '0A' and fields[1].rpartition(':')[2] in wanted:
                    found.add(f'socket:[{fields[9]}]')
    return found


def family(pid: int) -> list[int]:
    """Return a process and its running descendants."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        with contextlib.suppress(OSError):
            tasks = os.listdir(f'/proc/{one}/task')
            found.append(one)
            for task in tasks:
                children = pathlib.Path(f'/proc/{one}/task/{task}/children').read_text()
                waiting += map(int, children.split())
    return found


def cpu_ms(pids: Iterable[int]) -> float:
    """Return the total CPU time of processes and of their ended children (proc(5), 14 to 17)."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f'/proc/{pid}/stat').read_text('utf-8', 'replace')
            ticks += sum(int(field) for field in fields.rpartition(')')[2].split()[11:15])
    return ticks * TICK_MS


def pss_mib(pids: Iterable[int]) -> float:
    """Return the PSS of processes: each shared page is divided among the processes that map it."""
    kib = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text().splitlines():
                if line.startswith('Pss:'):
                    kib += int(line.split()[1])
    return kib / 1024


def written_mib(pids: Iterable[int]) -> float:
    """Return the amount that processes have written to files and sockets (proc(5), ``io``)."""
    written = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f'/proc/{pid}/io').read_text().splitlines():
                if line.startswith('wchar:'):
                    written += int(line.split()[1])
    return written / 2 ** 20


def machine_busy_ms() -> float:
    """Return the CPU time of all processes of the machine since its start."""
    with open('/proc/stat', encoding='ascii') as file:
        user = [int(field) for field in file.readline().split()[1:9]]
    return (sum(user) - user[3] - user[4]) * TICK_MS


class Processes:
    """Processes by name, including their descendants."""

    def __init__(self, named: Mapping[str, int]) -> None:
        self._named = dict(named)

    @property
    def names(self) -> list[str]:
        """Names of the processes."""
        return list(self._named)

    def families(self) -> dict[str, list[int]]:
        """Return the pids of each process and its descendants, by name."""
        return {name: family(pid) for name, pid in self._named.items()}

    def cpu_ms(self) -> dict[str, float]:
        """Return the total CPU time by name."""
        return {name: cpu_ms(pids) for name, pids in self.families().items()}

    def pss_mib(self) -> dict[str, float]:
        """Return the current memory by name."""
        return {name: round(pss_mib(pids), 1) for name, pids in self.families().items()}

    def total_pss_mib(self) -> float:
        """Return the current memory of all processes."""
        return round(sum(self.pss_mib().values()), 1)


class PeakMemory:
    """Thread that samples memory during a context.

    :ivar mib: maximum by name of the process
    """

    def __init__(self, processes: Processes, clock: clocks.Clock) -> None:
        self._processes = processes
        self._clock = clock
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.mib: dict[str, float] = {}

    def __enter__(self) -> 'PeakMemory':
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._clock.wait(self._over, _LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        for name, mib in self._processes.pss_mib().items():
            self.mib[name] = max(mib, self.mib.get(name, 0))
