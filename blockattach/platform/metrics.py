"""Metric definitions: names, labels and label values.

`blockattach.platform.telemetry.counting` creates the metrics, ``doc/source/admin/metrics.rst``
lists them, and the alert rules in ``etc/prometheus`` may use no other metrics. No label contains
an ID or data of a project. The code or the installation (backends, pools) limits the number of
label values.
"""
import enum
from collections.abc import Mapping
from typing import Literal
from typing import NamedTuple
from typing import get_args

PREFIX = 'blockattach_'
TRACEPARENT = 'traceparent'
"""Name of the W3C Trace Context in headers and messages."""


class Kind(enum.StrEnum):
    """Metric types of Prometheus."""

    COUNTER = 'counter'
    GAUGE = 'gauge'
    HISTOGRAM = 'histogram'


class Outcome(enum.StrEnum):
    """Outcome of an operation."""

    OK = 'ok'
    REFUSED = 'refused'
    """Final error of this service: the operation had no effect."""
    UNCERTAIN = 'uncertain'
    """Error of this service that is not final: the operation may have had an effect."""
    FAILED = 'failed'
    """Any other error."""


Step = Literal['reserve', 'intent', 'call', 'export', 'grant', 'revoke', 'record', 'complete']
STEPS: Mapping[Step, str] = {
    'reserve': 'The attachment row is created, and the volume is reserved.',
    'intent': 'The intent is stored in the attachment row.',
    'call': 'The RPC call to the volume manager, including the following steps.',
    'export': 'The store exports the path of the volume.',
    'grant': 'The target grants the initiator access.',
    'revoke': "The target revokes the initiator's access.",
    'record': 'The result is stored in the attachment row.',
    'complete': 'The consumer completes the attachment.',
}
"""Steps of attaching and detaching, in order."""

Drift = Literal['volume', 'attachment', 'abandoned', 'grant', 'stray_export', 'unused_export']
DRIFTS: Mapping[Drift, str] = {
    'volume': 'A volume with an operation that did not finish in time.',
    'attachment': 'An attachment with an operation that did not finish in time.',
    'abandoned': 'An attachment that expired because its consumer did not continue.',
    'grant': 'A grant at the target that is not desired, is missing, or has the wrong mode.',
    'stray_export': 'A target exports a deleted volume.',
    'unused_export': 'A target exports a volume without grants.',
}
"""Kinds of differences between the database and the backend."""

CacheResult = Literal['hit', 'miss', 'evicted']
"""Event of the image cache: cached image cloned, image not cached, or cached image deleted."""

FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Histogram buckets in seconds, for operations that wait for nothing slower than the database."""
SLOW = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Histogram buckets in seconds, for operations that wait for a backend."""


class Span(NamedTuple):
    """Representation of an operation in a trace.

    A trace begins with an API request, or with a message that carries no trace. Operations that
    the service starts by itself, such as heartbeats, are not traced.

    :ivar name: format string, filled from the labels of the metric
    :ivar side: span kind of OpenTelemetry
    :ivar begins: True if the span may begin a trace
    """

    name: str
    side: Literal['server', 'client', 'internal'] = 'internal'
    begins: bool = False


