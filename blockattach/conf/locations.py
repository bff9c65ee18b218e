"""Where the value of an option comes from, so that an error names the place to change."""
import argparse
import contextlib
import io
import re
import sys
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from blockattach import errors
from blockattach.conf import command_line

_REASON = re.compile(r'Value for option .+? from .+? is not valid: (?P<reason>.+)', re.DOTALL)
_FILE = re.compile(r"detail='(?P<place>[^']+)'")


def where(conf: cfg.ConfigOpts, group: str, name: str | None = None) -> str:
    """``[api] port in /etc/blockattach/blockattach.conf``, or how else it was set.

    :param group: ``DEFAULT`` for options without a group
    :param name: None: the group as a whole
    """
    files = ', '.join(conf.config_file or ())
    if name is None:
        return f'group [{group}] in {files or "no file"}'
    shown = f'[{group}] {name}'
    try:
        found = conf.get_location(name, None if group == 'DEFAULT' else group)
    except cfg.ConfigSourceValueError as exc:
        place = _FILE.search(str(exc))
        return f'{shown} in {place["place"]}' if place else shown
    if found is not None and found.location is cfg.Locations.user:
        return f'{shown} in {found.detail}'
    if found is not None and found.location is cfg.Locations.environment:
        return f'{shown} in the environment variable {found.detail}'
    if found is not None and found.location is cfg.Locations.command_line:
        return f'{shown} on the command line'
    return f'{shown}, not set in {files or "any file"}'


@contextlib.contextmanager
def named(conf: cfg.ConfigOpts, group: str, name: str | None = None) -> Iterator[None]:
    """Add to a refusal which option it is about, and where that is set; the innermost counts.

    :raises ConfigurationError: with the place behind its reason
    """
    try:
        yield
    except errors.ConfigurationError as exc:
        if 'place' in exc.kwargs:
            raise
        place = where(conf, group, name)
        raise errors.ConfigurationError(reason=f'{exc} ({place})', place=place) from exc


def read(conf: cfg.ConfigOpts, arguments: Sequence[str], own: Collection[str] = (),
         **options: Any) -> None:
    """Read the command line and the files, and every value once: none is found wrong later.

    :param own: options of this command alone, which its help shows first
    :param options: what else oslo.config wants to know
    :raises ConfigurationError: a value is none for its option
    :raises oslo_config.cfg.Error: a file cannot be read
    """
    words, shown = io.StringIO(), io.StringIO()
    shell = command_line.shell_wanted(list(arguments))
    try:
        with contextlib.redirect_stderr(words), contextlib.redirect_stdout(shown):
            conf(list(arguments) if shell is None else ['--help'], **options)
    except SystemExit as exc:
        if exc.code != 1:
            # A usage was asked for, or is shown because of the command line itself.
            sys.stdout.write(_answer(conf, shown.getvalue(), shell, own))
            sys.stderr.write(words.getvalue())
            raise
        # In a file, an option of the command line has a wrong value: oslo.config does not say
        # in which.
        raise errors.ConfigurationError(
            reason=f'{words.getvalue().strip()} (in {", ".join(_files(arguments, options))})'
        ) from None
    check_values(conf)


def _answer(conf: cfg.ConfigOpts, shown: str, shell: str | None, own: Collection[str]) -> str:
    """What the command prints instead of being run."""
    if shell is not None:
        return command_line.completion(conf, shell)
    return command_line.help_text(conf, own) if command_line.is_help(conf, shown) else shown


def _files(arguments: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument('--config-file', action='append')
    parser.add_argument('--config-dir', action='append', default=[])
    named = parser.parse_known_args(arguments)[0]
    found = named.config_file
    if found is None:
        found = cfg.find_config_files(options.get('project'), options.get('prog'))
    return [*found, *named.config_dir]


def check_values(conf: cfg.ConfigOpts, groups: Iterable[str] | None = None) -> None:
    """Read each option that is known.

    :param groups: only those of these groups
    :raises ConfigurationError: a value is none for its option
    """
    for name in conf if groups is None else groups:
        group = _value(conf, conf, 'DEFAULT', name)
        if isinstance(group, cfg.ConfigOpts.GroupAttr):
            for inner in group:
                _value(conf, group, name, inner)


def _value(conf: cfg.ConfigOpts, values: Mapping[str, Any], group: str, name: str) -> Any:
    try:
        return values[name]
    except cfg.ConfigSourceValueError as exc:
        match = _REASON.fullmatch(str(exc))
        place = where(conf, group, name)
        raise errors.ConfigurationError(
            reason=f'{place} is wrong: {match["reason"] if match else exc}', place=place) from exc
