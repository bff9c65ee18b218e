"""QoS specs, and their associations with volume types."""
from collections.abc import Mapping
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import Operation
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db import storage_db
from blockattach.storage.db.types import qos_specs
from blockattach.storage.domain import qos
from blockattach.storage.domain import records
from blockattach.storage.policy import qos_specs as policies

_FILTERS = listing.FilterRules(known=frozenset(('id', 'name', 'consumer')))
_OWN_KEYS = frozenset(('name', 'consumer'))


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List QoS specs. The response never has a link to the next page."""
    page = listing.page(call, qos_specs.SORT_COLUMNS, services.settings.osapi_max_limit)
    asked = listing.asked(call, _FILTERS)
    found = [] if asked.nothing or asked.like else qos_specs.list_page(
        services.database, asked.equal, page)
    return {'qos_specs': [_VIEW.show(one) for one in found]}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show QoS specs."""
    return _detail(call, call.target)


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create QoS specs."""
    asked: Mapping[str, Any] = call.body['qos_specs']
    return _detail(call, qos_specs.create(
        services.database, asked['name'].strip(), asked.get('consumer') or qos.BACK_END,
        _specs(asked)))


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Update keys or the consumer of QoS specs, and return only the values in the request."""
    # Cinder also returns only these values.
    asked: Mapping[str, Any] = call.body['qos_specs']
    specs = _specs(asked)
    qos_specs.update(services.database, call.target.id, asked.get('consumer'), specs)
    consumer = {'consumer': asked['consumer']} if 'consumer' in asked else {}
    return {'qos_specs': {**consumer, **specs}}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete QoS specs.

    QoS specs that are associated with volume types are only deleted if ``force`` is true.
    """
    qos_specs.delete(services.database, call.target.id, listing.flag(call, 'force'))


def delete_keys(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete keys of QoS specs."""
    qos_specs.delete_keys(services.database, call.target.id, call.body['keys'])


