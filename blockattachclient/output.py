"""Base classes of the commands, which check the output streams before a command is run."""
import argparse
import io
import os
from typing import ClassVar

from osc_lib import exceptions
from osc_lib.command import command

NO_OUTPUT = ('Standard output is closed, so the command was not run. Redirect standard output to '
             '/dev/null if the output is not needed.')
ESCAPED = 'backslashreplace'
"""Error handler of standard output. Characters that its encoding lacks are escaped."""


class Command(command.Command):
    """Base class of all commands.

    :cvar prints: False for a command without output, which may run with closed standard output
    """

    prints: ClassVar[bool] = True

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Prepare the output streams, and run the command.

        :raises CommandError: the command prints output, and standard output is closed
        """
        # Python sets a standard stream to None if its descriptor is closed.
        if self.prints and self.app.stdout is None:
            raise exceptions.CommandError(NO_OUTPUT)
        if isinstance(self.app.stdout, io.TextIOWrapper):
            self.app.stdout.reconfigure(errors=ESCAPED)
        if self.app.stderr is None:
            # A command must not abort because its progress cannot be printed.
            self.app.stderr = open(os.devnull, 'w')  # noqa: SIM115
        return super().run(parsed_args)


class Lister(Command, command.Lister):
    """Base class of commands that print a list."""


class ShowOne(Command, command.ShowOne):
    """Base class of commands that print one object."""
