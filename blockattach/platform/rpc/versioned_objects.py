"""The base class and registry of what crosses a process boundary as an object.

An object changes only together with its ``VERSION``, and ``obj_make_compatible`` says how the
older form looks; a test holds fingerprints of all of them.
"""
from typing import Any
from typing import Self

from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields


class BlockattachObject(ovo_base.VersionedObject):
    """What every carrier inherits. It holds values, loads nothing and saves nothing."""

    OBJ_SERIAL_NAMESPACE = 'blockattach_object'
    OBJ_PROJECT_NAMESPACE = 'blockattach'

    @classmethod
    def of(cls, record: object, **values: Any) -> Self:
        """The carrier of a record: a field that ``values`` do not have is its attribute of that
        name; null where it has none."""
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
    """A mapping of plain data."""

    def stringify(self, value: dict[str, Any]) -> str:
        """What a log may show of it."""
        return '***'


class UnprintedField(fields.Field[dict[str, Any]]):
    """Plain data that may hold a secret: carried as it is, never printed."""

    def __init__(self, nullable: bool = False) -> None:
        super().__init__(_Unprinted(), nullable=nullable)


class ObjectSerializer(ovo_base.VersionedObjectSerializer):
    """Objects to primitives and back; an object newer than this process knows is refused."""

    OBJ_BASE_CLASS = BlockattachObject


def registered() -> dict[str, type[BlockattachObject]]:
    """The carriers by name, in their newest version."""
    classes = ovo_base.VersionedObjectRegistry.obj_classes()
    return {name: versions[0] for name, versions in classes.items()
            if issubclass(versions[0], BlockattachObject)}
