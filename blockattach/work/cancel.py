"""What an operator may end: work that no process has, where its verb says how."""
from collections.abc import Mapping

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import engine
from blockattach.db import messages
from blockattach.db import work
from blockattach.domain import records
from blockattach.work import verbs

LOG = oslo_log.getLogger(__name__)


def cancel(database: engine.Database, known: Mapping[str, verbs.Verb],
           work_id: str) -> records.Work:
    """End work without doing it; returns what it was.

    :param known: the verbs by name
    :raises WorkNotFound: there is no such work, or it has ended
    :raises Conflict: it cannot be cancelled, or not now
    """
    found = work.get(database, work_id)
    verb = known.get(found.claim.name)
    if verb is None or verb.cancel is None:
        raise errors.Conflict(reason=f'cannot cancel {found.claim.name}: it can only be finished')
    if found.owner is not None and found.overdue <= 0:
        raise errors.Conflict(
            reason=f'cannot cancel {found.claim.name}: {found.owner} is at work on it')
    verb.cancel(database, found)
    if verb.cancel_message is not None and found.project_id is not None:
        messages.create(database, found.project_id, found.request_id, verb.cancel_message,
                        found.resource_id)
    LOG.warning('Work is cancelled%s', log.fields(work=found.claim.name,
                                                  resource_id=found.resource_id))
    return found
