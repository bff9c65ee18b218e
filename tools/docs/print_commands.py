#!/usr/bin/env python3
"""Print the page of a command, which is also its manual page, from the options of its parser."""
import argparse
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import NamedTuple

from oslo_config import cfg

import rst
from blockattach.cmd import allinone
from blockattach.cmd import api
from blockattach.cmd import compute
from blockattach.cmd import compute_api
from blockattach.cmd import control
from blockattach.cmd import manage
from blockattach.cmd import scheduler
from blockattach.cmd import status
from blockattach.cmd import upgrade_checks
from blockattach.cmd import volume
from blockattach.storage.conf import embedded


class Service(NamedTuple):
    """Command that runs until it is stopped, with the names of the related pages."""

    module: ModuleType
    more: tuple[str, ...]
    options: tuple[cfg.Opt, ...] = ()


SERVICES = {one.module.NAME: one for one in (
    Service(allinone, ('all_in_one', 'processes'), embedded.CLI_OPTS),
    Service(api, ('processes', 'tls', 'keystone', 'health')),
    Service(compute, ('compute', 'processes', 'health')),
    Service(compute_api, ('compute', 'processes', 'health')),
    Service(control, ('processes', 'bus', 'health')),
    Service(scheduler, ('processes', 'scheduling', 'health')),
    Service(volume, ('processes', 'storage', 'clusters', 'health')))}
NAMES = (*SERVICES, manage.NAME, status.NAME)

_CONFIGURED = """
``--config-file FILE``
    Configuration file. Can be repeated: later files override earlier ones. Default: see Files.

``--config-dir DIR``
    Directory whose ``*.conf`` files are read after the configuration files, sorted by name.

``--shell_completion {bash,zsh}``
    Print a completion script for the shell.

``--version``
    Print the version.

``-h``, ``--help``
    Print all options, including those of oslo.log (``--debug``, ``--log-file FILE``, ...).
"""

_FILES = """
Without ``--config-file``, ``blockattach.conf`` and ``{name}.conf`` are read, each from the first
of ``~/.blockattach``, ``~``, ``/etc/blockattach`` and ``/etc`` that contains the file. Without
``--config-dir``, the directories ``blockattach.conf.d`` and ``{name}.conf.d`` are read in the same
way. Options can also be set in the environment as ``OS_<GROUP>__<OPTION>``.
"""

_SIGNALS = {
    'SIGTERM, SIGINT': 'Accept no new work, finish the running work, and exit. A second signal '
                       'ends the process at once.',
    'SIGHUP': 'Reload the configuration files. Options that can change at run time take effect.',
    'SIGUSR2': 'Write a report of the state of the process to standard error, or to a file in '
               '``[oslo_reports] log_dir``.'}

_SERVICE_STATUSES = {
    '0': 'The process was stopped by a signal and finished the running work.',
    '1': 'The process cannot start (standard error contains the reason in one line), or the '
         'shutdown exceeded ``graceful_shutdown_timeout`` seconds.',
    '2': 'The command line is invalid.',
    '130, 143': 'The process was stopped by SIGINT or SIGTERM before it was serving, or by a '
                'second signal.'}

_MANAGE_INTRODUCTION = """
::

    blockattach-manage [--config-file FILE] [--config-dir DIR] NOUN [VERB] [ARGUMENT...]

The command runs on any host with the configuration of the processes. The exit status is 0 on
success, 1 on failure (standard error contains the reason in one line), and 2 if the command line
is invalid. Other exit statuses are described with the commands.
"""

_STATUS_INTRODUCTION = """
::

    blockattach-status health --file FILE [--max-age SECONDS] [--live]
    blockattach-status [--config-file FILE] [--config-dir DIR] upgrade check [--json]

``health`` reads no configuration.
"""


def page(name: str) -> str:
    """Return the page of a command."""
    if name == manage.NAME:
        return _manage_page()
    return _status_page() if name == status.NAME else _service_page(name, SERVICES[name])


