"""Parsing of the command line and the configuration files.

Errors name the file, or the other source, that sets the option. The help of oslo.config sorts all
options by name, and its shell completion is not installed. This module therefore prints the help
and the completion from the parser of oslo.config. The accepted command lines do not change.
"""
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
from typing import NamedTuple
from typing import cast

from oslo_config import cfg

from blockattach.platform import errors

_REASON = re.compile(r'Value for option .+? from .+? is not valid: (?P<reason>.+)', re.DOTALL)
_FILE = re.compile(r"detail='(?P<place>[^']+)'")

_COMPLETION = '--shell_completion'
_ALWAYS_OURS = ('help', 'version', 'config_file', 'config_dir')
_OF_LIBRARIES = 'options of oslo.config and oslo.log'
_SHELLS = {
    'bash': '',
    # zsh can load bash completions.
    'zsh': 'autoload -Uz compinit bashcompinit\ncompinit\nbashcompinit\n',
}
# zsh reserves the variables path and words, and treats :C as a modifier.
_SCRIPT = """\
{begin}_{function}() {{
    local word place='' offered=''
    for word in "${{COMP_WORDS[@]:1:$((COMP_CWORD - 1))}}"; do
        case "$place $word" in
            {paths}) place="$place $word" ;;
        esac
    done
    case "$place" in
{words}
    esac
    case "$place ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    esac
    COMPREPLY=($(compgen -W "$offered" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _{function} {program}
"""


def where(conf: cfg.ConfigOpts, group: str, name: str | None = None) -> str:
    """Return an option with its source, as in ``[api] port in /etc/blockattach/blockattach.conf``.

    The source may also be an environment variable or the command line. The text also says if the
    option is not set.

    :param group: ``DEFAULT`` for options without a group
    :param name: None for the group as a whole
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
    """Add an option and its source to a ConfigurationError that does not name an option yet.

    :param name: None for the group as a whole
    :raises ConfigurationError: the error, with the option and its source after the reason
    """
    try:
        yield
    except errors.ConfigurationError as exc:
        if 'place' in exc.kwargs:
            raise
        raise refusal(conf, group, name, exc) from exc


def refusal(conf: cfg.ConfigOpts, group: str, name: str | None,
            reason: object) -> errors.ConfigurationError:
    """Return an error about an option, with the option and its source after the reason."""
    place = where(conf, group, name)
    return errors.ConfigurationError(reason=f'{reason} ({place})', place=place)


def read(conf: cfg.ConfigOpts, arguments: Sequence[str], own: Collection[str] = (),
         **options: Any) -> None:
    """Parse the command line and the configuration files, and check every value.

    :param own: names of the options that only this command has, which its help shows first
    :param options: further arguments of oslo.config
    :raises ConfigurationError: a value is invalid for its option
    :raises oslo_config.cfg.Error: a file cannot be read
    :raises SystemExit: help or a completion was requested, or the command line is invalid
    """
    words, shown = io.StringIO(), io.StringIO()
    shell = _shell_wanted(list(arguments))
    try:
        # With --help, oslo.config builds its parser and stops. A completion needs only the parser.
        with contextlib.redirect_stderr(words), contextlib.redirect_stdout(shown):
            conf(list(arguments) if shell is None else ['--help'], **options)
    except SystemExit as exc:
        if exc.code != 1:
            # Help was requested, or the command line is invalid.
            sys.stdout.write(_answer(conf, shown.getvalue(), shell, own))
            sys.stderr.write(words.getvalue())
            raise
        # A file contains an invalid value for a command line option. oslo.config does not
        # report which file.
        raise errors.ConfigurationError(
            reason=f'{words.getvalue().strip()} (in {", ".join(_files(arguments, options))})'
        ) from None
    check_values(conf)


def _answer(conf: cfg.ConfigOpts, shown: str, shell: str | None, own: Collection[str]) -> str:
    """Return the help or the completion script, which the command prints.
    """
    if shell is not None:
        return _completion(conf, shell)
    # The help of a subcommand is printed in the form of argparse.
    is_whole = bool(shown) and shown == _parser(conf).format_help()
    return _help_text(conf, own) if is_whole else shown


def _files(arguments: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    # After a failure, oslo.config does not show which files it has read.
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument('--config-file', action='append')
    parser.add_argument('--config-dir', action='append', default=[])
    named = parser.parse_known_args(arguments)[0]
    found = named.config_file
    if found is None:
        found = cfg.find_config_files(options.get('project'), options.get('prog'))
    return [*found, *named.config_dir]


def check_values(conf: cfg.ConfigOpts, groups: Iterable[str] | None = None) -> None:
    """Check the values of all registered options.

    :param groups: only check the options of these groups; None for all groups
    :raises ConfigurationError: a value is invalid for its option
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
            reason=f'{place} is invalid: {match["reason"] if match else exc}', place=place
        ) from exc


