"""The command line of every command: help that begins with our options, completion for shells.

oslo.config sorts all options by name, and its own completion is not installed with it. Its parser
is read here and shown in another order; what it accepts is not changed.
"""
import argparse
from collections.abc import Collection
from collections.abc import Iterator
from typing import NamedTuple
from typing import cast

from oslo_config import cfg

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


class _Place(NamedTuple):
    """What may be written behind some words; ``values`` are those of options that list them."""

    path: tuple[str, ...]
    words: list[str]
    values: dict[str, list[str]]


def shell_wanted(arguments: list[str]) -> str | None:
    """The shell whose completion is asked for by the first argument; None: it is not."""
    words = ' '.join(arguments[:2]).replace('=', ' ').split()
    return words[1] if words[:1] == [_COMPLETION] and words[1:2] and words[1] in _SHELLS else None


def help_text(conf: cfg.ConfigOpts, own: Collection[str]) -> str:
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


def is_help(conf: cfg.ConfigOpts, text: str) -> bool:
    """Whether a text is the help of the whole command."""
    return bool(text) and text == _parser(conf).format_help()


def completion(conf: cfg.ConfigOpts, shell: str) -> str:
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
