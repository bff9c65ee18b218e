"""Scenarios: their preparation on a target, and their jobs.

The table `SCENARIOS` lists them. `bench.acts` contains the operations of the clients.
"""
import contextlib
import dataclasses
import urllib.parse
from collections.abc import Callable
from typing import Any

from bench import acts
from bench import measure
from bench import target as targets
from blockattach.platform import clock as clocks


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """Extent of a measurement of a scenario.

    :param volumes: number of volumes of the project that is listed
    """

    clients: int
    seconds: float
    warmup: float
    rounds: int = 2
    volumes: int = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """Target of a scenario, with the circumstances of the measurement.

    :param beside: context that is open during the load; None for none
    :param repeats: maximum number of repetitions while other processes use too much CPU
    """

    target: targets.Target
    clock: clocks.Clock
    beside: contextlib.AbstractContextManager[object] | None = None
    repeats: int = 2

    def play(self, name: str, job: acts.Job, **facts: Any) -> measure.Row:
        """Measure a job. If it failed, the volumes of the target are repaired for the next job."""
        repeats = 0 if self.beside or job.stay or job.threads else self.repeats
        for repeated in range(repeats + 1):
            row = measure.measure(self.target, job, name, self.clock,
                                  self.beside or contextlib.nullcontext(), repeated=repeated,
                                  **facts)
            if row['failed']:
                self.target.repair()
            if not measure.is_void(row):
                break
        return row


Scenario = Callable[[Stage, str, Load], measure.Row | None]
"""Function that measures a scenario. It returns None if the target lacks the required volumes."""


def list_project(volumes: int) -> str:
    """Return the id of the project with a number of volumes."""
    return f'{volumes:032d}'


def _on_plain(scenario: str) -> Scenario:
    def play(stage: Stage, name: str, load: Load) -> measure.Row:
        items = tuple(acts.Item(volume_id=volume_id, host=f'host-{number}')
                      for number, volume_id in enumerate(stage.target.plain(load.clients)))
        return stage.play(name, acts.Job(
            scenario, stage.target.endpoint, items, load.seconds, load.warmup))
    return play


def _show(scenario: str) -> Scenario:
    """Return the scenario that shows a volume with two attachments, or one of these."""
    def play(stage: Stage, name: str, load: Load) -> measure.Row:
        volume_id = stage.target.shared()[0]
        made = [stage.target.attached(volume_id, f'host-{number}') for number in range(2)]
        row = stage.play(name, acts.Job(
            scenario, stage.target.endpoint,
            (acts.Item(volume_id, made[0]),) * load.clients, load.seconds, load.warmup))
        stage.target.detach(volume_id)
        return row
    return play


def _create_available(stage: Stage, name: str, load: Load) -> measure.Row:
    return stage.play(name, acts.Job(
        'create-available', stage.target.endpoint, (acts.Item(),) * load.clients, load.seconds,
        load.warmup, volume_type=stage.target.type))


def _storm(stage: Stage, name: str, load: Load) -> measure.Row:
    return stage.play(name, acts.Job(
        'storm', stage.target.endpoint,
        (acts.Item(stage.target.shared()[0]),) * load.clients, load.seconds,
        rounds=load.rounds))


def _race(stage: Stage, name: str, load: Load) -> measure.Row:
    return stage.play(name, acts.Job(
        'race', stage.target.endpoint, (acts.Item(stage.target.plain(1)[0]),) * load.clients,
        load.seconds, rounds=load.rounds * 5))


def _list(path: str) -> Scenario:
    """Return the scenario that lists a project which was filled before."""
    def play(stage: Stage, name: str, load: Load) -> measure.Row | None:
        project = list_project(load.volumes)
        wanted = min(load.volumes, 1000)
        if stage.target.count(project, wanted) < wanted:
            return None
        return stage.play(name, acts.Job(
            'list', stage.target.endpoint.of_project(project), (acts.Item(),) * load.clients,
            load.seconds, load.warmup, path=path), volumes=load.volumes)
    return play


def _list_by(key: str) -> Scenario:
    """Return the scenario that lists the attachments of one server or one host of the project."""
    def play(stage: Stage, name: str, load: Load) -> measure.Row:
        volume_id = stage.target.shared()[0]
        stage.target.attached(volume_id, 'host-0')
        instance = stage.target.attachments(volume_id)[0]['instance']
        value = {'instance_id': instance, 'attached_host': 'host-0'}[key]
        row = stage.play(name, acts.Job(
            'list', stage.target.endpoint, (acts.Item(),) * load.clients, load.seconds,
            load.warmup, path='/attachments/detail?' + urllib.parse.urlencode({key: value})))
        stage.target.detach(volume_id)
        return row
    return play


SCENARIOS: dict[str, Scenario] = {
    'attach-cycle': _on_plain('attach-cycle'),
    'reserve-cycle': _on_plain('reserve-cycle'),
    'storm': _storm,
    'race': _race,
    'create-available': _create_available,
    'show-volume': _show('show-volume'),
    'show-attachment': _show('show-attachment'),
    'list-detail': _list('/volumes/detail?limit=1000'),
    'list-attachments': _list('/attachments/detail?limit=1000'),
    'list-by-instance': _list_by('instance_id'),
    'list-by-host': _list_by('attached_host'),
}
LISTS = ('list-detail', 'list-attachments')
"""Scenarios that need a filled project."""
ON_PLAIN = ('attach-cycle', 'reserve-cycle', 'race')
"""Scenarios on volumes without multiattach."""
MEETINGS = ('storm', 'race')
"""Scenarios that need more than one client."""
