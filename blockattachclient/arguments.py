"""Functions that parse command-line arguments for argparse, and reject invalid values."""
import argparse
import ipaddress
import uuid

from osc_lib import exceptions

LARGEST = 2 ** 31 - 1
"""Largest value of a numeric argument. System timers accept this number of seconds."""


def text(value: str) -> str:
    """Return an argument that is a text and not empty.

    :raises ArgumentTypeError: the argument is empty, or not valid in the encoding of the locale
    """
    if not value.strip():
        raise argparse.ArgumentTypeError('the value must not be empty')
    try:
        value.encode()
    except UnicodeEncodeError:
        # Python represents undecodable bytes as surrogates, which no request can contain.
        raise argparse.ArgumentTypeError(
            f'{value!r} is not valid text in the encoding of this locale') from None
    return value


def address(value: str) -> str:
    """Return an argument that is an IP address.

    :raises ArgumentTypeError: the argument is not an IP address
    """
    try:
        ipaddress.ip_address(value)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f'{value!r} is not an IP address, such as 192.0.2.1 or 2001:db8::1') from None
    return value


def identifier(value: str) -> str:
    """Return an argument that is an attachment ID.

    :raises ArgumentTypeError: the argument is not an ID
    """
    if not is_id(value):
        raise argparse.ArgumentTypeError(
            f'{value!r} is not an attachment ID, see "openstack volume attachment detail list"')
    return value


def is_id(value: str) -> bool:
    """Return True if the text is a UUID."""
    try:
        uuid.UUID(value)
    except ValueError:
        return False
    return True


def positive(value: str) -> int:
    """Return an argument that is a number from 1 to `LARGEST`.

    :raises ArgumentTypeError: the argument is not such a number
    """
    if not value.isdecimal() or not 1 <= int(value) <= LARGEST:
        raise argparse.ArgumentTypeError(f'{value!r} is not a number from 1 to {LARGEST}')
    return int(value)


def volume_with_modes(value: str) -> tuple[str, list[str]]:
    """Return the volume and the access modes of an argument ``volume[:mode[,mode...]]``.

    The list of modes is empty if the argument has no modes. A colon that no modes follow is a part
    of the name of the volume.

    :raises ArgumentTypeError: the volume is empty, or not valid in the encoding of the locale
    """
    name, colon, said = value.rpartition(':')
    modes = said.split(',')
    return (text(name), modes) if colon and {'ro', 'rw'}.issuperset(modes) else (text(value), [])


def count(value: str) -> int:
    """Return an argument that is a non-negative integer.

    :raises ArgumentTypeError: the argument is not a number
    """
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f'{value!r} is not a number')
    return int(value)


def all_or_nothing(given: argparse.Namespace, needed: str, others: tuple[str, ...]) -> None:
    """Check that options are only given together with the option that they require.

    :param needed: name of the required option
    :param others: names of the options that require the option ``needed``
    :raises CommandError: an option is given without the required option
    """
    if getattr(given, needed) is None:
        for name in others:
            if getattr(given, name):
                raise exceptions.CommandError(
                    f'--{name} requires --{needed}. Specify --{needed} as well, or omit --{name} '
                    'to only reserve the volume.')
