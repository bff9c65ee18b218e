"""Logging set-up and the names of log fields.

A log line is a constant, searchable sentence followed by identifiers: ``Attachment state changed
attachment_id=... volume_id=...``. In JSON (``use_json``), the identifiers are members of
``fields``. `FIELDS` contains all names of identifiers. Each kind of value has exactly one name.

oslo.log puts the request ID and the user before the sentence, or under ``context`` in JSON. Both
are taken from the context of the thread that logs.

A request has one line at INFO, written when the request ends. Changes during a request are logged
by `step` at DEBUG, and the line of the request includes their identifiers.
"""
import configparser
import contextlib
import contextvars
import logging
import os
from collections.abc import Mapping
from logging import handlers
from typing import Any

from oslo_config import cfg
from oslo_log import formatters
from oslo_log import log as oslo_log
from oslo_serialization import jsonutils

from blockattach.platform import errors

Kept = Mapping[logging.Logger, tuple[int, bool, list[logging.Handler]]]
"""Level, propagation and handlers of each logger."""
LEVELS = ('DEBUG', 'INFO', 'WARNING', 'ERROR')
"""Log levels that can be set while a process runs."""

FIELDS: Mapping[str, str] = {
    'attachment_id': 'ID of an attachment',
    'backend_seconds': 'part of ``seconds``: stores and targets',
    'binary': 'binary of a service, as ``os-services`` shows it',
    'check': 'name of a health check',
    'cluster': 'name of a cluster of services',
    'code': 'error code (:doc:`../user/errors`)',
    'data_percent': 'data usage of a thin pool in percent',
    'database_seconds': 'part of ``seconds``: database transactions',
    'disabled': 'whether the service is disabled',
    'drift': 'kind of difference between target and database (:doc:`metrics`)',
    'event': 'lifecycle event of an attachment (:doc:`../contributor/lifecycle`)',
    'event_type': 'event type of a notification (:doc:`notifications`)',
    'frozen': 'whether the backend is frozen',
    'function': 'backend option, ``filter_function`` or ``goodness_function``',
    'generation': 'number of state changes of a row',
    'group': 'option group in a configuration file',
    'health': 'health of a thin pool, as reported by LVM',
    'host': '``host@backend`` of a volume manager, or host of another service',
    'image_id': 'ID of an image in Glance',
    'initiator': 'initiator name (IQN); several names are separated by commas',
    'instance_uuid': 'ID of the server of an attachment',
    'key': 'key of an extra spec',
    'keys': 'keys of extra specs or QoS specs, or names of changed fields',
    'length': 'size of a response body in bytes',
    'level': 'log level of a logger',
    'logical_volume': 'name of a logical volume',
    'metadata_percent': 'metadata usage of a thin pool in percent',
    'method': 'method of a request, or of an RPC interface',
    'missing': 'missing physical volumes',
    'mode': 'attach mode, ``rw`` or ``ro``',
    'name': 'name of a volume type, QoS specs or online data migration',
    'nearest': 'known name that is most similar to an unknown name',
    'new': 'state or version after a change',
    'old': 'state or version before a change',
    'operation': 'API operation (:doc:`../user/operations`), or ``none``',
    'option': 'name of an option',
    'outcome': 'outcome, as in :doc:`metrics`',
    'owner': 'process instance of a service that owns the work',
    'path': 'path of a request or a file',
    'peer': 'address and port of the client of a connection',
    'pid': 'process ID',
    'pool': '``host@backend#pool``',
    'port': 'port that the process listens on',
    'portals': 'addresses and ports of an iSCSI target',
    'prefix': 'prefix of logger names',
    'process': 'name of a process, the same as the command',
    'project_id': 'ID of a project, if different from the project of the request',
    'qos_specs_id': 'ID of QoS specs',
    'queue_seconds': 'part of ``seconds``: waiting for a slot',
    'reading': 'metric that is measured on demand',
    'reason': 'cause of a failure or a decision',
    'resource_id': 'ID of the resource that work is about',
    'row': 'row of the detach rule that applies (:doc:`detach_rule`)',
    'rows': 'number of rows of a table',
    'rpc_seconds': 'part of ``seconds``: sending RPC messages and waiting for replies',
    'rule': 'name of a policy rule',
    'seconds': 'duration in seconds',
    'server_id': 'ID of a server in Nova',
    'size_gb': 'size in GiB',
    'snapshot_id': 'ID of a snapshot',
    'source_volid': 'ID of the source volume of a new volume',
    'state': 'state of an attachment',
    'status': 'HTTP status of a response',
    'table': 'database table',
    'target': 'name of an iSCSI target',
    'task': 'name of a periodic task',
    'thin_pool': 'name of a thin pool',
    'topic': 'RPC topic',
    'url': 'URL that is served',
    'user': 'name of an account',
    'verb': 'requested operation on an attachment',
    'volume_group': 'name of a volume group',
    'volume_id': 'ID of a volume',
    'volume_status': 'status of the volume after a state change of an attachment',
    'volume_type_id': 'ID of a volume type',
    'work': 'asynchronous operation, for instance ``volume.create``',
}
"""Description of each log field by name, which ``doc/source/admin/logging.rst`` shows."""