def _service_page(name: str, service: Service) -> str:
    parts = [rst.NOTICE, rst.heading(name), f'\n{service.module.TEXT}\n',
             f'\n::\n\n    {name} [OPTION...]\n',
             _more(*service.more), rst.heading('Options', '-')]
    for option in service.options:
        choices = getattr(option.type, 'choices', None)
        value = f'{{{",".join(choices)}}}' if choices else option.metavar
        default = '' if option.default is None else f' Default: ``{option.default}``.'
        parts.append(_entry(f'--{option.name} {value}', f'{option.help}{default}'))
    parts += [_CONFIGURED, *_files(name), rst.heading('Signals', '-'),
              *(_entry(*signal) for signal in _SIGNALS.items()),
              rst.heading('Exit status', '-'),
              *(_entry(*one) for one in _SERVICE_STATUSES.items())]
    return ''.join(parts)


def _status_page() -> str:
    commands = argparse.ArgumentParser().add_subparsers()
    status.add_health(commands)
    upgrade_checks.add_upgrade(commands)
    return ''.join([
        rst.NOTICE, rst.heading(status.NAME), f'\n{status.TEXT}\n', _STATUS_INTRODUCTION,
        _more('health', 'upgrade'), *_parsers((), commands), rst.heading('Options', '-'),
        _CONFIGURED, *_files(status.NAME)])


def _manage_page() -> str:
    parts = [rst.NOTICE, rst.heading(manage.NAME), f'\n{manage.TEXT}\n', _MANAGE_INTRODUCTION]
    for name, noun in manage.NOUNS.items():
        if noun.alone is not None:
            parts.append(_command(name, noun.alone, '-'))
            continue
        parts += [rst.heading(name, '-'), f'\n{noun.text}\n']
        parts += [_command(f'{name} {verb}', command, '~')
                  for verb, command in noun.commands.items()]
    return ''.join([*parts, rst.heading('Options', '-'), _CONFIGURED, *_files(manage.NAME)])


def _more(*pages: str) -> str:
    """Return links to related pages, which a manual page does not contain."""
    links = ', '.join(f':doc:`{page}`' for page in pages)
    return f'\n.. only:: html\n\n   More: {links}.\n'


def _files(name: str) -> tuple[str, str]:
    return rst.heading('Files', '-'), _FILES.format(name=name)


def _parsers(words: tuple[str, ...], commands: 'argparse._SubParsersAction') -> Iterable[str]:
    """Yield the descriptions of commands and subcommands from their parsers."""
    for name, parser in commands.choices.items():
        path = (*words, name)
        yield rst.heading(' '.join(path), '~' if words else '-')
        yield f'\n{parser.description}\n'
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from _parsers(path, action)
            elif action.dest != 'help':
                value = '' if action.nargs == 0 else f' {action.metavar}'
                yield _entry(f'{action.option_strings[-1]}{value}', str(action.help))


def _command(words: str, command: manage.Command, underline: str) -> str:
    parts = [rst.heading(words, underline), f'\n{command.text}\n']
    parts += [_entry(f'{one.name}{_value(one)}', one.text)
              for one in (*command.arguments, *command.one_of)]
    if command.one_of:
        names = ', '.join(rst.literal(one.name) for one in command.one_of)
        parts.append(f'\nSpecify at most one of {names}.\n')
    return ''.join(parts)


def _value(one: manage.Argument) -> str:
    """Return the placeholder of the value of an option."""
    if not one.name.startswith('-') or one.more.get('action') == 'store_true':
        return ''
    if choices := one.more.get('choices'):
        return f' {{{",".join(choices)}}}'
    return ' ' + str(one.more.get('metavar') or one.name.lstrip('-').replace('-', '_').upper())


def _entry(term: str, text: str) -> str:
    return f'\n``{term}``\n    {text}\n'


if __name__ == '__main__':
    for name in sys.argv[1:] or NAMES:
        sys.stdout.write(page(name))
