"""What arguments of commands may be; each is refused with the reason."""
import argparse
import uuid

from osc_lib import exceptions


def text(value: str) -> str:
    """An argument that is not empty.

    :raises ArgumentTypeError: it is
    """
    if not value.strip():
        raise argparse.ArgumentTypeError('it must not be empty')
    return value


def identifier(value: str) -> str:
    """An argument that is the ID of an attachment.

    :raises ArgumentTypeError: it is none
    """
    if not is_id(value):
        raise argparse.ArgumentTypeError(
            f'{value!r} is no ID of an attachment; see "openstack volume attachment detail list"')
    return value


def is_id(value: str) -> bool:
    """Whether a word has the form of an ID."""
    try:
        uuid.UUID(value)
    except ValueError:
        return False
    return True


def positive(value: str) -> int:
    """An argument that is a number, and not 0.

    :raises ArgumentTypeError: it is none
    """
    if not value.isdecimal() or not int(value):
        raise argparse.ArgumentTypeError(f'{value!r} is no positive number')
    return int(value)


def volume_with_modes(value: str) -> tuple[str, list[str]]:
    """An argument that is a volume, and perhaps modes behind a colon, with commas between."""
    name, colon, said = value.rpartition(':')
    modes = said.split(',')
    return (text(name), modes) if colon and {'ro', 'rw'}.issuperset(modes) else (text(value), [])


def count(value: str) -> int:
    """An argument that is a number.

    :raises ArgumentTypeError: it is none
    """
    if not value.isdecimal():
        raise argparse.ArgumentTypeError(f'{value!r} is no number')
    return int(value)


def all_or_nothing(given: argparse.Namespace, needed: str, others: tuple[str, ...]) -> None:
    """Options that mean nothing without another one.

    :raises CommandError: one is there without it
    """
    if getattr(given, needed) is None:
        for name in others:
            if getattr(given, name):
                raise exceptions.CommandError(
                    f'--{name} describes the host to connect: give --{needed} too, or leave '
                    f'--{name} out to reserve the volume only.')
