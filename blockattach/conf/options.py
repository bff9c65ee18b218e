"""All options of the service: registered for a process, listed for oslo.config's generator, and
those that files set and no process reads.

The libraries list theirs themselves: ``etc/blockattach/config-generator.conf`` names them.
"""
import difflib
import importlib.metadata
import pathlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

from oslo_config import cfg

from blockattach.conf import api
from blockattach.conf import attachment_map
from blockattach.conf import attachments
from blockattach.conf import backend
from blockattach.conf import compute
from blockattach.conf import control
from blockattach.conf import core
from blockattach.conf import database
from blockattach.conf import failpoints
from blockattach.conf import glance
from blockattach.conf import health
from blockattach.conf import images
from blockattach.conf import nova
from blockattach.conf import quota
from blockattach.conf import rpc
from blockattach.conf import scheduler
from blockattach.conf import service
from blockattach.conf import telemetry
from blockattach.conf import volume
from blockattach.conf import watch

OPTIONS: tuple[tuple[str | None, Sequence[cfg.Opt]], ...] = (
    (None, core.OPTS),
    *((group.GROUP, group.OPTS) for group in (
        service, api, control, attachments, scheduler, volume, nova, glance, images, quota, rpc,
        database, health, watch, attachment_map, compute)),
    (compute.STORAGE_GROUP, compute.STORAGE_OPTS),
    (telemetry.METRICS_GROUP, telemetry.METRICS_OPTS),
    (telemetry.TRACING_GROUP, telemetry.TRACING_OPTS),
    (failpoints.GROUP, failpoints.OPTS))

_DEFAULT = 'DEFAULT'
_OF_LIBRARIES = ('oslo.log', 'oslo.messaging')
"""Whose options in [DEFAULT] have former names, or are registered late."""


def register(conf: cfg.ConfigOpts) -> None:
    """Make every group known; the group of a backend is, when the backend is enabled."""
    for group, opts in OPTIONS:
        conf.register_opts(opts, group=group)
    database.set_defaults(conf)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Groups with their options; the group of a backend stands for any such group."""
    return [(group or 'DEFAULT', list(opts))
            for group, opts in (*OPTIONS, ('file', backend.OPTS))]


class Unknown(NamedTuple):
    """An option that a file sets and no process reads: most of them are misspelt.

    ``nearest``: the known option that is spelt most like it; empty: none is.
    """

    path: str
    group: str
    name: str
    nearest: str

    @property
    def finding(self) -> str:
        """Sentence without the path, for a list of the names in one file."""
        meant = f': is {self.nearest} meant?' if self.nearest else ''
        return f'[{self.group}] {self.name} is not known{meant}'


def find_unknown(conf: cfg.ConfigOpts) -> list[Unknown]:
    """All in the files of a configuration that has been read; oslo.config ignores them.

    Looked at are the groups of which we know every option: ours, those of the enabled backends,
    and [DEFAULT]. Groups of libraries may have options that only some of their plugins know.
    """
    known = _known(conf)
    found = [Unknown(path, group, name, '') for path in _files(conf)
             for group, names in _sections(path).items()
             for name in names if group in known and _plain(name) not in known[group]]
    if any(one.group == _DEFAULT for one in found):
        # Only now: it takes a moment.
        known[_DEFAULT] |= _of_libraries()
    return [one._replace(nearest=next(iter(
                difflib.get_close_matches(_plain(one.name), sorted(known[one.group]), 1)), ''))
            for one in found if _plain(one.name) not in known[one.group]]


def _known(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    """Names of options by group."""
    known: dict[str, set[str]] = {_DEFAULT: set(map(str, conf))}
    for group, found in list_opts():
        known.setdefault(group, set()).update(_names(found))
        for option in found:
            for former in option.deprecated_opts:
                known.setdefault(former.group or group, set()).add(
                    _plain(former.name or option.dest))
    of_backends = set(_names(backend.OPTS))
    # The sample's, unless a backend is called so.
    known.pop('file')
    # The only one of blockattach-all is named on its command line.
    embedded = [conf.backend] if 'backend' in conf else []
    for name in (*conf.volume.enabled_backends, *embedded):
        known.setdefault(_group(name), set()).update(of_backends)
    return known


def _of_libraries() -> set[str]:
    found: set[str] = set()
    for entry in importlib.metadata.entry_points(group='oslo.config.opts'):
        if entry.name in _OF_LIBRARIES:
            for group, listed in entry.load()():
                if group is None or str(group) == _DEFAULT:
                    found.update(_names(listed))
    return found


def _names(found: Iterable[cfg.Opt]) -> Iterator[str]:
    """With those that they had in former releases."""
    for option in found:
        yield _plain(option.dest)
        for former in option.deprecated_opts:
            if former.name is not None:
                yield _plain(former.name)


def _plain(name: str) -> str:
    return name.replace('-', '_')


def _files(conf: cfg.ConfigOpts) -> Iterator[str]:
    yield from conf.config_file or ()
    for folder in conf.config_dir or ():
        yield from sorted(map(str, pathlib.Path(folder).glob('*.conf')))


def _sections(path: str) -> dict[str, list[str]]:
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(path, sections).parse()
    return {_group(name): list(found) for name, found in sections.items()}


def _group(name: str) -> str:
    """A name of a group in the form that oslo.config compares."""
    return name if name == _DEFAULT else name.lower()
