"""``blockattach-manage attachments``: what is wrong with them, and what repairs it."""
import dataclasses
import json

from oslo_config import cfg

from blockattach.storage import errors
from blockattach.storage.db import derived
from blockattach.storage.domain.invariants import observed
from blockattach.wiring import dependencies
from blockattach.wiring import one_shot

NOT_ALL_ASKED = 1
SOME_VIOLATED = 3


def check(conf: cfg.ConfigOpts) -> int:
    """Compare the rows with each other and with the targets that answer; print what is wrong."""
    noun = conf.noun
    built = one_shot.build_checker(conf, dependencies.open_database(conf))
    found = built.checker.lasting()
    silent = built.checker.silent
    if noun.volume_id is not None:
        found = [one for one in found if one.volume_id == noun.volume_id]
    if noun.format == 'json':
        print(json.dumps({'targets': [host for host in built.seen if host not in silent],
                          'targets_not_asked': built.unseen, 'targets_silent': silent,
                          'violations': [dataclasses.asdict(one) for one in found]}, indent=2))
    else:
        _print(built, found)
    if found:
        return SOME_VIOLATED
    return NOT_ALL_ASKED if silent else 0


def derive(conf: cfg.ConfigOpts) -> None:
    """Write anew what follows from the rows of a volume, or the counts.

    :raises ConfigurationError: neither is named, or there is no such volume
    """
    noun = conf.noun
    if (noun.volume_id is None) != noun.counts:
        raise errors.ConfigurationError(reason='specify either a volume or --counts')
    database = dependencies.open_database(conf)
    if noun.counts:
        derived.counts(database)
        return
    try:
        derived.volume_status(database, noun.volume_id)
    except errors.VolumeNotFound as exc:
        raise errors.ConfigurationError(reason=str(exc)) from exc


def _print(built: one_shot.Checking, found: list[observed.Violation]) -> None:
    for host in built.unseen:
        print(f'Skipping the target of {host}, which is in the memory of its service.')
    for host, reason in built.checker.silent.items():
        print(f'The target of {host} does not respond, its rows are compared without the target: '
              f'{reason}')
    if not built.seen and not built.unseen:
        print('No backend is configured. The rows are compared with each other only.')
    for one in found:
        of = one.attachment_id or one.volume_id
        print(f'{one.promise} {one.invariant} ({one.severity}): '
              f'{f"{of} " if of else ""}{one.said}')
        print(f'    repair with: {one.repair}')
    print(f'{len(found)} violations' if found else 'No violations.')
