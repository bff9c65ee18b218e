"""``blockattach-manage attachments``: check of the invariants of attachments, and their repair."""
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
    """Compare attachment rows with each other and with targets, and print violated invariants.

    Targets that do not respond, or are in the memory of their service, are skipped.

    :returns: exit status, as in the help of the command
    """
    noun = conf.noun
    built = one_shot.build_checker(conf, dependencies.open_database(conf))
    # Services are usually running, and rows and targets cannot be read at the same moment. Only
    # violations that persist are reported.
    violations = built.checker.lasting()
    silent = built.checker.silent
    if noun.volume_id is not None:
        violations = [each for each in violations if each.volume_id == noun.volume_id]
    if noun.format == 'json':
        print(json.dumps({'targets': [host for host in built.seen if host not in silent],
                          'targets_not_asked': built.unseen, 'targets_silent': silent,
                          'violations': [dataclasses.asdict(each) for each in violations]},
                         indent=2))
    else:
        _print(built, violations)
    if violations:
        return SOME_VIOLATED
    return NOT_ALL_ASKED if silent else 0


def derive(conf: cfg.ConfigOpts) -> None:
    """Recompute derived values of a volume, or the allocated capacity of all pools.

    :raises ConfigurationError: both or neither of a volume and ``--counts`` are given, or the
        volume does not exist
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


def _print(built: one_shot.Checking, violations: list[observed.Violation]) -> None:
    for host in built.unseen:
        print(f'Skipping the target of {host}, which is in the memory of its service.')
    for host, reason in built.checker.silent.items():
        print(f'The target of {host} does not respond, its rows are compared without the target: '
              f'{reason}')
    if not built.seen and not built.unseen:
        print('No backend is configured. The rows are compared with each other only.')
    for each in violations:
        of = each.attachment_id or each.volume_id
        print(f'{each.promise} {each.invariant} ({each.severity}): '
              f'{f"{of} " if of else ""}{each.said}')
        print(f'    repair with: {each.repair}')
    print(f'{len(violations)} violations' if violations else 'No violations.')