class _Place(NamedTuple):
    """Words and option values that a completion offers after a path of subcommands."""

    path: tuple[str, ...]
    words: list[str]
    values: dict[str, list[str]]


def _shell_wanted(arguments: list[str]) -> str | None:
    """Return the shell for which the first argument requests a completion, or None."""
    words = ' '.join(arguments[:2]).replace('=', ' ').split()
    return words[1] if words[:1] == [_COMPLETION] and words[1:2] and words[1] in _SHELLS else None


def _help_text(conf: cfg.ConfigOpts, own: Collection[str]) -> str:
    """Return the text of ``--help``, with the options of libraries in a group at the end.

    :param own: names of the options that only this command has
    """
    parser = _parser(conf)
    last = parser.add_argument_group(_OF_LIBRARIES)
    # argparse has no public method that moves an option to another group.
    ours = parser._optionals._group_actions
    for action in list(ours):
        if action.dest not in own and action.dest not in _ALWAYS_OURS:
            ours.remove(action)
            last._group_actions.append(action)
    # Options of this command are listed before the common options.
    ours.sort(key=lambda action: action.dest in _ALWAYS_OURS)
    commands = ' COMMAND ...' if any(map(_commands, parser._actions)) else ''
    parser.usage = f'%(prog)s [OPTION...]{commands}'
    return parser.format_help()


def _completion(conf: cfg.ConfigOpts, shell: str) -> str:
    """Return a shell script that completes the words of the command."""
    parser = _parser(conf)
    places = list(_places(parser, ()))
    function = parser.prog.replace('-', '_')
    return _SCRIPT.format(
        begin=_SHELLS[shell], function=function, program=parser.prog,
        paths='|'.join(_quoted(*place.path) for place in places if place.path) or "''",
        words='\n'.join(f"        {_quoted(*place.path)}) offered='{' '.join(place.words)}' ;;"
                        for place in places),
        values='\n'.join(f"        {_quoted(*place.path, option)}) offered='{' '.join(found)}' ;;"
                         for place in places for option, found in place.values.items()))


def _quoted(*words: str) -> str:
    """Return words as a quoted pattern for a ``case`` statement of the completion script."""
    return f"'{''.join(f' {word}' for word in words)}'"


def _places(parser: argparse.ArgumentParser, path: tuple[str, ...]) -> Iterator[_Place]:
    here = _Place(path, [], {})
    for action in parser._actions:
        words = [word for word in action.option_strings if word.startswith('--')]
        here.words.extend(words)
        commands = _commands(action)
        if commands:
            here.words.extend(commands)
        elif action.choices:
            for word in words:
                here.values[word] = [str(choice) for choice in action.choices]
    yield here
    for action in parser._actions:
        for name, inner in _commands(action).items():
            yield from _places(inner, (*path, name))


def _commands(action: argparse.Action) -> dict[str, argparse.ArgumentParser]:
    if not isinstance(action, argparse._SubParsersAction):
        return {}
    return cast('dict[str, argparse.ArgumentParser]', action.choices)


def _parser(conf: cfg.ConfigOpts) -> argparse.ArgumentParser:
    """Return the parser of the last parsed command line."""
    return cast('argparse.ArgumentParser', conf._oparser)
