"""What a process measures: the names of all metrics, their labels, and what the labels may say.

`blockattach.telemetry.counting` makes them, ``doc/source/admin/metrics.rst`` prints them, and the
alert rules in ``etc/prometheus`` may name no other. No label ever holds an id or anything of a
project: what labels say is bounded by the code, or by the installation (backends, pools).
"""
import enum
from collections.abc import Mapping
from typing import Literal
from typing import NamedTuple
from typing import get_args

PREFIX = 'blockattach_'
TRACEPARENT = 'traceparent'
"""W3C Trace Context: under this name a trace travels in a header, and with a message."""


class Kind(enum.StrEnum):
    """Prometheus's kinds."""

    COUNTER = 'counter'
    GAUGE = 'gauge'
    HISTOGRAM = 'histogram'


class Outcome(enum.StrEnum):
    """How an act ended."""

    OK = 'ok'
    REFUSED = 'refused'
    """An error of ours that is final: nothing happened."""
    UNCERTAIN = 'uncertain'
    """An error of ours that is not: it may have happened."""
    FAILED = 'failed'
    """Any other error."""


Step = Literal['reserve', 'intent', 'call', 'export', 'grant', 'revoke', 'record', 'complete']
STEPS: Mapping[Step, str] = {
    'reserve': 'The row is made, and the volume reserved.',
    'intent': 'The row gets the intent.',
    'call': 'The RPC call to the volume manager, until its answer. Includes the next ones.',
    'export': 'The store gives the path of the volume.',
    'grant': 'The target grants the initiator access.',
    'revoke': "The target revokes the initiator's access.",
    'record': 'The outcome is written into the row.',
    'complete': 'The consumer completes the attachment.',
}
"""What attaching and detaching consist of, in this order."""

Drift = Literal['volume', 'attachment', 'abandoned', 'grant', 'stray_export', 'unused_export']
DRIFTS: Mapping[Drift, str] = {
    'volume': 'A volume whose work was begun and did not end in time.',
    'attachment': 'An attachment whose work was begun and did not end in time.',
    'abandoned': 'An attachment whose consumer never came back.',
    'grant': 'A grant that is at the target and not wanted, or is missing, or has another mode.',
    'stray_export': 'A target exports a deleted volume.',
    'unused_export': 'A target exports a volume without grants.',
}
"""Differences between the rows and the backend."""

CacheResult = Literal['hit', 'miss', 'evicted']
"""A volume was cloned from a cached image, or could not be; a cached image goes."""

FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets, in seconds, of what waits for the database at most."""
SLOW = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets, in seconds, of what waits for a backend."""


class Span(NamedTuple):
    """How an act appears in a trace.

    A trace begins where somebody asks for something: with a request, or with a message that
    carries none. What the service does by itself, as sending heartbeats, makes no trace.

    :ivar name: filled from the labels of the metric
    :ivar side: on which side of an exchange it is, as OpenTelemetry calls it
    :ivar begins: whether a trace may begin with it
    """

    name: str
    side: Literal['server', 'client', 'internal'] = 'internal'
    begins: bool = False


