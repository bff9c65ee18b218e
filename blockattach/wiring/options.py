"""List of all options of the service, for processes and for oslo-config-generator.

The module also finds options that configuration files set but no process reads, such as options
copied from a cinder.conf. The options of libraries are not in the list. The libraries provide them
to the generator, as listed in ``etc/blockattach/config-generator.conf``.
"""
import difflib
import importlib.metadata
import os
import pathlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from oslo_config import cfg

from blockattach.compute import conf as compute_conf
from blockattach.platform import errors
from blockattach.platform.conf import api
from blockattach.platform.conf import core
from blockattach.platform.conf import database
from blockattach.platform.conf import failpoints
from blockattach.platform.conf import health
from blockattach.platform.conf import locations
from blockattach.platform.conf import rpc
from blockattach.platform.conf import service
from blockattach.platform.conf import telemetry
from blockattach.storage.conf import attachment_map
from blockattach.storage.conf import attachments
from blockattach.storage.conf import backend
from blockattach.storage.conf import cinder_options
from blockattach.storage.conf import control
from blockattach.storage.conf import glance
from blockattach.storage.conf import images
from blockattach.storage.conf import nova
from blockattach.storage.conf import quota
from blockattach.storage.conf import scheduler
from blockattach.storage.conf import service_user
from blockattach.storage.conf import volume
from blockattach.storage.conf import watch

OPTIONS: tuple[tuple[str | None, Sequence[cfg.Opt]], ...] = (
    (None, core.OPTS),
    *((group.GROUP, group.OPTS) for group in (
        service, api, control, attachments, scheduler, volume, nova, glance, service_user, images,
        quota, rpc, database, health, watch, attachment_map, compute_conf)),
    (compute_conf.STORAGE_GROUP, compute_conf.STORAGE_OPTS),
    (telemetry.METRICS_GROUP, telemetry.METRICS_OPTS),
    (telemetry.TRACING_GROUP, telemetry.TRACING_OPTS),
    (failpoints.GROUP, failpoints.OPTS))

ACCOUNTS = (nova.GROUP, glance.GROUP, compute_conf.STORAGE_GROUP, service_user.GROUP)
"""Option groups that configure a Keystone account of this service."""
_DEFAULT = 'DEFAULT'
_OF_LIBRARIES = ('oslo.log', 'oslo.messaging')
"""Libraries whose options in [DEFAULT] have former names, or are not registered at the start."""
_LIBRARY_GROUPS = (
    'barbican', 'barbican_service_user', 'cors', 'healthcheck', 'key_manager',
    'keystone_authtoken', 'os_brick', 'oslo_concurrency', 'oslo_limit', 'oslo_middleware',
    'oslo_middleware_tracing', 'oslo_policy', 'oslo_reports', 'oslo_versionedobjects', 'privsep',
    'privsep_lio', 'privsep_lvm', 'privsep_osbrick', 'vault')
"""Option groups of libraries that this process may not have registered."""
_ACCOUNT = 'auth_section'
_ALIKE, _SIMILAR = 0.8, 0.6
"""Minimum similarity of a suggested option to the unknown name, from 0 to 1.

The first value applies to options of any group. If no option is similar enough, the second value
applies to options of the same group.
"""


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of all groups, except for the groups of backends.

    The options of a backend are registered when the backend is loaded.
    """
    for group, opts in OPTIONS:
        conf.register_opts(opts, group=group)
    database.set_defaults(conf)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return all options by group, for oslo-config-generator.

    The group ``file`` is an example of the group of a backend.
    """
    return [(group or 'DEFAULT', list(opts))
            for group, opts in (*OPTIONS, ('file', backend.OPTS))]


class Unknown(NamedTuple):
    """Option or group that is set in a configuration file, but that no process reads.

    :ivar name: name of the option, or empty for a group
    :ivar nearest: similar known option or group, or empty. The text contains the group of the
        similar option if that group differs
    """

    path: str
    group: str
    name: str
    nearest: str

    @property
    def finding(self) -> str:
        """Sentence about the option or group, without the path of the file."""
        meant = f' (did you mean {self.nearest}?)' if self.nearest else ''
        if not self.name:
            return f'[{self.group}] is an unknown group{meant}'
        return f'[{self.group}] {self.name} is unknown{meant}'


class Unsupported(NamedTuple):
    """Security-related option of Cinder that is set, but not supported by this service.

    :ivar path: path of the file, or ``the environment``
    :ivar now: ``[group] name`` of the equivalent option of this service, or empty
    """

    path: str
    group: str
    name: str
    now: str

    def __str__(self) -> str:
        advice = f'set {self.now} instead' if self.now else 'remove it'
        return f'[{self.group}] {self.name} in {self.path} ({advice})'


