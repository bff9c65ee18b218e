"""Volume transfers: one project offers a volume, another accepts the transfer with a key."""
from typing import Any

from blockattach.platform import context as request_context
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db import storage_db
from blockattach.storage.db import transfers
from blockattach.storage.domain import transfers as domain
from blockattach.storage.policy import access
from blockattach.storage.policy import transfers as policies

_SNAPSHOTS = operation.V(3, 55)
_HISTORY = operation.V(3, 57)
_ENCRYPTED = operation.V(3, 70)
_FILTERS = listing.FilterRules(known=frozenset(('id', 'name', 'display_name', 'volume_id')))


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the transfers that the project of the caller offers.

    An administrator can list the transfers of all projects.
    """
    return _list(services, call, _name)


def detail(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the transfers that the project of the caller offers, with details.

    An administrator can list the transfers of all projects.
    """
    return _list(services, call, _detail)


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show a transfer."""
    return {'transfer': _detail(call, call.target)}


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create a transfer of a volume. Only this response contains the authorization key."""
    asked = call.body['transfer']
    volume = access.volume(call.context, services.database, asked['volume_id'])
    # The operation has no target, so the dispatcher has checked the rule for the caller's project.
    services.policy.authorize(call.context, policies.CREATE, volume.project_id)
    if volume.encrypted and call.version < _ENCRYPTED:
        raise errors.InvalidVolume(reason='transferring encrypted volume is not supported')
    no_snapshots = bool(listing.boolean(asked.get('no_snapshots', False)))
    if volume.encrypted and no_snapshots:
        raise errors.InvalidVolume(reason='transferring an encrypted volume without its snapshots '
                                          'is not supported')
    auth_key = domain.new_key()
    name = asked.get('name')
    made = transfers.create(services.database, volume, name and name.strip(), no_snapshots,
                            domain.seal(auth_key))
    return {'transfer': {**_detail(call, made), 'auth_key': auth_key}}