class Metric(NamedTuple):
    """One row. ``buckets``, ``span`` and ``part`` only for a histogram, whose unit is in its name.

    :ivar part: field of the line of a request that says how long this took within it
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    text: str
    buckets: tuple[float, ...] = ()
    span: Span | None = None
    part: str | None = None

    @property
    def full_name(self) -> str:
        """The name that is exported, without what its kind adds to it (``_bucket``)."""
        return PREFIX + self.name


HTTP = Metric('http_request_seconds', Kind.HISTOGRAM, ('operation', 'status'),
              'Requests to the API, until they were answered.', SLOW,
              Span('{operation}', 'server', begins=True))
VERB = Metric('control_verb_seconds', Kind.HISTOGRAM, ('verb', 'outcome'),
              'Verbs of volumes and attachments, asked for over HTTP or the bus.', SLOW,
              Span('verb {verb}'))
STEP = Metric('attachment_step_seconds', Kind.HISTOGRAM, ('way', 'step', 'outcome'),
              'Steps of attaching and detaching.', SLOW, Span('{way}: {step}'))
RPC_CLIENT = Metric('rpc_client_seconds', Kind.HISTOGRAM, ('topic', 'method', 'outcome'),
                    'What was sent over the bus: a call until its answer, all else until the '
                    'broker took it.', SLOW,
                    Span('send {topic}.{method}', 'client'), 'rpc_seconds')
RPC_SERVER = Metric('rpc_server_seconds', Kind.HISTOGRAM, ('topic', 'method', 'outcome'),
                    'Requests over the bus that this process has served.', SLOW,
                    Span('{topic}.{method}', 'server', begins=True))
WORK = Metric('background_work_seconds', Kind.HISTOGRAM, ('work', 'outcome'),
              'Attempts of asynchronous acts.', SLOW, Span('{work} volume', begins=True))
TRANSACTION = Metric('database_transaction_seconds', Kind.HISTOGRAM, ('kind', 'outcome'),
                     'Transactions, from waiting for a connection to the commit. One that a rule '
                     'of ours took back counts as refused.', FAST,
                     Span('database {kind}', 'client'), 'database_seconds')
BACKEND = Metric('backend_call_seconds', Kind.HISTOGRAM, ('backend', 'part', 'verb', 'outcome'),
                 'What stores and targets were asked for.', SLOW,
                 Span('{part}.{verb}', 'client'), 'backend_seconds')
PLACING = Metric('scheduler_placing_seconds', Kind.HISTOGRAM, ('outcome',),
                 'Placing of a volume, until a manager has taken it on or there is no pool for '
                 'it.', SLOW, Span('place volume'))
QUEUE_WAIT = Metric('queue_wait_seconds', Kind.HISTOGRAM, ('queue', 'outcome'),
                    'Waits for a work slot or a slot of a backend, where none was free.', SLOW,
                    Span('wait for {queue}'), 'queue_seconds')

DATABASE_RETRIES = Metric('database_retries_total', Kind.COUNTER, ('verb',),
                          'Transactions that the database threw out, or lost before their commit: '
                          'a verb is done again up to five times.')
SCHEDULER_RETRIES = Metric('scheduler_retries_total', Kind.COUNTER, ('reason',),
                           'Pools left for another one after they were chosen.')
SCHEDULER_REFUSALS = Metric('scheduler_refusals_total', Kind.COUNTER, ('filter',),
                            'Pools refused by a filter.')
DRIFT_FOUND = Metric('drift_found_total', Kind.COUNTER, ('drift',),
                     'Differences between the rows and the backend: interrupted work, and grants.')
DRIFT_REPAIRED = Metric('drift_repaired_total', Kind.COUNTER, ('drift',),
                        'Differences that were repaired.')
QUEUE_REFUSED = Metric('queue_refused_total', Kind.COUNTER, ('queue', 'refusal'),
                       'Requests that were shed: they got no slot in time.')
IMAGE_CACHE = Metric('image_cache_total', Kind.COUNTER, ('backend', 'result'),
                     'Volumes of images that were cloned from a cached image (hit) or had to be '
                     'downloaded (miss), and cached images that were removed for others or as of '
                     'no use (evicted). Only of backends with image_volume_cache_enabled.')
BUS_RECONNECTS = Metric('bus_reconnects_total', Kind.COUNTER, (),
                        'Times that the broker was reached again after it had not been; looked '
                        'at every [health] interval.')

ATTACHMENTS = Metric('attachments', Kind.GAUGE, ('state',),
                     'Live attachments in the database: each process with a database says the '
                     'same.')
OLDEST = Metric('attachment_oldest_seconds', Kind.GAUGE, ('state',),
                'How long the oldest attachment has been in a state in which the service is at '
                'work on it.')
OVERDUE = Metric('overdue_rows', Kind.GAUGE, ('noun',),
                 'Rows whose deadline has passed.')
UNDER_WAY = Metric('work', Kind.GAUGE, ('noun', 'verb', 'state'),
                   'Asynchronous acts that have not ended.')
POOL_TOTAL = Metric('pool_total_bytes', Kind.GAUGE, ('pool',),
                    'Size of a pool, as its backend measured it last.')
POOL_FREE = Metric('pool_free_bytes', Kind.GAUGE, ('pool',),
                   'Free bytes of a pool, as its backend measured it last.')
POOL_PROVISIONED = Metric('pool_provisioned_bytes', Kind.GAUGE, ('pool',),
                          'Sum of the sizes of the volumes in a pool.')
THREADS = Metric('threads', Kind.GAUGE, ('threads',),
                 'Threads that may work at once.')
THREADS_BUSY = Metric('threads_busy', Kind.GAUGE, ('threads',), 'Threads that work.')
WAITING = Metric('waiting_work', Kind.GAUGE, ('threads',), 'What waits for a thread.')
QUEUE_SLOTS = Metric('queue_slots', Kind.GAUGE, ('queue',),
                     'Work slots, or slots of a backend: what may be under way at once.')
QUEUE_SLOTS_BUSY = Metric('queue_slots_busy', Kind.GAUGE, ('queue',), 'Slots that are taken.')
QUEUE_WAITING = Metric('queue_waiting', Kind.GAUGE, ('queue',),
                       'Requests that wait for a slot.')
CONNECTIONS = Metric('database_connections', Kind.GAUGE, ('use',),
                     'Connections to the database that are open.')
IN_PROGRESS = Metric('in_progress', Kind.GAUGE, ('act',),
                     'What has begun and not ended, by the metric that its end goes to.')
CHECK = Metric('check_failed', Kind.GAUGE, ('check',),
               'Whether something that the process depends on is wrong (1) or not (0).')
BUILD = Metric('build_info', Kind.GAUGE, ('process', 'version'), 'Always 1.')

READ = (BUS_RECONNECTS, ATTACHMENTS, OLDEST, OVERDUE, UNDER_WAY, POOL_TOTAL, POOL_FREE,
        POOL_PROVISIONED, THREADS, THREADS_BUSY, WAITING, QUEUE_SLOTS, QUEUE_SLOTS_BUSY,
        QUEUE_WAITING, CONNECTIONS, IN_PROGRESS, CHECK, BUILD)
"""Those that are read on demand; the others are updated when something happens."""

METRICS = (HTTP, VERB, STEP, RPC_CLIENT, RPC_SERVER, WORK, TRANSACTION, BACKEND, PLACING,
           QUEUE_WAIT, DATABASE_RETRIES, SCHEDULER_RETRIES, SCHEDULER_REFUSALS, DRIFT_FOUND,
           IMAGE_CACHE,
           DRIFT_REPAIRED, QUEUE_REFUSED, *READ)

LABELS = {
    'act': 'the name of a histogram without its unit, for instance ``http_request``',
    'backend': 'the name of a backend, from ``[volume] enabled_backends``',
    'check': '``database``, ``bus``, ``backends`` (whether any is up), or ``backend`` and a name',
    'drift': ', '.join(f'``{drift}``' for drift in DRIFTS),
    'filter': 'a name from ``[scheduler] scheduler_default_filters``',
    'kind': '``read``, ``write``',
    'method': 'a method of an interface (:doc:`../contributor/interfaces`)',
    'noun': '``attachment``, ``snapshot``, ``volume``',
    'operation': 'an operation of the API (:doc:`../user/operations`), or ``none``',
    'outcome': ', '.join(f'``{outcome}``' for outcome in Outcome)
               + ': done; proved that nothing happened; uncertain; an unforeseen error',
    'part': '``store``, ``target``',
    'pool': '``host@backend#pool``',
    'process': 'the name of the program',
    'queue': '``work``; a backend, ``host@backend``; ``http``: requests for which the '
             'built-in server has no thread',
    'reason': '``not_taken_on``: the manager was silent or refused; ``room_taken``: others were '
              'faster',
    'refusal': '``queue.timeout``, ``queue.full``, ``queue.backend_busy``, ``queue.abandoned`` '
               '(:doc:`backpressure`)',
    'result': ', '.join(f'``{result}``' for result in get_args(CacheResult)),
    'state': 'a state of the lifecycle (:doc:`states`); of work ``waiting``, ``running`` or '
             '``overdue``',
    'status': '``2xx``, ``3xx``, ``4xx``, ``5xx``',
    'step': ', '.join(f'``{step}``' for step in STEPS),
    'threads': '``http``; a server on the bus by its topic and host; ``volume-worker`` and a '
               'backend',
    'topic': 'an interface (:doc:`../contributor/interfaces`)',
    'use': '``busy``, ``idle``',
    'verb': 'a verb of the service, of work, of the database or of a driver',
    'version': 'of the package',
    'way': '``attach``, ``detach``',
    'work': '``volume.create``, ``volume.delete``, ``volume.cleanup``',
}
"""What each label says, for the documentation."""