def find_unknown(conf: cfg.ConfigOpts) -> list[Unknown]:
    """Return the options and groups that configuration files set, but that no process reads.

    Options are only checked in [DEFAULT], [ssl], and the groups of this service and of backends.
    In groups of libraries, plugins may have further options. Unneeded options of Cinder are
    omitted; see `find_unneeded`.
    """
    known = _known(conf)
    found: list[Unknown] = []
    for path in _files(conf):
        for group, values in _sections(path).items():
            if group not in known and _is_backend(group, values):
                # The backend of another host that shares the file.
                known[group] = set(_names(backend.OPTS))
            if group in known:
                found += [Unknown(path, group, name, '') for name in values
                          if _plain(name) not in known[group]
                          and not _is_unneeded(group, name)]
            elif group not in cinder_options.GROUPS:
                found.append(Unknown(path, group, '', ''))
    if any(not one.name or one.group == _DEFAULT for one in found):
        # Loaded only if needed, because loading takes a moment.
        for group, names in _of_libraries(conf).items():
            known[group] = known.get(group, set()) | (names if group == _DEFAULT else set())
    return [one._replace(nearest=_nearest(one, known)) for one in found
            if not _is_read(one, known)]


def find_unneeded(conf: cfg.ConfigOpts) -> list[tuple[str, str, str]]:
    """Return file path, group and name of each option of Cinder that this service does not need.
    """
    return [(path, group, name) for path in _files(conf)
            for group, values in _sections(path).items() for name in values
            if _is_unneeded(group, name)]


def check_supported(conf: cfg.ConfigOpts) -> None:
    """Check that no unsupported, security-related options of Cinder are set.

    :raises ConfigurationError: a file or the environment sets such an option, and
        [service] accept_unsupported does not name the option
    """
    with locations.named(conf, service.GROUP, 'accept_unsupported'):
        accepted = set(map(_accepted, conf[service.GROUP].accept_unsupported))
    found = [str(one) for one in find_unsupported(conf) if (one.group, one.name) not in accepted]
    if found:
        raise errors.ConfigurationError(
            reason='cannot start, because security-related options of Cinder are not supported: '
                   f'{", ".join(found)}. To start without these options, add their names to '
                   f'[service] accept_unsupported')


def find_unsupported(conf: cfg.ConfigOpts) -> list[Unsupported]:
    """Return the options of Cinder, in files and environment, that can prevent the start.

    Options that [service] accept_unsupported names are included.
    """
    found = []
    for path, sections in (*((path, _sections(path)) for path in _files(conf)),
                           ('the environment', _environment())):
        for group, values in sections.items():
            stops = cinder_options.GROUPS[group].stops if group in cinder_options.GROUPS else {}
            found += [Unsupported(path, group, _plain(name), stops[_plain(name)].now)
                      for name, texts in values.items() if _plain(name) in stops
                      and not _is_settled(conf, stops[_plain(name)], texts[-1])]
    return found


def _is_settled(conf: cfg.ConfigOpts, stop: cinder_options.Stop, text: str) -> bool:
    """Return True if the value of an option of Cinder does not prevent the start.

    This is the case if the value has no effect in Cinder, if it equals the value of the equivalent
    option of this service, or if an operator has set the equivalent option.
    """
    text = text.strip().strip('"\'')
    if not text or text.lower() in stop.harmless:
        return True
    if not stop.now:
        return False
    group, name = stop.now[1:].split('] ')
    place = conf.get_location(name, group)
    # An operator who has set the option here has decided about its value.
    if place is not None and place.location.is_user_controlled:
        return True
    [option] = [option for where, options in list_opts() if where == group
                for option in options if option.dest == name]
    try:
        return bool(option.type(text) == conf[group][name])
    except ValueError:
        return False


def _accepted(name: str) -> tuple[str, str]:
    """Parse an item of ``accept_unsupported`` (``name`` or ``group.name``) into group and name.

    :raises ConfigurationError: the option does not prevent the start
    """
    group, _, last = name.strip().removeprefix('[').replace('] ', '.').rpartition('.')
    key = _group(group or _DEFAULT), _plain(last)
    if key[0] not in cinder_options.GROUPS or key[1] not in cinder_options.GROUPS[key[0]].stops:
        raise errors.ConfigurationError(
            reason=f'{name} is not an option of Cinder that prevents the start')
    return key


def _environment() -> dict[str, dict[str, list[str]]]:
    """Return values of environment variables, for options of Cinder that prevent the start.

    :returns: values by group and name of the option
    """
    return {group: {name: [os.environ[variable]] for name in options.stops
                    if (variable := f'OS_{group}__{name}'.upper()) in os.environ}
            for group, options in cinder_options.GROUPS.items()}