def accept(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Accept a transfer. The volume moves to the project of the caller.

    :raises TransferKeyWrong: if the authorization key in the request is wrong
    :raises InvalidInput: if the token is not scoped to a project
    """
    caller = call.context
    # The project is not checked, because the caller belongs to another project. The key authorizes
    # the caller.
    found = transfers.get(services.database, call.path['id'])
    if not domain.matches(found.sealed, str(call.body['accept']['auth_key'])):
        raise errors.TransferKeyWrong(transfer_id=found.id)
    if not caller.project_id:
        raise errors.InvalidInput(
            'Cannot accept volume transfer. A project-scoped token is required.')
    transfers.accept(services.database, found, caller.project_id, caller.user_id or '')
    return {'transfer': _name(call, found)}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete a transfer. The volume is no longer offered."""
    transfers.withdraw(services.database, call.target)


def _target(caller: request_context.RequestContext, database: storage_db.Database,
            transfer_id: str) -> domain.Transfer:
    found = transfers.get(database, transfer_id)
    if not access.is_visible(caller, found.project_id):
        raise errors.TransferNotFound(transfer_id=found.id)
    return found


def _list(services: api_services.ApiServices, call: operation.Call, view: Any) -> dict[str, Any]:
    page = listing.page(call, transfers.SORT_COLUMNS, services.settings.osapi_max_limit)
    asked = listing.asked(call, _FILTERS)
    project_id = None if asked.all_projects else call.context.project_id
    found = [] if asked.nothing or asked.like else transfers.list_page(
        services.database, project_id, asked.equal, page)
    return {'transfers': [view(call, one) for one in found],
            **listing.links(call, 'transfers_links', page, found)}


def _name(call: operation.Call, transfer: domain.Transfer) -> dict[str, Any]:
    return _NAME.show(transfer, links=call.links(f'{policies.PATHS[0]}/{transfer.id}'))


def _detail(call: operation.Call, transfer: domain.Transfer) -> dict[str, Any]:
    view = operation.at_version(_VIEWS, call.version)
    shown: dict[str, Any] = view.show(
        transfer, links=call.links(f'{policies.PATHS[0]}/{transfer.id}'))
    return shown


_NAME_KEYS = {'id': schema.UUID, 'name': answers.NULLABLE_TEXT, 'volume_id': schema.UUID,
              'links': (answers.LINKS, schema.GIVEN)}
_OFFERED = {**_NAME_KEYS, 'created_at': answers.TIME}
_WITH_SNAPSHOTS = {**_OFFERED, 'no_snapshots': answers.BOOLEAN}
_NAME = schema.View(_NAME_KEYS)
_VIEWS = {
    operation.BASE: schema.View(_OFFERED),
    _SNAPSHOTS: schema.View(_WITH_SNAPSHOTS),
    _HISTORY: schema.View({
        **_WITH_SNAPSHOTS,
        'source_project_id': (answers.TEXT, 'project_id'),
        # An accepted transfer is deleted, so its destination is never shown.
        'destination_project_id': answers.NULL,
        'accepted': ({'enum': [False]}, lambda transfer: False)}),
}
_SHOWN = {version: schema.wrapped('transfer', view.whole) for version, view in _VIEWS.items()}
_MADE = {version: schema.wrapped('transfer', answers.whole(
    {**view.keys, 'auth_key': answers.TEXT})) for version, view in _VIEWS.items()}
_NAMES = {operation.BASE: schema.obj(
    {'transfers': schema.array(_NAME.whole), 'transfers_links': answers.NEXT_LINK},
    required=['transfers'])}
_DETAILS = {version: schema.obj(
    {'transfers': schema.array(view.whole), 'transfers_links': answers.NEXT_LINK},
    required=['transfers']) for version, view in _VIEWS.items()}

_OFFER = schema.wrapped('transfer', schema.obj(
    {'volume_id': schema.UUID,
     'name': {'type': ['string', 'null'], 'maxLength': 255, 'pattern': r'\S'}},
    required=['volume_id']))
_CREATE = {operation.BASE: _OFFER, _SNAPSHOTS: schema.extend(
    _OFFER, {'no_snapshots': answers.YES_OR_NO}, at='transfer')}
_ACCEPT = {operation.BASE: schema.wrapped('accept', schema.obj(
    {'auth_key': {'type': ['string', 'integer'], 'maxLength': 255}}, required=['auth_key']))}


OPERATIONS = tuple(row for path in policies.PATHS for row in (
    operation.Operation(
        'GET', path, index, policy=policies.GET_ALL, answer=_NAMES,
        faults=(errors.TransferNotFound,), summary='List volume transfers.'),
    operation.Operation(
        'GET', f'{path}/detail', detail, policy=policies.GET_ALL, answer=_DETAILS,
        faults=(errors.TransferNotFound,),
        summary='List volume transfers with details.'),
    operation.Operation(
        'GET', f'{path}/{{id}}', show, policy=policies.GET, target=_target,
        answer=_SHOWN, summary='Show volume transfer details.'),
    operation.Operation(
        'POST', path, create, policy=policies.CREATE, status=202, body=_CREATE,
        answer=_MADE, faults=(errors.VolumeNotFound, errors.InvalidSnapshot),
        summary='Create a volume transfer.'),
    operation.Operation(
        'POST', f'{path}/{{id}}/accept', accept, policy=policies.ACCEPT, status=202,
        body=_ACCEPT, answer={operation.BASE: schema.wrapped('transfer', _NAME.whole)},
        faults=(errors.TransferNotFound, errors.TransferKeyWrong, errors.InvalidSnapshot,
                errors.QuotaExceeded),
        summary='Accept a volume transfer.'),
    operation.Operation(
        'DELETE', f'{path}/{{id}}', delete, policy=policies.DELETE, target=_target,
        status=202, answer={operation.BASE: answers.EMPTY}, summary='Delete a volume transfer.'),
))