# Fields of `step` that the log line of the request includes: identifiers and errors.
_NOTED = frozenset((
    'attachment_id', 'code', 'image_id', 'initiator', 'instance_uuid', 'pool', 'project_id',
    'qos_specs_id', 'reason', 'resource_id', 'server_id', 'snapshot_id', 'source_volid',
    'volume_id', 'volume_type_id'))
_MOST_NOTED = 400

_LINE_WITHOUT_REQUEST = ('%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s '
                         '%(instance)s%(message)s')
_NO_GLOBAL_REQUEST = '[None req-'


class Fields:
    """Identifiers of a log line, formatted without line breaks when the line is written.
    """

    __slots__ = ('_values',)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __str__(self) -> str:
        line = ''
        for name, value in self._values.items():
            text = str(value)
            # Untrusted text may contain a line break followed by a forged line.
            line += f' {name}={text if text.isprintable() else repr(text)}'
        return line

    def as_json(self) -> dict[str, Any]:
        """Return the identifiers by name. Values that are not plain data are converted to text.
        """
        return {name: value if isinstance(value, str | int | float | None) else str(value)
                for name, value in self._values.items()}


class Noted(Fields):
    """Fields of the log line of a request: identifiers of its steps, durations of its parts.
    """

    __slots__ = ('_token',)

    def __init__(self) -> None:
        super().__init__({})

    def begin(self) -> None:
        """Collect the fields that this thread passes to `step`, `about` and `took`, until `end`.
        """
        self._token = _noted.set(self)

    def end(self) -> None:
        """Stop collecting fields. Must be called by the thread that called `begin`."""
        _noted.reset(self._token)

    def about(self, identifiers: Mapping[str, Any]) -> None:
        """Add the identifiers and errors that are listed in `_NOTED`, and ignore other fields.

        Different values of a field are separated by commas.
        """
        for name, value in identifiers.items():
            if name not in _NOTED or value is None:
                continue
            text = str(value)
            former = self._values.setdefault(name, text)
            # Further values are only in the log lines of the steps.
            if text not in former and len(former) < _MOST_NOTED:
                self._values[name] = f'{former},{text}'

    def took(self, part: str, seconds: float) -> None:
        """Add ``seconds`` to the duration of a part of the request.

        :param part: log field of the duration, such as ``database_seconds``
        """
        self._values[part] = round(self._values.get(part, 0.0) + seconds, 6)


_noted: contextvars.ContextVar[Noted | None] = contextvars.ContextVar('noted', default=None)


class JsonFormatter(formatters.JSONFormatter):
    """oslo.log JSON formatter that puts identifiers into ``fields`` instead of ``message``."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {}
        arguments = record.args if isinstance(record.args, tuple) else ()
        for argument in arguments:
            if isinstance(argument, Fields):
                found |= argument.as_json()
        if found:
            # Other handlers must get the original record.
            record = logging.makeLogRecord(record.__dict__)
            record.args = tuple(Fields({}) if isinstance(argument, Fields) else argument
                                for argument in arguments)
        line = jsonutils.loads(super().format(record))
        # The message and ``fields`` already contain the arguments.
        del line['args']
        return jsonutils.dumps({**line, 'fields': found})


class LineFormatter(formatters.ContextFormatter):
    """oslo.log text formatter that omits the global request ID if there is none."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a log record, followed by the traceback if there is an exception."""
        return super().format(record).replace(_NO_GLOBAL_REQUEST, '[req-', 1)


