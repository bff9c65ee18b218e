"""Whether the API grows: its memory after a tenth of very many requests, and after all of them."""
import itertools

from bench import acts
from bench import cloud as clouds
from bench import scenarios
from bench import session as sessions
from bench import target as targets

LASTING = 'lasting'
CLIENTS = 8
_PARTS = 10
_CYCLE = 3
"""Requests of an attach cycle."""


def measure_lasting(session: sessions.Session) -> None:
    """Attach cycles and shows, half of the requests each, until so many were answered."""
    with clouds.Cloud(session.shape(), session.clock) as cloud:
        target = session.target(cloud)
        volumes = [acts.Item(volume_id, host=f'host-{number}')
                   for number, volume_id in enumerate(target.plain(CLIENTS))]
        each = session.plan.lasting // _PARTS
        cycles = max(1, each // 2 // _CYCLE)
        answered, taken = 0, [(0, _memory(target))]
        for _ in range(_PARTS):
            answered += _CYCLE * _play(session, target, 'attach-cycle', volumes, cycles)
            answered += _play(session, target, 'show-volume', volumes, each - _CYCLE * cycles)
            taken.append((answered, _memory(target)))
    facts = session.results.facts
    facts['lasting_pss_mib'] = taken
    facts['lasting_requests'] = [taken[1][0], taken[-1][0]]
    facts['lasting_memory'] = round(taken[-1][1] / taken[1][1], 3)


def _play(session: sessions.Session, target: targets.Target, scenario: str,
          volumes: list[acts.Item], count: int) -> int:
    """So many operations, each thread on a volume of its own; how many were done."""
    items = tuple(itertools.islice(itertools.cycle(volumes), count))
    row = session.keep(scenarios.Stage(target, session.clock).play(
        f'{LASTING} {scenario}', acts.Job(scenario, target.endpoint, items, threads=CLIENTS)))
    return int(row['operations'])


def _memory(target: targets.Target) -> float:
    return target.own.pss_mib()['api']
