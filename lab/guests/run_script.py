#!/usr/bin/env python3
"""Run a script in a new guest. The wrapper lab/guests/run prepares the machine."""
import argparse
import os
import sys

from blockattach.platform import units
from lab.guests.machines import guest
from lab.guests.machines import remote

# Exit codes of timeout(1) and of the shell.
TIMED_OUT = 124
CANNOT_RUN = 125
KILLED = 128


def main() -> int:
    """Return the exit code of the script, 124 after a timeout, or 125 without a guest."""
    options = parser().parse_args()
    reason = guest.missing()
    if reason is not None:
        print(f'Cannot run the lab: {reason}', file=sys.stderr)
        return CANNOT_RUN
    if options.results is not None:
        os.makedirs(options.results, exist_ok=True)
    disks = [guest.make_disk(units.gib_to_bytes(size)) for size in options.disk]
    with guest.Guest('lab', memory=options.memory, disks=disks, udev=options.udev,
                     modules=guest.STORAGE + guest.INITIATOR, shared=options.results) as machine:
        try:
            machine.start()
            code = machine.run(options.script, *options.arguments, timeout=options.timeout,
                               check=False, directory=os.getcwd(), listener=pass_on).code
            return code if code >= 0 else KILLED - code
        except remote.CommandTimeout:
            print(f'Script timed out: it took more than {options.timeout} s', file=sys.stderr)
            return TIMED_OUT
        except remote.LabError as exc:
            print(f'Cannot run the lab: {exc}', file=sys.stderr)
            return CANNOT_RUN


def parser() -> argparse.ArgumentParser:
    """Return the argument parser of lab/guests/run."""
    made = argparse.ArgumentParser(prog='lab/guests/run')
    made.add_argument('--disk', type=int, action='append', default=[], metavar='GIB',
                      help='Size of an empty disk. The first one is /dev/ubda, then /dev/ubdb.')
    made.add_argument('--memory', default='1G', help='Memory of the guest. Default: 1G.')
    made.add_argument('--udev', action='store_true',
                      help='Start udevd, which creates the links in /dev/disk.')
    made.add_argument('--results', type=os.path.abspath, metavar='FOLDER',
                      help='Directory that the script can write as /results.')
    made.add_argument('--timeout', type=float, default=600.0, metavar='SECONDS',
                      help='Maximum duration of the script. Default: 600.')
    made.add_argument('script', help='Program, or a path relative to this directory.')
    made.add_argument('arguments', nargs=argparse.REMAINDER, help='Arguments of the program.')
    return made


def pass_on(stream: str, said: bytes) -> None:
    """Write output of the script to the same stream of this process."""
    to = sys.stdout if stream == 'o' else sys.stderr
    to.buffer.write(said)
    to.buffer.flush()


if __name__ == '__main__':
    sys.exit(main())
