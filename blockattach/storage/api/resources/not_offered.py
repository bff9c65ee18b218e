"""Resources that this service does not support, such as backups and groups.

The lists of these resources are empty. Requests for such a resource by its ID raise
`NoneOffered`, and requests that create such a resource raise `NotOffered`.
"""
import functools
from collections.abc import Callable
from typing import Any
from typing import NamedTuple
from typing import NoReturn

from blockattach.platform import context as request_context
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import Operation
from blockattach.platform.http.operation import V
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db import storage_db
from blockattach.storage.policy import not_offered as policies


class Noun(NamedTuple):
    """Type of resource that is not supported.

    :ivar key: first segment of the paths, and key of the list in a response
    :ivar what: plural name of the resource in errors and summaries
    :ivar kind: name of the resource in the error about an unknown ID
    :ivar rules: policy rules of list, show, create and delete requests; None for no rule
    :ivar since: first version of the operations
    :ivar making: further paths of requests that create the resource, with their policy rules
    :ivar detailed: True if there is a list with details
    :ivar counted: True if the lists have the parameter ``with_count``
    :ivar filtered: key of the resource in the configured filters; None if filters are not checked
    """

    key: str
    what: str
    kind: str
    rules: tuple[str | None, str | None, str, str]
    since: V = operation.BASE
    making: tuple[tuple[str, str], ...] = ()
    detailed: bool = True
    counted: bool = False
    filtered: str | None = None


_GROUP_RULES = (policies.GROUP_GET_ALL, policies.GROUP_GET, policies.GROUP_CREATE,
                policies.GROUP_DELETE)
_SNAPSHOT_RULES = (policies.SNAPSHOT_GET_ALL, policies.SNAPSHOT_GET, policies.SNAPSHOT_CREATE,
                   policies.SNAPSHOT_DELETE)
NOUNS = (
    Noun('backups', 'backups', 'Backup',
         (policies.BACKUP_GET_ALL, policies.BACKUP_GET, policies.BACKUP_CREATE,
          policies.BACKUP_DELETE),
         making=(('/import_record', policies.BACKUP_IMPORT),), counted=True, filtered='backup'),
    Noun('groups', 'groups', 'Group', _GROUP_RULES, V(3, 13),
         making=(('/action', policies.GROUP_CREATE),), filtered='group'),
    Noun('group_types', 'group types', 'Group type',
         (None, None, policies.TYPE_CREATE, policies.TYPE_DELETE), V(3, 11), detailed=False),
    Noun('group_snapshots', 'group snapshots', 'GroupSnapshot', _SNAPSHOT_RULES, V(3, 14),
         filtered='group_snapshot'),
    Noun('consistencygroups', 'consistency groups', 'ConsistencyGroup', _GROUP_RULES,
         making=(('/create_from_src', policies.GROUP_CREATE),)),
    Noun('cgsnapshots', 'consistency group snapshots', 'CgSnapshot', _SNAPSHOT_RULES),
)


def _list(noun: Noun, services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Check the filters of a list request, and return an empty list."""
    has_count = noun.counted and call.version >= listing.COUNTED
    if noun.filtered is not None:
        own = frozenset(('with_count',)) if has_count else frozenset()
        listing.asked(call, listing.FilterRules(frozenset(), own=own).allowed_by(
            services.filters, noun.filtered))
    counted = has_count and listing.flag(call, 'with_count')
    return {noun.key: [], **({'count': 0} if counted else {})}


def _refuse(noun: Noun, services: api_services.ApiServices, call: operation.Call) -> NoReturn:
    raise errors.NotOffered(what=noun.what)


def _absent(noun: Noun, caller: request_context.RequestContext, database: storage_db.Database,
            one_id: str) -> NoReturn:
    """Raise NoneOffered for any ID. The dispatcher checks the policy only after this call."""
    raise errors.NoneOffered(kind=noun.kind, id=one_id)


def _rows(noun: Noun) -> tuple[Operation, ...]:
    get_all, get, create, delete = noun.rules
    path, one = f'/{noun.key}', noun.what.removesuffix('s')
    reason = f'{noun.what.capitalize()} are not supported'
    count = {'count': answers.INTEGER} if noun.counted else {}

    def row(method: str, below: str, handler: Callable[..., Any], policy: str | None,
            summary: str, **more: Any) -> Operation:
        return Operation(method, f'{path}{below}', functools.partial(handler, noun),
                         since=noun.since, policy=policy, summary=summary, **more)

    listed = {noun.since: schema.obj({
        noun.key: schema.array(schema.obj(), maxItems=0), **count}, required=[noun.key])}
    return (
        *(row('GET', below, _list, get_all,
              f'List {noun.what}. {reason}, and the list is always empty.', answer=listed)
          for below in (('', '/detail') if noun.detailed else ('',))),
        *(row('POST', below, _refuse, rule,
              f'Create a {one}. {reason}, and requests are always rejected.',
              faults=(errors.NotOffered,))
          for below, rule in (('', create), *noun.making)),
        *(row(method, '/{id}', _refuse, rule,
              f'{verb} a {one}. {reason}, and the response is always 404.',
              target=functools.partial(_absent, noun), faults=(errors.NoneOffered,))
          for method, verb, rule in (('GET', 'Show', get), ('DELETE', 'Delete', delete))),
    )


OPERATIONS = tuple(row for noun in NOUNS for row in _rows(noun))
