"""Base class and registry of versioned objects in RPC messages.

An object changes only together with its ``VERSION``, and ``obj_make_compatible`` converts it to an
older version. A test compares the fingerprints of all objects.
"""
from typing import Any
from typing import Self

from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields


class BlockattachObject(ovo_base.VersionedObject):
    """Base class of versioned objects. They hold values, and neither load nor save anything."""

    OBJ_SERIAL_NAMESPACE = 'blockattach_object'
    OBJ_PROJECT_NAMESPACE = 'blockattach'

    @classmethod
    def of(cls, record: object, **values: Any) -> Self:
        """Return the object of a record.

        Fields that are not in ``values`` are read from the attributes of the record. A field is
        None if the record has no such attribute.
        """
        return cls(**{name: getattr(record, name, None) for name in cls.fields} | values)

    def to_body(self) -> dict[str, Any]:
        """Return the body of a notification, with the fields beside name and version.

        Readers of OpenStack notifications do not expect fields nested in
        ``blockattach_object.data``, as oslo.versionedobjects serializes them.
        """
        return _flat(self.obj_to_primitive())


_NAME, _VERSION, _DATA = (f'{BlockattachObject.OBJ_SERIAL_NAMESPACE}.{part}'
                          for part in ('name', 'version', 'data'))


def _flat(value: Any) -> Any:
    """Return a primitive whose objects, inner ones too, have fields beside name and version."""
    if isinstance(value, list):
        return [_flat(item) for item in value]
    if not isinstance(value, dict) or _DATA not in value:
        return value
    return {_NAME: value[_NAME], _VERSION: value[_VERSION],
            **{name: _flat(item) for name, item in value[_DATA].items()}}


class _Unprinted(fields.FieldType[dict[str, Any]]):
    """Field type of a mapping of plain data."""

    def stringify(self, value: dict[str, Any]) -> str:
        """Return a placeholder, because the value may contain a secret."""
        return '***'


class UnprintedField(fields.Field[dict[str, Any]]):
    """Field of plain data that may contain a secret. It is sent unchanged and never printed."""

    def __init__(self, nullable: bool = False) -> None:
        super().__init__(_Unprinted(), nullable=nullable)


class ObjectSerializer(ovo_base.VersionedObjectSerializer):
    """Serializer of versioned objects. Objects of an unknown newer version are rejected."""

    OBJ_BASE_CLASS = BlockattachObject


def registered() -> dict[str, type[BlockattachObject]]:
    """Return the classes of all versioned objects by name, in their newest versions."""
    classes = ovo_base.VersionedObjectRegistry.obj_classes()
    return {name: versions[0] for name, versions in classes.items()
            if issubclass(versions[0], BlockattachObject)}