def associations(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the volume types that are associated with the QoS specs."""
    found = qos_specs.types(services.database, call.target.id)
    return {'qos_associations': [
        {'association_type': 'volume_type', 'name': kind.name, 'id': kind.id} for kind in found]}


def associate(services: api_services.ApiServices, call: operation.Call) -> None:
    """Associate the QoS specs with a volume type.

    :raises InvalidInput: if the request names no volume type
    """
    qos_specs.associate(services.database, call.target.id, _type_id(call))


def disassociate(services: api_services.ApiServices, call: operation.Call) -> None:
    """Disassociate the QoS specs from a volume type.

    :raises InvalidInput: if the request names no volume type
    """
    qos_specs.disassociate(services.database, call.target.id, _type_id(call))


def disassociate_all(services: api_services.ApiServices, call: operation.Call) -> None:
    """Disassociate the QoS specs from all volume types."""
    qos_specs.disassociate(services.database, call.target.id)


def _target(_: object, database: storage_db.Database,
            qos_specs_id: str) -> records.QosSpecs:
    return qos_specs.get(database, qos_specs_id)


def _type_id(call: operation.Call) -> str:
    type_id = call.query.get('vol_type_id')
    if not type_id:
        raise errors.InvalidInput('Volume Type id must not be None.')
    return type_id


def _specs(requested: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the specs in a request by key, with all values as text.

    :raises InvalidInput: if a value is invalid
    """
    # Clients also send numbers. The column contains text.
    found = {key: None if value is None else str(value) for key, value in requested.items()
             if key not in _OWN_KEYS}
    qos.check(found)
    return found


def _detail(call: operation.Call, specs: records.QosSpecs) -> dict[str, Any]:
    return {'qos_specs': _VIEW.show(specs), 'links': call.links(f'/qos-specs/{specs.id}')}


_CONSUMER: schema.Schema = {'enum': list(qos.CONSUMERS)}
_KEY = '^[a-zA-Z0-9_:. -]{1,255}$'
_VALUE: schema.Schema = {'type': ['string', 'integer', 'null'], 'maxLength': 255}
_LIMITS = schema.obj({'consumer': _CONSUMER}, patternProperties={_KEY: _VALUE})
_UPDATE = schema.wrapped('qos_specs', _LIMITS)
_CREATE = schema.extend(_UPDATE, {
    'name': {'type': 'string', 'maxLength': 255, 'pattern': r'\S'},
}, required=['name'], at='qos_specs')
_KEYS = schema.obj({'keys': schema.array(
    {'type': 'string', 'minLength': 1, 'maxLength': 255}, uniqueItems=True)}, required=['keys'])

_SPECS: schema.Schema = {'type': 'object', 'additionalProperties': answers.NULLABLE_TEXT}
_VIEW = schema.View({
    'id': schema.UUID,
    'name': answers.TEXT,
    'consumer': _CONSUMER,
    'specs': _SPECS,
})
_DETAIL = answers.whole({'qos_specs': _VIEW.whole, 'links': answers.LINKS})
_LIST = schema.wrapped('qos_specs', schema.array(_VIEW.whole))
_ASSOCIATIONS = schema.wrapped('qos_associations', schema.array(answers.whole({
    'association_type': {'enum': ['volume_type']},
    'name': answers.TEXT,
    'id': schema.UUID,
})))
_NOTHING = {operation.BASE: answers.EMPTY}
_OF_TYPE = {operation.BASE: schema.obj({'vol_type_id': answers.TEXT}, additional=True)}
_FORCED = {operation.BASE: schema.obj({'force': answers.TEXT}, additional=True)}
_ONE = '/qos-specs/{id}'

OPERATIONS = (
    Operation('GET', '/qos-specs', index, policy=policies.GET_ALL, answer={operation.BASE: _LIST},
              faults=(errors.QosSpecsNotFound,), summary='List QoS specs.'),
    Operation('POST', '/qos-specs', create, policy=policies.CREATE, body={operation.BASE: _CREATE},
              answer={operation.BASE: _DETAIL}, faults=(errors.QosSpecsExist,),
              summary='Create QoS specs.'),
    Operation('GET', _ONE, show, policy=policies.GET, target=_target,
              answer={operation.BASE: _DETAIL}, summary='Show QoS specs details.'),
    Operation('PUT', _ONE, update, policy=policies.UPDATE, target=_target,
              body={operation.BASE: _UPDATE},
              answer={operation.BASE: schema.wrapped('qos_specs', _SPECS)},
              summary='Update QoS specs. Attached volumes keep the old limits.'),
    Operation('DELETE', _ONE, delete, policy=policies.DELETE, target=_target, status=202,
              query=_FORCED, answer=_NOTHING,
              summary='Delete QoS specs. QoS specs that are associated with volume types are only '
                      'deleted with force=true.'),
    Operation('PUT', f'{_ONE}/delete_keys', delete_keys, policy=policies.DELETE, target=_target,
              body={operation.BASE: _KEYS}, answer=_NOTHING, status=202,
              summary='Delete keys of QoS specs.'),
    Operation('GET', f'{_ONE}/associations', associations, policy=policies.GET_ALL,
              target=_target, answer={operation.BASE: _ASSOCIATIONS},
              summary='List the volume types that are associated with QoS specs.'),
    # Cinder changes associations by GET. `writes` protects these operations from pages of other
    # web sites, see `blockattach.platform.http.loopback`.
    Operation('GET', f'{_ONE}/associate', associate, policy=policies.UPDATE, target=_target,
              query=_OF_TYPE, answer=_NOTHING, status=202, writes=True,
              faults=(errors.VolumeTypeNotFound,),
              summary='Associate QoS specs with the volume type vol_type_id.'),
    Operation('GET', f'{_ONE}/disassociate', disassociate, policy=policies.UPDATE,
              target=_target, query=_OF_TYPE, answer=_NOTHING, status=202, writes=True,
              faults=(errors.VolumeTypeNotFound,),
              summary='Disassociate QoS specs from the volume type vol_type_id.'),
    Operation('GET', f'{_ONE}/disassociate_all', disassociate_all, policy=policies.UPDATE,
              target=_target, answer=_NOTHING, status=202, writes=True,
              summary='Disassociate QoS specs from all volume types.'),
)
