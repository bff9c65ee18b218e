"""``blockattach-manage import``: move in from another service."""
import json
import sys
from collections.abc import Iterable
from collections.abc import Mapping

from oslo_config import cfg

from blockattach.cmd import manage_db
from blockattach.platform import errors
from blockattach.storage.conf import control
from blockattach.storage.db.importing import importer
from blockattach.storage.db.importing import report
from blockattach.storage.db.importing import source
from blockattach.storage.domain import importing
from blockattach.wiring import dependencies

SOME_REFUSED = 3
STANDARD_INPUT = '-'


def cinder(conf: cfg.ConfigOpts) -> int:
    """Import, and print what was taken, changed and refused.

    :raises ConfigurationError: the database of Cinder cannot be read, or is in use
    """
    noun = conf.noun
    choices = importing.Choices(_by_name(noun.initiator, '--initiator'),
                                _by_name(noun.pool, '--pool'))
    database = dependencies.open_database(conf)
    read = source.Source(_url(noun.connection))
    try:
        act = importer.Importer(database, read, choices,
                                control.settings(conf).default_volume_type)
        found = act.survey()
        writes = not noun.dry_run and (noun.leave_refused or not found.refused)
        if writes:
            done = act.run()
            found.taken = done.taken
            found.refused += [one for one in done.refused if one.code == importing.NOT_WRITTEN]
    finally:
        read.close()
    _print(found, noun.format, writes)
    return SOME_REFUSED if found.refused else 0


def _url(given: str) -> str:
    """What other users of the machine must not see among the arguments comes by standard input."""
    return sys.stdin.readline().strip() if given == STANDARD_INPUT else given


def _by_name(given: Iterable[str], option: str) -> dict[str, str]:
    """:raises ConfigurationError: one is not NAME=VALUE"""
    made = dict(one.partition('=')[::2] for one in given)
    if not all(made.values()):
        raise errors.ConfigurationError(reason=f'{option} must be HOST=VALUE')
    return made


def _print(found: report.Report, form: str, wrote: bool) -> None:
    if form == 'json':
        print(json.dumps({
            'written': wrote, 'found': found.found, 'there': found.there, 'taken': found.taken,
            'left': found.left,
            'changed': [one._asdict() for one in found.changed],
            'refused': [one._asdict() for one in found.refused]}, indent=2))
        return
    manage_db.print_table(('TABLE', 'FOUND', 'EXISTING', 'IMPORTED'), [
        (name, count, found.there[name], found.taken[name])
        for name, count in found.found.items()])
    for head, table, findings in (('changed', importing.CHANGED, found.changed),
                                  ('refused', importing.REFUSED, found.refused)):
        _print_findings(head, table, findings)
    for code, count in sorted(found.left.items()):
        if count:
            print(f'not imported ({count}): {importing.LEFT[code].text}')
    if not wrote:
        print('Nothing was written.')


def _print_findings(head: str, table: Mapping[str, importing.Remark],
                    findings: Iterable[report.Finding]) -> None:
    by_code: dict[str, list[str]] = {}
    for one in findings:
        by_code.setdefault(one.code, []).append(
            f'{one.table} {one.id}' + f' ({one.holder})' * bool(one.holder)
            + f': {one.text}' * bool(one.text))
    for code, ids in by_code.items():
        remark = table[code]
        print(f'{head} {remark.noun} ({len(ids)}): {remark.text}')
        if remark.remedy:
            print(f'    {remark.remedy}')
        for found in ids:
            print(f'    {found}')