class Metric(NamedTuple):
    """Definition of a metric.

    Only histograms have ``buckets``, ``span`` and ``part``. Their names include the unit.

    :ivar part: log field of a request to which the duration is added
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
        """Exported name, without the suffixes of the metric type (``_bucket``)."""
        return PREFIX + self.name


HTTP = Metric('http_request_seconds', Kind.HISTOGRAM, ('operation', 'status'),
              'Duration of API requests.', SLOW,
              Span('{operation}', 'server', begins=True))
VERB = Metric('control_verb_seconds', Kind.HISTOGRAM, ('verb', 'outcome'),
              'Duration of operations on volumes and attachments, requested over HTTP or the '
              'message bus.', SLOW,
              Span('verb {verb}'))
STEP = Metric('attachment_step_seconds', Kind.HISTOGRAM, ('way', 'step', 'outcome'),
              'Duration of the steps of attach and detach operations.', SLOW,
              Span('{way}: {step}'))
RPC_CLIENT = Metric('rpc_client_seconds', Kind.HISTOGRAM, ('topic', 'method', 'outcome'),
                    'Duration of sent RPC messages: of calls until the reply, of other messages '
                    'until the broker accepts the message.', SLOW,
                    Span('send {topic}.{method}', 'client'), 'rpc_seconds')
RPC_SERVER = Metric('rpc_server_seconds', Kind.HISTOGRAM, ('topic', 'method', 'outcome'),
                    'Duration of RPC requests handled by this process.', SLOW,
                    Span('{topic}.{method}', 'server', begins=True))
WORK = Metric('background_work_seconds', Kind.HISTOGRAM, ('work', 'outcome'),
              'Duration of attempts of asynchronous operations.', SLOW,
              Span('{work} volume', begins=True))
TRANSACTION = Metric('database_transaction_seconds', Kind.HISTOGRAM, ('kind', 'outcome'),
                     'Duration of database transactions, from waiting for a connection to the '
                     'commit. A transaction that is rolled back by a rule of the service has the '
                     'outcome refused.', FAST,
                     Span('database {kind}', 'client'), 'database_seconds')
BACKEND = Metric('backend_call_seconds', Kind.HISTOGRAM, ('backend', 'part', 'verb', 'outcome'),
                 'Duration of calls to store and target drivers.', SLOW,
                 Span('{part}.{verb}', 'client'), 'backend_seconds')
PLACING = Metric('scheduler_placing_seconds', Kind.HISTOGRAM, ('outcome',),
                 'Duration of the placement of a volume, until a volume manager accepts the '
                 'volume or no pool is left.', SLOW, Span('place volume'))
QUEUE_WAIT = Metric('queue_wait_seconds', Kind.HISTOGRAM, ('queue', 'outcome'),
                    'Time that requests waited for a work slot or a backend slot.', SLOW,
                    Span('wait for {queue}'), 'queue_seconds')

DATABASE_RETRIES = Metric('database_retries_total', Kind.COUNTER, ('verb',),
                          'Database transactions that were aborted or lost before the commit. An '
                          'operation is retried up to five times.')
SCHEDULER_RETRIES = Metric('scheduler_retries_total', Kind.COUNTER, ('reason',),
                           'Pools that were replaced with another pool after the selection.')
SCHEDULER_REFUSALS = Metric('scheduler_refusals_total', Kind.COUNTER, ('filter',),
                            'Pools rejected by a filter.')
DRIFT_FOUND = Metric('drift_found_total', Kind.COUNTER, ('drift',),
                     'Differences found between the database and the backend: interrupted '
                     'operations, and grants.')
DRIFT_REPAIRED = Metric('drift_repaired_total', Kind.COUNTER, ('drift',),
                        'Repaired differences between the database and the backend.')
QUEUE_REFUSED = Metric('queue_refused_total', Kind.COUNTER, ('queue', 'refusal'),
                       'Requests that were rejected because they got no slot in time.')
IMAGE_CACHE = Metric('image_cache_total', Kind.COUNTER, ('backend', 'result'),
                     'Volumes that were cloned from a cached image (hit), volumes whose image was '
                     'downloaded (miss), and cached images that were deleted for other images or '
                     'as unusable (evicted). Only for backends with image_volume_cache_enabled.')
BUS_RECONNECTS = Metric('bus_reconnects_total', Kind.COUNTER, (),
                        'Reconnects to the broker, detected at each [health] interval.')

ATTACHMENTS = Metric('attachments', Kind.GAUGE, ('state',),
                     'Attachments in the database that are not deleted. Each process with a '
                     'database reports the same value.')
OLDEST = Metric('attachment_oldest_seconds', Kind.GAUGE, ('state',),
                'Age of the oldest attachment in a state in which the service works on the '
                'attachment.')
OVERDUE = Metric('overdue_rows', Kind.GAUGE, ('noun',),
                 'Rows with a passed deadline.')
UNDER_WAY = Metric('work', Kind.GAUGE, ('noun', 'verb', 'state'),
                   'Asynchronous operations that are not finished.')
POOL_TOTAL = Metric('pool_total_bytes', Kind.GAUGE, ('pool',),
                    'Total capacity of a pool, as last reported by its backend.')
POOL_FREE = Metric('pool_free_bytes', Kind.GAUGE, ('pool',),
                   'Free capacity of a pool, as last reported by its backend.')
POOL_PROVISIONED = Metric('pool_provisioned_bytes', Kind.GAUGE, ('pool',),
                          'Total size of the volumes in a pool.')
THREADS = Metric('threads', Kind.GAUGE, ('threads',),
                 'Maximum number of threads of a thread pool.')
THREADS_BUSY = Metric('threads_busy', Kind.GAUGE, ('threads',), 'Busy threads of a thread pool.')
WAITING = Metric('waiting_work', Kind.GAUGE, ('threads',), 'Tasks that wait for a thread.')
QUEUE_SLOTS = Metric('queue_slots', Kind.GAUGE, ('queue',),
                     'Work slots or backend slots, which limit the number of concurrent requests.')
QUEUE_SLOTS_BUSY = Metric('queue_slots_busy', Kind.GAUGE, ('queue',), 'Slots in use.')
QUEUE_WAITING = Metric('queue_waiting', Kind.GAUGE, ('queue',),
                       'Requests that wait for a slot.')
CONNECTIONS = Metric('database_connections', Kind.GAUGE, ('use',),
                     'Open database connections.')
IN_PROGRESS = Metric('in_progress', Kind.GAUGE, ('act',),
                     'Operations in progress, by the name of the histogram that will record them.')
CHECK = Metric('check_failed', Kind.GAUGE, ('check',),
               'Whether the health check of a dependency failed (1) or not (0).')
BUILD = Metric('build_info', Kind.GAUGE, ('process', 'version'),
               'Version of the process. The value is always 1.')

READ = (BUS_RECONNECTS, ATTACHMENTS, OLDEST, OVERDUE, UNDER_WAY, POOL_TOTAL, POOL_FREE,
        POOL_PROVISIONED, THREADS, THREADS_BUSY, WAITING, QUEUE_SLOTS, QUEUE_SLOTS_BUSY,
        QUEUE_WAITING, CONNECTIONS, IN_PROGRESS, CHECK, BUILD)
"""Metrics whose values are read on demand. All other metrics are updated when an event occurs."""

METRICS = (HTTP, VERB, STEP, RPC_CLIENT, RPC_SERVER, WORK, TRANSACTION, BACKEND, PLACING,
           QUEUE_WAIT, DATABASE_RETRIES, SCHEDULER_RETRIES, SCHEDULER_REFUSALS, DRIFT_FOUND,
           IMAGE_CACHE,
           DRIFT_REPAIRED, QUEUE_REFUSED, *READ)

LABELS = {
    'act': 'name of a histogram without its unit, such as ``http_request``',
    'backend': 'name of a backend in ``[volume] enabled_backends``',
    'check': '``database``, ``bus``, ``backends`` (failed if no backend is up), or ``backend`` '
             'and a name',
    'drift': ', '.join(f'``{drift}``' for drift in DRIFTS),
    'filter': 'name of a filter in ``[scheduler] scheduler_default_filters``',
    'kind': '``read``, ``write``',
    'method': 'method of an RPC interface (:doc:`../contributor/interfaces`)',
    'noun': '``attachment``, ``snapshot``, ``volume``',
    'operation': 'operation of the API (:doc:`../user/operations`), or ``none``',
    'outcome': ', '.join(f'``{outcome}``' for outcome in Outcome)
               + ': success; rejected without effect; unknown whether there was an effect; '
               'unexpected error',
    'part': '``store``, ``target``',
    'pool': '``host@backend#pool``',
    'process': 'name of the program',
    'queue': '``work``; ``host@backend`` for a backend; ``http`` for requests that wait for a '
             'thread of the built-in server',
    'reason': '``not_taken_on``: the volume manager did not answer or rejected the volume; '
              '``room_taken``: the space was used by other volumes',
    'refusal': '``queue.timeout``, ``queue.full``, ``queue.backend_busy``, ``queue.abandoned`` '
               '(:doc:`backpressure`)',
    'result': ', '.join(f'``{result}``' for result in get_args(CacheResult)),
    'state': 'state of the lifecycle (:doc:`states`); for work, ``waiting``, ``running``, or '
             '``overdue``',
    'status': '``2xx``, ``3xx``, ``4xx``, ``5xx``',
    'step': ', '.join(f'``{step}``' for step in STEPS),
    'threads': '``http``; topic and host of an RPC server; ``volume-worker`` and the name of a '
               'backend',
    'topic': 'RPC interface (:doc:`../contributor/interfaces`)',
    'use': '``busy``, ``idle``',
    'verb': 'operation of the service, of asynchronous work, of the database, or of a driver',
    'version': 'version of the package',
    'way': '``attach``, ``detach``',
    'work': '``volume.create``, ``volume.delete``, ``volume.cleanup``',
}
"""Description of each label, for the documentation."""
