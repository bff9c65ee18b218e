"""Comparison of the service on MariaDB and on PostgreSQL, measured alternately."""
import contextlib

from bench import cloud as clouds
from bench import results
from bench import scenarios
from bench import session as sessions
from blockattach.tests.fixtures import database

MARIADB, POSTGRESQL = 'MariaDB', 'PostgreSQL'
KINDS = {MARIADB: database.MYSQL, POSTGRESQL: database.POSTGRESQL}
PLAYED = ('attach-cycle', 'reserve-cycle', 'show-volume')
CLIENTS = 8
RATIOS = {'throughput': results.THROUGHPUT, 'p99': results.P99, 'CPU': results.CPU}


def compare_databases(session: sessions.Session) -> None:
    """Measure both databases. Nothing is measured if one of them is not reachable."""
    facts = session.results.facts
    with contextlib.ExitStack() as running:
        targets = []
        for name, kind in KINDS.items():
            try:
                cloud = running.enter_context(
                    clouds.Cloud(session.shape(database=kind), session.clock))
            except clouds.CannotMeasure as exc:
                session.say(f'{name}: not measured: {exc}')
                return
            facts[f'{name}_versions'] = cloud.versions()
            targets.append(session.target(cloud, name))
        for number in range(session.plan.rounds):
            for scenario in PLAYED:
                for target in targets if number % 2 == 0 else reversed(targets):
                    session.play(target, scenario, scenarios.Load(
                        CLIENTS, session.plan.seconds, session.plan.warmup),
                        **{results.ROUND: number})
    facts['databases'] = {scenario: ratios(session.results, scenario) for scenario in PLAYED}


def ratios(measured: results.Results, scenario: str) -> dict[str, str]:
    """Return the figures on PostgreSQL relative to MariaDB, with the range of the rounds."""
    found = {name: measured.compared(results.Case(scenario, CLIENTS), figure, MARIADB, POSTGRESQL)
             for name, figure in RATIOS.items()}
    return {name: f'{results.times(one.ratio)} ({one.spread})'
            for name, one in found.items() if one}
