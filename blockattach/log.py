"""Set-up of logging, and the names of the fields that we log by.

A log line is a constant sentence with identifiers behind it, so that it can be searched for:
``Attachment has moved attachment_id=... volume_id=...``.
"""
from typing import Any

from oslo_config import cfg
from oslo_log import log as oslo_log


class Fields:
    """Identifiers rendered only when the line is written, and never as more than one line."""

    __slots__ = ('_values',)

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __str__(self) -> str:
        return ''.join(f' {name}={_one_line(str(value))}' for name, value in self._values.items())


def _one_line(text: str) -> str:
    """Text from outside may hold a line break, and behind it what looks like a line of ours."""
    return text if text.isprintable() else repr(text)


def fields(**identifiers: Any) -> Fields:
    """Identifiers for a constant sentence: ``LOG.info('Volume is created%s', fields(...))``."""
    return Fields(identifiers)


def register(conf: cfg.ConfigOpts) -> None:
    """Make oslo.log's options known; before the command line is read."""
    oslo_log.register_options(conf)
    # oslo.log's own default is standard output, where a command says what it has to say.
    conf.set_default('use_stderr', True)


def setup(conf: cfg.ConfigOpts) -> None:
    """Start logging as configured; libraries that chatter are held to warnings."""
    oslo_log.set_defaults(default_log_levels=[
        'oslo.messaging=WARNING', 'oslo_messaging=WARNING', 'stevedore=WARNING',
        'taskflow=WARNING', 'alembic=WARNING', 'cheroot=WARNING', 'sqlalchemy=WARNING',
        # Where the driver of notifications is "log", they are its lines.
        'oslo.messaging.notification=INFO',
        # It tells each error with a trace, and raises it: who asked tells it again.
        'oslo_db.sqlalchemy.exc_filters=CRITICAL'])
    oslo_log.setup(conf, 'blockattach')
