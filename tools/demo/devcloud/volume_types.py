"""Volume types of a new cloud, as `tools/devcloud` and the plugin for devstack create them.

The module uses the cloud that the environment names, as OpenStack clients do (``OS_CLOUD``, or
``OS_AUTH_URL`` and others). The account must be an administrator::

    python tools/demo/devcloud/volume_types.py [--backend NAME]...

``--backend`` also creates a type with that name, whose volumes are on that backend. Existing types
are not changed.
"""
import argparse
from collections.abc import Iterable
from typing import Any

import openstack

SHARED = 'multiattach'
"""Type of volumes that can be attached to several hosts."""
_MULTIATTACH = {'multiattach': '<is> True'}


def make(cloud: openstack.connection.Connection, backends: Iterable[str] = ()) -> list[str]:
    """Create the volume types that do not exist.

    :param cloud: connection of an administrator
    :param backends: names of backends in types (``volume_backend_name``)
    :returns: names of the created types
    """
    storage: Any = cloud.block_storage
    wanted = {SHARED: _MULTIATTACH,
              **{name: {'volume_backend_name': name} for name in backends}}
    missing = [name for name in wanted if storage.find_type(name) is None]
    for name in missing:
        storage.create_type(name=name, extra_specs=wanted[name])
    return missing


def main() -> None:
    """Create the missing volume types, and print their names."""
    parser = argparse.ArgumentParser(prog='tools/demo/devcloud/volume_types.py',
                                     description='Create the volume types of a new cloud.')
    parser.add_argument('--backend', action='append', default=[], metavar='NAME',
                        help='also create a type with this name for the backend')
    arguments = parser.parse_args()
    for name in make(openstack.connect(), arguments.backend):
        print(f'Volume type {name} created')


if __name__ == '__main__':
    main()