def fields(**identifiers: Any) -> Fields:
    """Return the identifiers for a log line: ``LOG.info('Volume created%s', fields(...))``.
    """
    return Fields(identifiers)


def about(**identifiers: Any) -> None:
    """Add identifiers to the log line of the current request, if any."""
    if (of_request := _noted.get()) is not None:
        of_request.about(identifiers)


def took(part: str, seconds: float) -> None:
    """Add the duration of a part of the current request, if any, to its log line.

    :param part: log field of the duration, such as ``database_seconds``
    """
    if (of_request := _noted.get()) is not None:
        of_request.took(part, seconds)


def step(logger: logging.Logger, sentence: str, **identifiers: Any) -> None:
    """Log a state change, as in ``step(LOG, 'Volume created', volume_id=volume.id)``.

    The level is DEBUG within a request, which has its own line, and INFO otherwise.
    """
    level = logging.INFO
    if (of_request := _noted.get()) is not None:
        of_request.about(identifiers)
        level = logging.DEBUG
    if logger.isEnabledFor(level):
        logger.log(level, f'{sentence}%s', Fields(identifiers), stacklevel=2)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.log with the defaults of this service.

    Must be called before the command line is parsed. Verbose libraries are limited to warnings.
    """
    oslo_log.set_defaults(default_log_levels=[
        'oslo.messaging=WARNING', 'oslo_messaging=WARNING', 'stevedore=WARNING',
        # The "log" driver of notifications writes to this logger.
        'oslo.messaging.notification=INFO',
        # At each stop, amqp warns about messages that arrive while a connection is closed.
        'amqp=ERROR',
        'taskflow=WARNING', 'alembic=WARNING',
        # These libraries log rows and requests, including data of clients.
        'sqlalchemy=WARNING', 'keystoneauth=WARNING',
        # oslo.policy logs malformed rules with a traceback; the enforcer logs one line.
        'oslo_policy._parser=CRITICAL',
        # oslo.db logs each error with a traceback and raises it. The caller logs it again.
        'oslo_db.sqlalchemy.exc_filters=CRITICAL', 'oslo_db.api=CRITICAL'])
    oslo_log.register_options(conf)
    # The default of oslo.log contains "[-]" if there is no request.
    conf.set_default('logging_default_format_string', _LINE_WITHOUT_REQUEST)
    # The default of oslo.log is standard output, which commands use for their results.
    conf.set_default('use_stderr', True)


class LogFile(handlers.WatchedFileHandler):
    """Handler of a log file, which is reopened after a rotation.

    If reopening fails, the handler continues to write to the file that is open.
    `WatchedFileHandler` would raise an error for each log line, in any thread.
    """

    wrong: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Reopen the file if necessary, and write a log record."""
        self.follow()
        logging.FileHandler.emit(self, record)

    def follow(self) -> None:
        """Reopen the file if it was replaced or deleted."""
        before = self.wrong
        try:
            self._reopen()
            self.wrong = None
        except OSError as exc:
            self.wrong = f'cannot open the log file {self.baseFilename}: {exc.strerror}'
        if self.wrong is not None and self.wrong != before:
            logging.FileHandler.emit(self, logging.makeLogRecord({
                'name': __name__, 'levelno': logging.ERROR, 'levelname': 'ERROR',
                'msg': 'Failed to reopen the log file, keeping the previous one%s',
                'args': (Fields({'reason': self.wrong}),)}))

    def _reopen(self) -> None:
        with contextlib.suppress(OSError):
            found = os.stat(self.baseFilename)
            if (found.st_dev, found.st_ino) == (self.dev, self.ino):
                return
        opened = self._open()
        former, self.stream = self.stream, opened
        if former is not None:
            former.close()
        self._statstream()


