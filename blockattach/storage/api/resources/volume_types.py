"""Volume types, their extra specs and encryption, and the access of projects to private types."""
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.db.types import type_access
from blockattach.storage.db.types import volume_types
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_type
from blockattach.storage.policy import access
from blockattach.storage.policy import volume_types as policies

BASE = operation.BASE
_IS_PUBLIC = 'os-volume-type-access:is_public'
_WHICHEVER = 'provider'
"""Text that some clients send in the path in place of the encryption ID.

The ID is not necessary, because a type has at most one encryption.
"""
_BY_EXTRA_SPECS = operation.V(3, 52)
_TEXTS = frozenset(('id', 'name', 'description'))
_FILTERS = listing.FilterRules(
    known=frozenset(listing.BUILT_IN['volume_type']), more=_TEXTS)


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the volume types that the caller may see."""
    page = listing.page(call, volume_types.SORT_COLUMNS, services.settings.osapi_max_limit)
    is_public = _public(call)
    asked = _asked(services, call)
    wanted = listing.structure('extra_specs', asked.equal.get('extra_specs', '{}'))
    if asked.nothing or not asked.like.keys() <= _TEXTS or not _may_ask(services, call, wanted):
        return {'volume_types': []}
    found = volume_types.list_page(
        services.database, is_public, wanted,
        {key: value for key, value in asked.equal.items() if key in _TEXTS}, page,
        call.context.project_id, asked.like)
    return {'volume_types': [_detail(services, call, kind) for kind in found],
            **listing.links(call, 'volume_type_links', page, found)}


def default(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the default volume type for the project of the caller."""
    found = access.find_default_volume_type(call.context, services.database,
                                            services.default_volume_type)
    return {'volume_type': _detail(services, call, found)}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show a volume type."""
    return {'volume_type': _detail(services, call, call.target)}


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create a volume type."""
    asked: Mapping[str, Any] = call.body['volume_type']
    _check_specs(asked.get('extra_specs') or {})
    made = volume_types.create(
        services.database, asked['name'].strip(), asked.get('description'),
        bool(listing.boolean(asked.get(_IS_PUBLIC, True))),
        asked.get('extra_specs') or {})
    return {'volume_type': {**_changed(services, call, made), _IS_PUBLIC: made.is_public}}


