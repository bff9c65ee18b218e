"""Throughput at twice the load that saturates the service, and the attachments left afterwards."""
import threading

import sqlalchemy as sa

from bench import acts
from bench import cloud as clouds
from bench import scenarios
from bench import session as sessions
from blockattach.storage.db import models
from blockattach.storage.domain import attachment_lifecycle

OVERLOAD = 'overload'
_SATURATING = 32
_CLIENTS = 256
_TIMES = 2
_SETTLE_SECONDS = 120.0
_LOOK_SECONDS = 0.5


def measure_overload(session: sessions.Session) -> None:
    """Measure the throughput of attach cycles at the peak, and at twice the rate of the peak.

    The stored facts are the throughput relative to the peak, and the number of attachments in a
    transient state after the clients have detached.
    """
    with clouds.Cloud(session.shape(), session.clock) as cloud:
        target = session.target(cloud)
        peak = session.play(target, 'attach-cycle', scenarios.Load(
            _SATURATING, session.plan.seconds, session.plan.warmup))
        assert peak is not None
        clients = min(_CLIENTS, int(4 * peak['per_second']) + 2)
        items = tuple(acts.Item(volume_id, host=f'host-{number}')
                      for number, volume_id in enumerate(target.plain(clients)))
        row = session.keep(scenarios.Stage(target, session.clock).play(OVERLOAD, acts.Job(
            'overload', target.endpoint, items, session.plan.overload_seconds,
            rate=_TIMES * peak['per_second'])))
        unsettled = _unsettled(session, cloud)
    facts = session.results.facts
    facts['overload'] = {'peak_per_second': peak['per_second'],
                         'done_per_second': row['per_second'], **row['facts']}
    facts['overload_throughput'] = round(row['per_second'] / peak['per_second'], 3)
    facts['overload_unsettled'] = unsettled
    session.say(f'overload: {row["facts"]}, {unsettled} attachments in a transient state')


def _unsettled(session: sessions.Session, cloud: clouds.Cloud) -> int:
    """Return the number of attachments that are still in a transient state after a timeout."""
    rows = models.attachments
    query = sa.select(sa.func.count()).where(rows.c.deleted == sa.false(), rows.c.state.in_(
        [state.value for state in attachment_lifecycle.TRANSITIONAL]))
    deadline = session.clock.monotonic() + _SETTLE_SECONDS
    never = threading.Event()
    while True:
        with cloud.engine.connect() as connection:
            left = int(connection.execute(query).scalar_one())
        if not left or session.clock.monotonic() > deadline:
            return left
        session.clock.wait(never, _LOOK_SECONDS)
