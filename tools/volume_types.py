"""The volume types of a new cloud; `tools/devcloud` and the plugin for devstack make them.

Run, it acts on the cloud that the environment names, as the OpenStack clients do (``OS_CLOUD``, or
``OS_AUTH_URL`` and the others), as an administrator::

    python tools/volume_types.py [--backend NAME]...

``--backend`` makes a type of that name besides, whose volumes are on that backend. A type that is
there stays as it is.
"""
import argparse
from collections.abc import Iterable
from typing import Any

import openstack

SHARED = 'multiattach'
"""The type of volumes that several hosts may have attached."""
_MULTIATTACH = {'multiattach': '<is> True'}


def make(cloud: openstack.connection.Connection, backends: Iterable[str] = ()) -> list[str]:
    """Make those that are missing.

    :param cloud: an administrator's
    :param backends: the names that backends have in types (``volume_backend_name``)
    :return: the names of those that were made
    """
    storage: Any = cloud.block_storage
    wanted = {SHARED: _MULTIATTACH,
              **{name: {'volume_backend_name': name} for name in backends}}
    missing = [name for name in wanted if storage.find_type(name) is None]
    for name in missing:
        storage.create_type(name=name, extra_specs=wanted[name])
    return missing


def main() -> None:
    """Make the types, and print which ones were missing."""
    parser = argparse.ArgumentParser(prog='tools/volume_types.py',
                                     description='Make the volume types of a new cloud.')
    parser.add_argument('--backend', action='append', default=[], metavar='NAME',
                        help='make a type of this name for this backend, too')
    arguments = parser.parse_args()
    for name in make(openstack.connect(), arguments.backend):
        print(f'Volume type {name} is made')


if __name__ == '__main__':
    main()