def update(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Update the name, description or visibility of a volume type."""
    asked: Mapping[str, Any] = call.body['volume_type']
    name, is_public = asked.get('name'), asked.get('is_public')
    if name is None and is_public is None and asked.get('description') is None:
        raise errors.InvalidInput(
            'Specify volume type name, description, is_public or a combination thereof.')
    if name is not None and not name.strip():
        raise errors.InvalidInput('Volume type name can not be empty.')
    if name is not None and name.strip() != call.target.name \
            and call.target.name == services.default_volume_type:
        # Requests without a type find the configured default volume type by its name.
        raise errors.InvalidInput(
            f'The volume type {call.target.id} is a default volume type and cannot be renamed.')
    changed = volume_types.update(
        services.database, call.target.id, name and name.strip(), asked.get('description'),
        None if is_public is None else listing.boolean(is_public))
    return {'volume_type': _changed(services, call, changed)}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete a volume type that is not in use."""
    volume_types.delete(services.database, call.target.id, services.default_volume_type)


def list_specs(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the extra specs of a volume type that the caller may see."""
    return {'extra_specs': _visible_specs(services, call, call.target)}


def show_spec(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show an extra spec of a volume type.

    :raises ExtraSpecNotFound: if the type has no such extra spec, or the caller may not see the
        extra spec
    """
    key = call.path['key']
    specs = _visible_specs(services, call, call.target)
    if key not in specs:
        raise errors.ExtraSpecNotFound(volume_type_id=call.target.id, key=key)
    return {key: specs[key]}


def create_specs(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create or update the given extra specs of a volume type, and return them."""
    _check_specs(call.body['extra_specs'])
    volume_types.set_extra_specs(services.database, call.target.id, call.body['extra_specs'])
    return {'extra_specs': call.body['extra_specs']}


def update_spec(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create or update an extra spec of a volume type."""
    if call.path['key'] not in call.body:
        raise errors.InvalidInput('Request body and URI mismatch')
    _check_specs(call.body)
    volume_types.set_extra_specs(services.database, call.target.id, call.body)
    return dict(call.body)


def delete_spec(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete an extra spec of a volume type."""
    volume_types.delete_extra_spec(services.database, call.target.id, call.path['key'])


def show_encryption(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the encryption of a volume type, or an empty object for a type without encryption."""
    return _encryption(call.target.encryption)


def encryption_fact(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show one item of the encryption of a volume type.

    :raises VolumeTypeEncryptionNotFound: if the encryption has no such item, or if the type has no
        encryption
    """
    key = call.path['key']
    shown = _encryption(call.target.encryption)
    if key not in shown:
        raise errors.VolumeTypeEncryptionNotFound(volume_type_id=call.target.id)
    return {key: shown[key]}


def create_encryption(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Create the encryption of a volume type."""
    made = volume_types.create_encryption(services.database, call.target.id,
                                          **_asked_encryption(call))
    return {'encryption': _ENCRYPTION_MADE.show(made)}


def update_encryption(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Update the given encryption fields of a volume type, and return them."""
    changes = _asked_encryption(call)
    volume_types.update_encryption(services.database, call.target.id, _named(call), changes)
    return {'encryption': changes}


def delete_encryption(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete the encryption of a volume type."""
    volume_types.delete_encryption(services.database, call.target.id, _named(call))


def list_access(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the projects with access to a private volume type.

    :raises VolumeTypeAccessNotFound: if the type is public
    """
    if call.target.is_public:
        raise errors.VolumeTypeAccessNotFound(
            'Access list not available for public volume types.')
    return {'volume_type_access': [
        {'volume_type_id': call.target.id, 'project_id': project_id}
        for project_id in type_access.projects(services.database, call.target.id)]}


def add_access(services: api_services.ApiServices, call: operation.Call) -> None:
    """Give a project access to a private volume type (addProjectAccess)."""
    type_access.add(services.database, call.target.id, call.body['addProjectAccess']['project'])


def remove_access(services: api_services.ApiServices, call: operation.Call) -> None:
    """Remove the access of a project to a private volume type (removeProjectAccess)."""
    type_access.remove(services.database, call.target.id,
                       call.body['removeProjectAccess']['project'])


def _asked(services: api_services.ApiServices, call: operation.Call) -> listing.Asked:
    """Return the filters of a list request."""
    rules = _FILTERS.allowed_by(services.filters, 'volume_type')
    if call.version < _BY_EXTRA_SPECS:
        # Before 3.52, unknown filters of this list were not an error, so they are ignored.
        heeded = rules.known | rules.more if call.context.is_admin else rules.known
        rules = dataclasses.replace(
            rules, own=frozenset(call.query) - (heeded - {'extra_specs'}))
    return listing.asked(call, rules)


def _may_ask(services: api_services.ApiServices, call: operation.Call,
             specs: Mapping[str, str]) -> bool:
    """Return True if the caller may filter by the given extra specs."""
    # The result of a filter would disclose an extra spec that the caller may not see.
    return (specs.keys() <= volume_type.USER_VISIBLE_SPECS
            or services.policy.allowed(call.context, policies.EXTRA_SPECS_SENSITIVE))


def _public(call: operation.Call) -> bool | None:
    """Return True to list usable types, False to list private types, or None to list all types.

    Usable types are all public types, and private types to which the project of the caller has
    access. Callers who are not administrators always list usable types.

    :raises InvalidInput: if ``is_public`` is not a boolean
    """
    text = call.query.get('is_public')
    if text is None or not call.context.is_admin:
        return True
    if text.lower() == 'none':
        return None
    value = listing.boolean(text)
    if value is None:
        raise errors.InvalidInput(f'Invalid is_public filter [{errors.shortened(text)}]')
    return value


def _check_specs(specs: Mapping[str, str]) -> None:
    """Check extra specs before they are stored.

    :raises InvalidInput: if a value is invalid for its key
    """
    # Without this check, an invalid value would cause an error only when the type is used.
    mode = specs.get(volume_type.MODE)
    if mode is not None and mode not in volume_type.MODES:
        raise errors.InvalidInput(
            f"Invalid input for field/attribute {volume_type.MODE}. Value: {mode}. Use 'RO' "
            f"(one server writes at a time, other servers read) or 'RW' (all servers write).")
    for key in volume_type.BOOLEANS:
        if key in specs and not volume_type.is_boolean(specs[key]):
            raise errors.InvalidInput(
                f"Invalid input for field/attribute {key}. Value: {specs[key]}. Use '<is> True' "
                f"or '<is> False'.")


def _asked_encryption(call: operation.Call) -> dict[str, Any]:
    """Return the encryption fields that the request contains."""
    asked = {key: value for key, value in call.body['encryption'].items() if key in _FACTS}
    # Clients also send the size as text.
    size = asked.get('key_size')
    return asked if size is None else {**asked, 'key_size': int(size)}


def _named(call: operation.Call) -> str | None:
    """Return the encryption ID in the path, or None if the path contains `_WHICHEVER`."""
    encryption_id = call.path['encryption_id']
    return None if encryption_id == _WHICHEVER else encryption_id


def _detail(services: api_services.ApiServices, call: operation.Call,
            kind: records.VolumeType) -> dict[str, Any]:
    """Return a volume type with the details that the caller may see."""
    shown = _changed(services, call, kind)
    if services.policy.allowed(call.context, policies.QOS_SPECS_ATTRIBUTE):
        shown['qos_specs_id'] = kind.qos_specs_id
    if services.policy.allowed(call.context, policies.ACCESS_ATTRIBUTE):
        shown[_IS_PUBLIC] = kind.is_public
    return shown


def _changed(services: api_services.ApiServices, call: operation.Call,
             kind: records.VolumeType) -> dict[str, Any]:
    """Return a volume type in the form of an update response."""
    shown = _TYPE_VIEW.show(kind)
    if services.policy.allowed(call.context, policies.EXTRA_SPECS_ATTRIBUTE):
        shown['extra_specs'] = _visible_specs(services, call, kind)
    return shown


def _encryption(encryption: records.TypeEncryption | None) -> dict[str, Any]:
    """Return the encryption of a volume type as in a response, or an empty dict for None."""
    return {} if encryption is None else _ENCRYPTION_DETAIL.show(encryption)


def _visible_specs(services: api_services.ApiServices, call: operation.Call,
                   kind: records.VolumeType) -> Mapping[str, str]:
    """Return the extra specs of a volume type that the caller may see."""
    # Other extra specs describe backends, which Cinder hides from users.
    if services.policy.allowed(call.context, policies.EXTRA_SPECS_SENSITIVE):
        return kind.extra_specs
    return {key: value for key, value in kind.extra_specs.items()
            if key in volume_type.USER_VISIBLE_SPECS}


_KEY = '^[a-zA-Z0-9_:.-]{1,255}$'
_VALUE: schema.Schema = {'type': 'string', 'maxLength': 255}
_EXTRA_SPECS = schema.obj(patternProperties={_KEY: _VALUE})

_BOOLEAN: schema.Schema = {'type': ['boolean', 'string'], 'enum': [
    True, False, 'True', 'TRUE', 'true', '1', 'ON', 'On', 'on', 'YES', 'Yes', 'yes', 'y', 't',
    'False', 'FALSE', 'false', '0', 'OFF', 'Off', 'off', 'NO', 'No', 'no', 'n', 'f']}
_DESCRIPTION: schema.Schema = {'type': ['string', 'null'], 'maxLength': 255}

_CREATE = schema.wrapped('volume_type', schema.obj({
    'name': {'type': 'string', 'minLength': 1, 'maxLength': 255, 'pattern': r'\S'},
    'description': _DESCRIPTION,
    'extra_specs': schema.nullable(_EXTRA_SPECS),
    _IS_PUBLIC: _BOOLEAN,
}, required=['name']))

_UPDATE = schema.wrapped('volume_type', schema.obj({
    'name': {'type': ['string', 'null'], 'maxLength': 255},
    'description': _DESCRIPTION,
    'is_public': _BOOLEAN,
}))

_SPECS = schema.wrapped('extra_specs', _EXTRA_SPECS)
_SPEC = {**_EXTRA_SPECS, 'minProperties': 1, 'maxProperties': 1}
_SPECS_SHOWN = {BASE: schema.wrapped('extra_specs', answers.TEXTS_BY_KEY)}
_SPEC_SHOWN = {BASE: {**answers.TEXTS_BY_KEY, 'minProperties': 1, 'maxProperties': 1}}

_TYPE_VIEW = schema.View({
    'id': schema.UUID,
    'name': answers.TEXT,
    'description': answers.NULLABLE_TEXT,
    'is_public': answers.BOOLEAN,
})
_CHANGED = schema.extend(_TYPE_VIEW.whole, {'extra_specs': answers.TEXTS_BY_KEY})
_ACCESS = {_IS_PUBLIC: answers.BOOLEAN}
_TYPE = schema.extend(_CHANGED, {**_ACCESS, 'qos_specs_id': schema.NULLABLE_UUID})
_TYPES = schema.obj({
    'volume_types': schema.array(_TYPE),
    'volume_type_links': answers.NEXT_LINK,
}, required=['volume_types'])
_SHOWN = {BASE: schema.wrapped('volume_type', _TYPE)}
# Tempest's schemas of the create and update responses allow fewer keys.
_CREATED = schema.wrapped('volume_type', schema.extend(_CHANGED, _ACCESS, required=_ACCESS))
_UPDATED = schema.wrapped('volume_type', _CHANGED)

_CONTROL_LOCATION: schema.Schema = {'enum': list(volume_type.CONTROL_LOCATIONS)}
_LARGEST_KEY_SIZE = 2 ** 31 - 1

_ENCRYPTION_UPDATE = schema.wrapped('encryption', schema.obj({
    'provider': {'type': 'string', 'maxLength': 255},
    'control_location': _CONTROL_LOCATION,
    'cipher': {'type': ['string', 'null'], 'maxLength': 255},
    'key_size': {'type': ['integer', 'string', 'null'], 'minimum': 0,
                 'maximum': _LARGEST_KEY_SIZE, 'pattern': '^[0-9]{1,9}$'},
}, additional=True))
_ENCRYPTION_CREATE = schema.extend(_ENCRYPTION_UPDATE, at='encryption',
                                   required=['provider', 'control_location'])

_FACTS: dict[str, schema.Schema] = {
    'provider': answers.TEXT,
    'control_location': _CONTROL_LOCATION,
    'cipher': answers.NULLABLE_TEXT,
    'key_size': {'type': ['integer', 'null']},
}
_MADE = {'encryption_id': (schema.UUID, 'id'), 'volume_type_id': schema.UUID, **_FACTS}
_ENCRYPTION_MADE = schema.View(_MADE)
_ENCRYPTION_DETAIL = schema.View({
    **_MADE,
    'created_at': answers.TIME,
    'updated_at': answers.NULLABLE_TIME,
    'deleted': ({'enum': [False]}, lambda found: False),
    'deleted_at': answers.NULL,
})
_ENCRYPTION_UPDATED = schema.wrapped('encryption', schema.obj(_FACTS))
_ENCRYPTION_CREATED = schema.wrapped('encryption', answers.whole(
    {**_FACTS, **_ENCRYPTION_MADE.keys}))
_ALL_FACTS = {**_FACTS, **_ENCRYPTION_DETAIL.keys}
# The response is not wrapped, and is empty for types without encryption.
_ENCRYPTION_SHOWN = {'anyOf': [schema.obj(), answers.whole(_ALL_FACTS)]}
_ENCRYPTION_FACT = schema.obj(_ALL_FACTS, minProperties=1, maxProperties=1)
_NOTHING = {BASE: answers.EMPTY}

_ENCRYPTION_PATH = '/types/{id}/encryption'
_SPECS_PATH = '/types/{id}/extra_specs'
_SPEC_PATH = '/types/{id}/extra_specs/{key}'
_of_type = functools.partial(operation.Operation, target=access.volume_type)
_PROJECT = schema.obj({'project': {'type': 'string', 'minLength': 1, 'maxLength': 255}},
                      required=['project'])
_ACCESS_LIST = schema.wrapped('volume_type_access', schema.array(answers.whole({
    'volume_type_id': schema.UUID,
    'project_id': answers.TEXT,
})))
_act = functools.partial(operation.action, '/types/{id}/action', target=access.volume_type)

OPERATIONS = (
    operation.Operation(
        'GET', '/types', index, policy=policies.GET_ALL, faults=(errors.VolumeTypeNotFound,),
        answer={BASE: _TYPES}, summary='List volume types.'),
    operation.Operation(
        'GET', '/types/default', default, policy=policies.GET,
        faults=(errors.VolumeTypeNameNotFound,), answer=_SHOWN,
        summary='Show the default volume type.'),
    _of_type('GET', '/types/{id}', show, policy=policies.GET, answer=_SHOWN,
             summary='Show volume type details.'),
    operation.Operation(
        'POST', '/types', create, policy=policies.CREATE, body={BASE: _CREATE},
        answer={BASE: _CREATED}, faults=(errors.VolumeTypeExists,),
        summary='Create a volume type.'),
    _of_type('PUT', '/types/{id}', update, policy=policies.UPDATE, body={BASE: _UPDATE},
             answer={BASE: _UPDATED}, faults=(errors.VolumeTypeExists,),
             summary='Update the name, description or visibility of a volume type.'),
    _of_type('DELETE', '/types/{id}', delete, policy=policies.DELETE, status=202,
             answer=_NOTHING, summary='Delete a volume type.'),
    _of_type('GET', _SPECS_PATH, list_specs, policy=policies.EXTRA_SPECS_LIST,
             answer=_SPECS_SHOWN, summary='Show all extra specs of a volume type.'),
    _of_type('POST', _SPECS_PATH, create_specs, policy=policies.EXTRA_SPECS_CREATE,
             body={BASE: _SPECS}, answer=_SPECS_SHOWN,
             summary='Create or update extra specs of a volume type.'),
    _of_type('GET', _SPEC_PATH, show_spec, policy=policies.EXTRA_SPECS_SHOW,
             answer=_SPEC_SHOWN, summary='Show an extra spec of a volume type.'),
    _of_type('PUT', _SPEC_PATH, update_spec, policy=policies.EXTRA_SPECS_UPDATE,
             body={BASE: _SPEC}, answer=_SPEC_SHOWN,
             summary='Create or update an extra spec of a volume type.'),
    _of_type('DELETE', _SPEC_PATH, delete_spec, policy=policies.EXTRA_SPECS_DELETE, status=202,
             answer=_NOTHING, summary='Delete an extra spec of a volume type.'),
    _of_type('GET', _ENCRYPTION_PATH, show_encryption, policy=policies.ENCRYPTION_GET,
             answer={BASE: _ENCRYPTION_SHOWN},
             summary='Show the encryption type of a volume type.'),
    _of_type('POST', _ENCRYPTION_PATH, create_encryption, policy=policies.ENCRYPTION_CREATE,
             body={BASE: _ENCRYPTION_CREATE}, answer={BASE: _ENCRYPTION_CREATED},
             summary='Create an encryption type for a volume type.'),
    _of_type('GET', f'{_ENCRYPTION_PATH}/{{key}}', encryption_fact,
             policy=policies.ENCRYPTION_GET, answer={BASE: _ENCRYPTION_FACT},
             summary='Show an encryption specs item of a volume type.'),
    _of_type('PUT', f'{_ENCRYPTION_PATH}/{{encryption_id}}', update_encryption,
             policy=policies.ENCRYPTION_UPDATE, body={BASE: _ENCRYPTION_UPDATE},
             answer={BASE: _ENCRYPTION_UPDATED},
             summary='Update the encryption type of a volume type.'),
    _of_type('DELETE', f'{_ENCRYPTION_PATH}/{{encryption_id}}', delete_encryption,
             policy=policies.ENCRYPTION_DELETE, status=202, answer=_NOTHING,
             summary='Delete the encryption type of a volume type.'),
    _of_type('GET', '/types/{id}/os-volume-type-access', list_access,
             policy=policies.ACCESS_LIST, answer={BASE: _ACCESS_LIST},
             faults=(errors.VolumeTypeAccessNotFound,),
             summary='List the projects with access to a private volume type.'),
    _act('addProjectAccess', add_access, _PROJECT, policy=policies.ACCESS_ADD,
         faults=(errors.VolumeTypeAccessExists,),
         summary='Add private volume type access to a project.'),
    _act('removeProjectAccess', remove_access, _PROJECT, policy=policies.ACCESS_REMOVE,
         faults=(errors.VolumeTypeAccessNotFound,),
         summary='Remove private volume type access from a project.'),
)
