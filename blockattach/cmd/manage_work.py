"""``blockattach-manage work``: the list of unfinished work items, and their cancellation."""
import dataclasses
import json

from oslo_config import cfg

from blockattach.cmd import manage_db
from blockattach.platform import errors
from blockattach.storage.db import work
from blockattach.storage.volume import handlers
from blockattach.storage.work import recover
from blockattach.storage.work import verbs
from blockattach.wiring import dependencies


def print_all(conf: cfg.ConfigOpts) -> None:
    """Print all unfinished work items."""
    found = work.list_all(dependencies.open_database(conf), conf.noun.host)
    if conf.noun.format == 'json':
        print(json.dumps([{**dataclasses.asdict(one), 'state': one.state} for one in found],
                         default=str, indent=2))
        return
    manage_db.print_table(
        ('ID', 'WORK', 'RESOURCE', 'HOST', 'STATE', 'SECONDS LEFT', 'ATTEMPTS', 'OWNER', 'ERROR'),
        [(one.id, one.claim.name, one.resource_id, one.host or '', one.state,
          f'{-one.overdue:.0f}', one.attempts, one.owner or '', one.error or '')
         for one in found])


def cancel(conf: cfg.ConfigOpts) -> None:
    """Cancel the work item that the arguments name.

    :raises ConfigurationError: the work item does not exist, or cannot be cancelled
    """
    known = {name: verb for handler in handlers.HANDLERS
             for name, verb in verbs.declared(handler).items()}
    try:
        found = recover.cancel(dependencies.open_database(conf), known, conf.noun.work_id)
    except (errors.NotFound, errors.Conflict) as exc:
        raise errors.ConfigurationError(reason=str(exc)) from exc
    print(f'Cancelled: {found.claim.name} of {found.resource_id}')
