"""Memory growth of the API, from a tenth of many requests to all of them."""
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
"""Number of requests of an attach cycle."""


def measure_lasting(session: sessions.Session) -> None:
    """Measure the memory of the API during attach cycles and shows.

    The cycles and the shows each make up half of the requests.
    """
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
    """Run a number of operations, with a volume for each thread, and return how many succeeded."""
    items = tuple(itertools.islice(itertools.cycle(volumes), count))
    row = session.keep(scenarios.Stage(target, session.clock).play(
        f'{LASTING} {scenario}', acts.Job(scenario, target.endpoint, items, threads=CLIENTS)))
    return int(row['operations'])


def _memory(target: targets.Target) -> float:
    return target.own.pss_mib()['api']
