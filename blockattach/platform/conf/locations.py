"""The command line and the files: read, and each value with its place, so that an error names what
to change.

oslo.config sorts all options by name in its help, and its own completion for shells is not
installed with it. Its parser is read here and shown in another order; what it accepts is not
changed.
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
    # zsh reads completions of bash.
    'zsh': 'autoload -Uz compinit bashcompinit\ncompinit\nbashcompinit\n',
}
# In zsh path and words are variables of its own, and :C would be a modifier.
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
        raise refusal(conf, group, name, exc) from exc


def refusal(conf: cfg.ConfigOpts, group: str, name: str | None,
            reason: object) -> errors.ConfigurationError:
    """An error about an option, with the place where that is set behind its reason."""
    place = where(conf, group, name)
    return errors.ConfigurationError(reason=f'{reason} ({place})', place=place)


def read(conf: cfg.ConfigOpts, arguments: Sequence[str], own: Collection[str] = (),
         **options: Any) -> None:
    """Read the command line and the files, and every value once: none is found wrong later.

    :param own: options of this command alone, which its help shows first
    :param options: what else oslo.config wants to know
    :raises ConfigurationError: a value is none for its option
    :raises oslo_config.cfg.Error: a file cannot be read
    """
    words, shown = io.StringIO(), io.StringIO()
    shell = _shell_wanted(list(arguments))
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
        return _completion(conf, shell)
    is_whole = bool(shown) and shown == _parser(conf).format_help()
    return _help_text(conf, own) if is_whole else shown


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
            reason=f'{place} is invalid: {match["reason"] if match else exc}', place=place
        ) from exc


class _Place(NamedTuple):
    """What may be written behind some words; ``values`` are those of options that list them."""

    path: tuple[str, ...]
    words: list[str]
    values: dict[str, list[str]]


def _shell_wanted(arguments: list[str]) -> str | None:
    """The shell whose completion is asked for by the first argument; None: it is not."""
    words = ' '.join(arguments[:2]).replace('=', ' ').split()
    return words[1] if words[:1] == [_COMPLETION] and words[1:2] and words[1] in _SHELLS else None


def _help_text(conf: cfg.ConfigOpts, own: Collection[str]) -> str:
    """What ``--help`` prints: options of ours first, those of libraries in a group behind.

    :param own: options of this command alone
    """
    parser = _parser(conf)
    last = parser.add_argument_group(_OF_LIBRARIES)
    ours = parser._optionals._group_actions
    for action in list(ours):
        if action.dest not in own and action.dest not in _ALWAYS_OURS:
            ours.remove(action)
            last._group_actions.append(action)
    # Those of one command are named before those of every command.
    ours.sort(key=lambda action: action.dest in _ALWAYS_OURS)
    commands = ' COMMAND ...' if any(map(_commands, parser._actions)) else ''
    parser.usage = f'%(prog)s [OPTION...]{commands}'
    return parser.format_help()


def _completion(conf: cfg.ConfigOpts, shell: str) -> str:
    """A script that a shell reads to complete the words of the command."""
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
    """The words joined like in the script."""
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
    """That of the command line that was read last."""
    return cast('argparse.ArgumentParser', conf._oparser)
