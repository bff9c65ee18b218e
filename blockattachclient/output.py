"""Commands whose output streams are made safe before they ask the service for anything."""
import argparse
import io
import os
from typing import ClassVar

from osc_lib import exceptions
from osc_lib.command import command

NO_OUTPUT = ('Standard output is closed, so nothing was done: redirect it to /dev/null if the '
             'output is not needed.')
ESCAPED = 'backslashreplace'
"""Characters that the encoding of a stream lacks are written as their codes: names stay distinct.
"""


class Command(command.Command):
    """Base class of the commands.

    :cvar prints: False for a command that prints nothing, which may run without standard output
    """

    prints: ClassVar[bool] = True

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Prepare the streams, and run the command.

        :raises CommandError: standard output is closed, and the command prints something
        """
        if self.prints and self.app.stdout is None:
            raise exceptions.CommandError(NO_OUTPUT)
        if isinstance(self.app.stdout, io.TextIOWrapper):
            self.app.stdout.reconfigure(errors=ESCAPED)
        if self.app.stderr is None:
            # Progress that nobody can read must not end a command halfway.
            self.app.stderr = open(os.devnull, 'w')  # noqa: SIM115
        return super().run(parsed_args)


class Lister(Command, command.Lister):
    """Base class of commands that print a list."""


class ShowOne(Command, command.ShowOne):
    """Base class of commands that print one object."""
