"""``blockattach-manage import``: import of the resources of another block storage service."""
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
    """Import the resources of a Cinder database, and print imported and refused resources.

    :returns: exit status, as in the help of the command
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
        # The survey finds refused resources before the first row is written.
        found = act.survey()
        writes = not noun.dry_run and (noun.leave_refused or not found.refused)
        if writes:
            done = act.run()
            # The survey has reported all other refused resources. Resources that could not be
            # written are known only now.
            found.taken = done.taken
            found.refused += [one for one in done.refused if one.code == importing.NOT_WRITTEN]
    finally:
        read.close()
    _print(found, noun.format, writes)
    return SOME_REFUSED if found.refused else 0


def _url(given: str) -> str:
    """Return the URL of Cinder's database, from standard input if the argument is ``-``."""
    # Other users of the machine can see the arguments, and therefore the password of the URL.
    return sys.stdin.readline().strip() if given == STANDARD_INPUT else given


def _by_name(given: Iterable[str], option: str) -> dict[str, str]:
    """Return values by host from arguments of the form HOST=VALUE.

    :raises ConfigurationError: an argument has another form
    """
    by_host = dict(argument.partition('=')[::2] for argument in given)
    if not all(by_host.values()):
        raise errors.ConfigurationError(reason=f'{option} must be HOST=VALUE')
    return by_host


def _print(result: report.Report, form: str, wrote: bool) -> None:
    if form == 'json':
        print(json.dumps({
            'written': wrote, 'found': result.found, 'there': result.there,
            'taken': result.taken, 'left': result.left,
            'changed': [each._asdict() for each in result.changed],
            'refused': [each._asdict() for each in result.refused]}, indent=2))
        return
    manage_db.print_table(('TABLE', 'FOUND', 'EXISTING', 'IMPORTED'), [
        (name, count, result.there[name], result.taken[name])
        for name, count in result.found.items()])
    for head, table, findings in (('changed', importing.CHANGED, result.changed),
                                  ('refused', importing.REFUSED, result.refused)):
        _print_findings(head, table, findings)
    for code, count in sorted(result.left.items()):
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