def _known(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    known: dict[str, set[str]] = {
        _DEFAULT: {name for name in map(str, conf)
                   if not isinstance(conf[name], cfg.ConfigOpts.GroupAttr)}}
    for group, found in list_opts():
        known.setdefault(group, set()).update(_names(found))
        for option in found:
            for former in option.deprecated_opts:
                known.setdefault(former.group or group, set()).add(
                    _plain(former.name or option.dest))
    for group in ACCOUNTS:
        # Includes the options of the configured plugin.
        known[group].update(conf[group])
    of_backends = set(_names(backend.OPTS))
    # The group is only an example in the sample file, unless a backend has this name.
    known.pop('file')
    # The backend of blockattach-all is an option of its command line.
    embedded = [conf.backend] if 'backend' in conf else []
    for name in (*conf.volume.enabled_backends, *embedded):
        known.setdefault(_group(name), set()).update(of_backends)
    # A group of oslo.service whose options this service does not use.
    known['ssl'] = set()
    return known


def _of_libraries(conf: cfg.ConfigOpts) -> dict[str, set[str]]:
    """Return the option groups of libraries, and the options of libraries in [DEFAULT].

    :returns: names of options by group, empty for groups other than [DEFAULT]
    """
    found: dict[str, set[str]] = {name: set() for name in _LIBRARY_GROUPS}
    found[_DEFAULT] = set()
    for name in map(str, conf):
        if isinstance(conf[name], cfg.ConfigOpts.GroupAttr):
            found[_group(name)] = set()
    # Not all installed libraries: listing options has side effects in some of them.
    for entry in importlib.metadata.entry_points(group='oslo.config.opts'):
        if entry.name in _OF_LIBRARIES:
            for group, listed in entry.load()():
                if group is None or str(group) == _DEFAULT:
                    found[_DEFAULT].update(_names(listed))
    for path in _files(conf):
        for values in _sections(path).values():
            # A group to which auth_section of another group refers.
            found.update({_group(name): set() for name in values.get(_ACCOUNT, ())
                          if name != _DEFAULT})
    return found


def _is_backend(group: str, values: Iterable[str]) -> bool:
    """Return True if a group has options of backends, and is not [backend_defaults] of Cinder.

    The backend may be enabled on another host that has the same file.
    """
    # A group of Cinder that this service does not read.
    return group != 'backend_defaults' and bool(
        set(map(_plain, values)) & set(_names(backend.OPTS)))


def _is_unneeded(group: str, name: str) -> bool:
    rows = cinder_options.GROUPS.get(group)
    return rows is not None and _plain(name) in rows.unneeded.split()


def _is_read(unknown: Unknown, read: Mapping[str, set[str]]) -> bool:
    return unknown.group in read and (
        not unknown.name or _plain(unknown.name) in read[unknown.group])


def _nearest(unknown: Unknown, read: Mapping[str, set[str]]) -> str:
    """Return the known option or group that is probably meant by an unknown name, or ''.

    For a renamed or unsupported option of Cinder, the equivalent option of this service is
    returned. For other names, the most similar known name is returned.

    :param read: names of the options that are read, by group
    """
    if not unknown.name:
        return next(iter(difflib.get_close_matches(
            unknown.group, sorted(read), 1, _ALIKE)), '')
    name, own = _plain(unknown.name), read[unknown.group]
    if unknown.group in cinder_options.GROUPS:
        carried_over = cinder_options.GROUPS[unknown.group]
        if name in carried_over.renamed:
            return carried_over.renamed[name]
        if name in carried_over.stops:
            return carried_over.stops[name].now
    others = {other: f'[{group}] {other}' for group in sorted(read, reverse=True)
              for other in read[group] if group != unknown.group}
    for names, cutoff in ((own, _ALIKE), (others, _ALIKE), (own, _SIMILAR)):
        for match in difflib.get_close_matches(name, sorted(names), 1, cutoff):
            return match if names is own else others[match]
    return ''


def _names(options: Iterable[cfg.Opt]) -> Iterator[str]:
    """Yield the names of options, including their deprecated names."""
    for option in options:
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


def _sections(path: str) -> dict[str, dict[str, list[str]]]:
    """Return the raw values of all options in a file, by group and option name."""
    sections: dict[str, dict[str, list[str]]] = {}
    # The parser of oslo.config, because the one in the standard library rejects repeated
    # options.
    cfg.ConfigParser(path, sections).parse()
    merged: dict[str, dict[str, list[str]]] = {}
    for name, values in sections.items():
        merged.setdefault(_group(name), {}).update(values)
    return merged


def _group(name: str) -> str:
    """Return the name of an option group in lower case, except for DEFAULT."""
    return name if name == _DEFAULT else name.lower()
