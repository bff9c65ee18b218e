"""Call of the command: its plan, its targets, and the results so far."""
import contextlib
import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from bench import client
from bench import cloud as clouds
from bench import filling
from bench import goals
from bench import measure
from bench import processes
from bench import profiles
from bench import results
from bench import scenarios
from bench import target as targets
from blockattach.platform import clock as clocks


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Extent of the measurements.

    :param clients: numbers of clients by scenario; ``''`` for all other scenarios
    :param volumes: numbers of volumes in the projects whose volumes are listed
    :param attached: numbers of volumes in the projects whose attachments are listed. Each tenth
        volume has two attachments
    :param crowds: increasing numbers of attachments of one volume
    :param sizes: numbers of volumes in the compared databases
    :param rush: number of hosts that attach one volume at the same time
    :param overload_seconds: duration of the overload
    :param copied_mib: size of each copy
    :param stored: number of volumes in the file store for each operation
    :param lasting: number of requests after which the memory of the API is measured
    :param played: scenarios that are measured unless others are named
    """

    seconds: float
    warmup: float
    rounds: int
    clients: dict[str, tuple[int, ...]]
    volumes: tuple[int, ...]
    attached: tuple[int, ...] = (10_000,)
    crowds: tuple[int, ...] = (1, 10, 100, 500, 1000, 2500)
    sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    rush: int = 2500
    overload_seconds: float = 60
    copied_mib: int = 1024
    stored: int = 100
    lasting: int = 100_000
    played: tuple[str, ...] = tuple(scenarios.SCENARIOS)

    def but(self, changes: dict[str, Any]) -> 'Plan':
        """Return a plan with some other values."""
        return dataclasses.replace(self, **changes)

    def loads(self, scenario: str) -> Iterator[scenarios.Load]:
        """Yield the loads of a scenario."""
        sizes = {'list-detail': self.volumes, 'list-attachments': self.attached}
        for volumes in sizes.get(scenario, (0,)):
            for clients in self.clients.get(scenario, self.clients['']):
                if clients > 1 or scenario not in scenarios.MEETINGS:
                    yield scenarios.Load(clients, self.seconds, self.warmup, self.rounds,
                                         volumes)


# Numbers of clients that the peer can serve in a few minutes.
_CLIENTS = {'': (8,), 'attach-cycle': (1, 8, 32), 'reserve-cycle': (1, 8, 32),
            'show-volume': (1, 8, 32), 'show-attachment': (1, 8), 'create-available': (1, 8),
            'storm': (8, 32), 'race': (8, 32), 'list-detail': (1,), 'list-attachments': (1,)}
FULL = Plan(8, 1, 3, _CLIENTS, (1000, 10_000))
QUICK = Plan(2, 0.3, 3, {'': (8,), 'attach-cycle': (8, 32), 'reserve-cycle': (8, 32),
                         'list-detail': (1,), 'list-attachments': (1,)}, (1000,),
             played=('attach-cycle', 'reserve-cycle', 'create-available', 'show-volume',
                     'show-attachment', 'list-detail', 'list-attachments'))


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """Other endpoint that is measured with the same load.

    :param pids: processes of the peer, see `bench.processes.roots`
    :param backing_pids: processes of its database and bus; empty if these are those of blockattach
    :param seed: command that creates ``{volumes}`` volumes in ``{project}``; empty to use the API
    """

    url: str
    pids: str = ''
    backing_pids: str = ''
    seed: str = ''


# Maximum number of volumes of a peer whose creation may fail before the peer counts as unusable.
_FORGIVEN = 64


class Session:
    """State that all runs of one call of the command share.

    :param named: scenarios to measure; empty for those of the plan
    :param kept: True if clients reuse connections
    :param profiles: directory for flame graphs; None to record none
    :param threads: threads of each API process; 0 for the number in the files in ``etc``
    :param calls: transport of calls between the processes, a key of `cloud.CALLS`
    """

    def __init__(self, plan: Plan, clock: clocks.Clock, named: tuple[str, ...] = (),
                 peer: Peer | None = None, server: str = clouds.GRANIAN, kept: bool = False,
                 profiles: pathlib.Path | None = None, threads: int = 0,
                 calls: str = clouds.OVER_HTTP) -> None:
        self.plan = plan
        self.clock = clock
        self.played = named or plan.played
        self.peer = peer
        self.server = server
        self.kept = kept
        self.threads = threads
        self.calls = calls
        self.profiles = profiles
        self.results = results.Results()
        self._headed = False

    def shape(self, **more: Any) -> clouds.Shape:
        """Return the shape of the cloud as specified on the command line."""
        return clouds.Shape(**{'server': self.server, 'threads': self.threads,
                               'options': clouds.CALLS[self.calls], **more})

    def target(self, cloud: clouds.Cloud, name: str = results.OWN,
               kept: bool | None = None, backend: str = '') -> targets.Target:
        """Return a cloud, or one of its backends, as a target with volume types."""
        endpoint = dataclasses.replace(cloud.endpoint, kept=self.kept if kept is None else kept)
        made = targets.Target(name, endpoint, cloud.processes, cloud.backing, self.clock,
                              backend=backend)
        made.prepare()
        self.results.facts.setdefault('versions', cloud.versions())
        self.results.facts[goals.CALLS] = self.calls
        return made

    @contextlib.contextmanager
    def peers(self) -> Iterator[list[targets.Target]]:
        """Yield a list with the peer, if there is one. Its volumes are deleted at the end.

        :raises CannotMeasure: the peer cannot be used
        """
        if self.peer is None:
            yield []
            return
        try:
            own = processes.Processes(processes.roots(self.peer.pids))
            backing = processes.Processes(processes.roots(self.peer.backing_pids))
        except (OSError, ValueError) as exc:
            raise clouds.CannotMeasure(f'cannot use the processes of the peer: {exc}') from exc
        made = targets.Target(results.PEER, client.Endpoint(self.peer.url, kept=self.kept), own,
                              backing if backing.names else clouds.backing(), self.clock,
                              _FORGIVEN)
        made.prepare()
        try:
            yield [made]
        finally:
            made.clean()
            if made.given_up:
                self.say(f'peer: creation of {made.given_up} volumes failed and was repeated')

    def supply(self, target: targets.Target) -> None:
        """Create the volumes that the scenarios need, before the measurements."""
        clients = [load.clients for name in self.played if name in scenarios.ON_PLAIN
                   for load in self.plan.loads(name)]
        target.plain(max(clients, default=0))
        target.shared()

    def seed_peer(self, peer: targets.Target, project: str, volumes: int) -> None:
        """Fill a project of the peer with the given command or its API.

        A project that is already filled is used as it is.
        """
        assert self.peer is not None
        page = min(volumes, 1000)
        if peer.count(project, page) == page:
            return
        if self.peer.seed:
            command = self.peer.seed.format(project=project, volumes=volumes)
            done = subprocess.run(command, shell=True, capture_output=True, text=True,
                                  check=False)
            if done.returncode:
                self.say(f'Failed to fill the peer: {done.stderr.strip()[-300:]}')
        elif volumes <= filling.MOST:
            self.say(f'peer: creating {volumes:,} volumes for listings')
            try:
                filling.fill(peer, project, volumes)
            except client.Unexpected as exc:
                self.say(f'Failed to fill the peer: {exc}')

    def play(self, target: targets.Target, scenario: str,
             load: scenarios.Load, **facts: Any) -> measure.Row | None:
        """Measure a scenario on a target, and print its line.

        :param facts: additional values of the row
        :raises CannotMeasure: the load process failed
        """
        beside: contextlib.AbstractContextManager[object] | None = None
        if self.profiles is not None:
            beside = profiles.recording(
                self.profiles, f'{target.name}-{scenario}-{load.clients}', target.own,
                load.seconds, self.say)
        row = scenarios.SCENARIOS[scenario](
            scenarios.Stage(target, self.clock, beside), scenario, load)
        if row is None:
            self.say(f'{target.name}: no project with {load.volumes:,} volumes to list, skipping')
            return None
        return self.keep({**row, **facts})

    def keep(self, row: measure.Row) -> measure.Row:
        """Print and store a measured row, and return it."""
        if not self._headed:
            print(results.line(results.HEADINGS), flush=True)
            self._headed = True
        print(results.line(results.shown(row)), flush=True)
        if row.get('repeated') or measure.is_void(row):
            self.say(f'{row["target"]}, {row["scenario"]}: too much CPU used by other processes, '
                     f'measurement repeated {row.get("repeated", 0)} times'
                     + (', result void' if measure.is_void(row) else ''))
        return self.results.add(row)

    def say(self, text: str) -> None:
        """Print a message to standard error."""
        print(text, file=sys.stderr, flush=True)
