"""The base class and registry of what crosses a process boundary as an object.

An object changes only together with its ``VERSION``, and ``obj_make_compatible`` says how the
older form looks; a test holds fingerprints of all of them.
"""
from oslo_versionedobjects import base as ovo_base


class BlockattachObject(ovo_base.VersionedObject):
    """What every carrier inherits. It holds values, loads nothing and saves nothing."""

    OBJ_SERIAL_NAMESPACE = 'blockattach_object'
    OBJ_PROJECT_NAMESPACE = 'blockattach'


class ObjectSerializer(ovo_base.VersionedObjectSerializer):
    """Objects to primitives and back; an object newer than this process knows is refused."""

    OBJ_BASE_CLASS = BlockattachObject


def registered() -> dict[str, type[BlockattachObject]]:
    """The carriers by name, in their newest version."""
    classes = ovo_base.VersionedObjectRegistry.obj_classes()
    return {name: versions[0] for name, versions in classes.items()
            if issubclass(versions[0], BlockattachObject)}
