#!/usr/bin/env python3
"""Print the page of blockattach-manage, from the table that its parser is made of."""
import sys

import rst
from blockattach.cmd import manage

_INTRODUCTION = """
::

    blockattach-manage [--config-file FILE] [--config-dir DIR] NOUN [VERB] [ARGUMENT...]

It runs on any host that has the configuration which the processes read. Exit status 0 is success,
1 what cannot be done (standard error says why, in a line), 2 a wrong command line; where a command
has others it says so.
"""


def manage_page() -> str:
    """The page, which is the manual page as well."""
    parts = [rst.NOTICE, rst.heading(manage.NAME), _INTRODUCTION]
    for name, noun in manage.NOUNS.items():
        if noun.alone is not None:
            parts.append(_command(name, noun.alone, '-'))
            continue
        parts += [rst.heading(name, '-'), f'\n{noun.text}\n']
        parts += [_command(f'{name} {verb}', command, '~')
                  for verb, command in noun.commands.items()]
    return ''.join(parts)


def _command(words: str, command: manage.Command, underline: str) -> str:
    parts = [rst.heading(words, underline), f'\n{command.text}\n']
    parts += [f'\n``{one.name}{_value(one)}``\n    {one.text}\n'
              for one in (*command.arguments, *command.one_of)]
    if command.one_of:
        names = ', '.join(rst.literal(one.name) for one in command.one_of)
        parts.append(f'\nAt most one of {names} is given.\n')
    return ''.join(parts)


def _value(one: manage.Argument) -> str:
    """What an option takes, in its own words."""
    if not one.name.startswith('-') or one.more.get('action') == 'store_true':
        return ''
    if choices := one.more.get('choices'):
        return f' {{{",".join(choices)}}}'
    return ' ' + str(one.more.get('metavar') or one.name.lstrip('-').replace('-', '_').upper())


if __name__ == '__main__':
    sys.stdout.write(manage_page())