def wrong() -> str | None:
    """Return the reason why a log file cannot be reopened, or None if all log files are open."""
    for handler in {one for logger in _all_loggers() for one in logger.handlers}:
        if isinstance(handler, LogFile):
            handler.acquire()
            try:
                handler.follow()
            finally:
                handler.release()
            if handler.wrong is not None:
                return handler.wrong
    return None


def check(conf: cfg.ConfigOpts) -> None:
    """Check the file configured with ``log_config_append``.

    :raises ConfigurationError: the file cannot be read
    """
    # The option is not registered if a process does not set up logging, as in tests.
    path = conf.log_config_append if 'log_config_append' in conf else None
    if path:
        try:
            with open(path, encoding='utf-8') as file:
                configparser.RawConfigParser().read_file(file)
        except (OSError, ValueError, configparser.Error) as exc:
            raise errors.ConfigurationError(
                reason=f'cannot read log_config_append = {path}: {exc}') from exc


def setup(conf: cfg.ConfigOpts) -> None:
    """Start logging as configured: to standard error, or to the configured files."""
    if conf.log_file or conf.log_dir:
        conf.set_default('use_stderr', False)
    oslo_log.setup(conf, 'blockattach')
    adopt(conf)


def adopt(conf: cfg.ConfigOpts) -> None:
    """Replace the file handlers and formatters of oslo.log with those of this module.

    This includes the handlers that ``log_config_append`` defines.
    """
    ours: dict[logging.Handler, logging.Handler] = {}
    for logger in _all_loggers():
        for former in list(logger.handlers):
            if type(former) is handlers.WatchedFileHandler:
                ours[former] = found = ours.get(former) or _as_log_file(former)
                logger.removeHandler(former)
                logger.addHandler(found)
    for former in ours:
        former.close()
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, formatters.JSONFormatter):
            handler.setFormatter(JsonFormatter(datefmt=conf.log_date_format))
        elif type(handler.formatter) is formatters.ContextFormatter:
            handler.setFormatter(LineFormatter(
                datefmt=conf.log_date_format, config=conf, project='blockattach'))


def _as_log_file(former: handlers.WatchedFileHandler) -> LogFile:
    ours = LogFile(former.baseFilename, former.mode, former.encoding, errors=former.errors)
    ours.setLevel(former.level)
    ours.setFormatter(former.formatter)
    ours.filters = former.filters
    return ours


def keep() -> Kept:
    """Return the level, propagation and handlers of each logger, for `restore`."""
    return {logger: (logger.level, logger.propagate, list(logger.handlers))
            for logger in _all_loggers()}


def restore(kept: Kept) -> None:
    """Reset loggers to the state that `keep` returned. Loggers created later stay unchanged.

    Closed file handlers open their files again at the next line.
    """
    for logger, (level, propagate, former) in kept.items():
        logger.setLevel(level)
        logger.propagate, logger.handlers = propagate, former


def levels(prefix: str = '') -> dict[str, str]:
    """Return the effective levels of the loggers whose names start with ``prefix``, by name."""
    return {name: logging.getLevelName(logger.getEffectiveLevel())
            for name, logger in sorted(_loggers(prefix).items())}


def set_levels(prefix: str, level: str) -> None:
    """Set the level of all loggers whose names start with ``prefix``, until the process ends.

    An empty prefix also sets the level of the root logger, which loggers created later inherit.

    :param level: one of `LEVELS`
    """
    for logger in _loggers(prefix).values():
        logger.setLevel(level)
    if not prefix:
        logging.getLogger().setLevel(level)


def _all_loggers() -> list[logging.Logger]:
    return [logging.getLogger(), *_loggers('').values()]


def _loggers(prefix: str) -> dict[str, logging.Logger]:
    # Other threads may add loggers meanwhile. Placeholders in the dictionary are no loggers.
    known = list(logging.Logger.manager.loggerDict.items())
    return {name: logger for name, logger in known
            if isinstance(logger, logging.Logger) and name.startswith(prefix)}
