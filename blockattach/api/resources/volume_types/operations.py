"""What can be done with volume types and their extra specs."""
from blockattach import errors
from blockattach.api.resources.volume_types import handlers
from blockattach.api.resources.volume_types import schemas
from blockattach.http.operation import BASE
from blockattach.http.operation import Operation
from blockattach.policy import access
from blockattach.policy import volume_types as policies

_type = access.volume_type
_ENCRYPTION = '/types/{id}/encryption'
_SPECS = '/types/{id}/extra_specs'
_SPEC = '/types/{id}/extra_specs/{key}'

OPERATIONS = (
    Operation('GET', '/types', handlers.index, policy=policies.GET_ALL,
              faults=(errors.VolumeTypeNotFound,),
              answer={BASE: schemas.TYPES}, summary='List volume types.'),
    Operation('GET', '/types/default', handlers.default, policy=policies.GET,
              faults=(errors.VolumeTypeNameNotFound,),
              answer={BASE: schemas.SHOWN}, summary='Show the type of volumes that name none.'),
    Operation('GET', '/types/{id}', handlers.show, policy=policies.GET, target=_type,
              answer={BASE: schemas.SHOWN}, summary='Show a volume type.'),
    Operation('POST', '/types', handlers.create, policy=policies.CREATE,
              body={BASE: schemas.CREATE}, answer={BASE: schemas.CREATED},
              faults=(errors.VolumeTypeExists,),
              summary='Create a volume type.'),
    Operation('PUT', '/types/{id}', handlers.update, policy=policies.UPDATE, target=_type,
              body={BASE: schemas.UPDATE}, answer={BASE: schemas.UPDATED},
              faults=(errors.VolumeTypeExists,),
              summary='Change the name, description and visibility of a volume type.'),
    Operation('DELETE', '/types/{id}', handlers.delete, policy=policies.DELETE, target=_type,
              status=202, answer={BASE: schemas.NOTHING}, summary='Delete a volume type.'),
    Operation('GET', _SPECS, handlers.list_specs, policy=policies.EXTRA_SPECS_LIST, target=_type,
              answer={BASE: schemas.SPECS_SHOWN}, summary='List the extra specs of a type.'),
    Operation('POST', _SPECS, handlers.create_specs, policy=policies.EXTRA_SPECS_CREATE,
              target=_type, body={BASE: schemas.SPECS}, answer={BASE: schemas.SPECS_SHOWN},
              summary='Add extra specs to a type.'),
    Operation('GET', _SPEC, handlers.show_spec, policy=policies.EXTRA_SPECS_SHOW, target=_type,
              answer={BASE: schemas.SPEC_SHOWN}, summary='Show one extra spec of a type.'),
    Operation('PUT', _SPEC, handlers.update_spec, policy=policies.EXTRA_SPECS_UPDATE, target=_type,
              body={BASE: schemas.SPEC}, answer={BASE: schemas.SPEC_SHOWN},
              summary='Set one extra spec of a type.'),
    Operation('DELETE', _SPEC, handlers.delete_spec, policy=policies.EXTRA_SPECS_DELETE,
              target=_type, status=202, answer={BASE: schemas.NOTHING},
              summary='Delete an extra spec of a type.'),
    Operation('GET', _ENCRYPTION, handlers.show_encryption, policy=policies.ENCRYPTION_GET,
              target=_type, answer={BASE: schemas.ENCRYPTION_SHOWN},
              summary='Show how the volumes of a type are encrypted.'),
    Operation('POST', _ENCRYPTION, handlers.create_encryption, policy=policies.ENCRYPTION_CREATE,
              target=_type, body={BASE: schemas.ENCRYPTION_CREATE},
              answer={BASE: schemas.ENCRYPTION_CREATED},
              summary='Let the volumes of a type be encrypted.'),
    Operation('GET', f'{_ENCRYPTION}/{{key}}', handlers.encryption_fact,
              policy=policies.ENCRYPTION_GET, target=_type, answer={BASE: schemas.ENCRYPTION_FACT},
              summary='Show one fact of how the volumes of a type are encrypted.'),
    Operation('PUT', f'{_ENCRYPTION}/{{encryption_id}}', handlers.update_encryption,
              policy=policies.ENCRYPTION_UPDATE, target=_type,
              body={BASE: schemas.ENCRYPTION_UPDATE}, answer={BASE: schemas.ENCRYPTION_UPDATED},
              summary='Change how the volumes of a type are encrypted.'),
    Operation('DELETE', f'{_ENCRYPTION}/{{encryption_id}}', handlers.delete_encryption,
              policy=policies.ENCRYPTION_DELETE, target=_type, status=202,
              answer={BASE: schemas.NOTHING}, summary='Let the volumes of a type be plain again.'),
)
