#!/usr/bin/env python3
"""Print Cinder's API as data: first microversion and bounds of the body of each request.

    .venv-cinder/bin/python tools/docs/cinder_api.py >tools/docs/cinder_api.json

Run by the interpreter of ``.venv-cinder``. Of blockattach, only the module ``bounds`` in the same
folder is imported.
"""
import json
import re
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from cinder import objects
from cinder import rpc
from cinder import version
from cinder.common import config  # noqa: F401 (registers the options)
from cinder.common import constants
from oslo_config import cfg

import bounds

FIRST = '3.0'
# Checked in the method, not by a decorator.
CHECKED_WITHIN = {'/manageable_volumes': '3.8', '/manageable_snapshots': '3.8'}
# Rows of the table of actions that are not actions on one resource.
NO_ACTIONS = ('create', 'update', 'delete')

Method = Callable[..., Any]


def requests(mapper: Any) -> Iterator[tuple[str, Method]]:
    """Yield the name of each request with the method that handles it."""
    for route in mapper.matchlist:
        resource = route.defaults.get('controller')
        path = re.sub(r'^/?\{project_id[^}]*\}', '', route.routepath)
        if not hasattr(resource, 'wsgi_actions') or 'format' in path:
            continue
        path = '/' + re.sub(r':\(?\w+\)?|\{[^}]*\}', '{}', path).strip('/')
        action = route.defaults['action']
        for method in (route.conditions or {}).get('method', ()):
            answers = getattr(resource.controller, action, None) or resource.wsgi_actions.get(
                action)
            if answers is not None:
                yield f'{method} {path}', answers
            elif action == 'action':
                for name, answers in resource.wsgi_actions.items():
                    if name not in NO_ACTIONS:
                        yield f'{method} {path} {name}', answers


def described(name: str, method: Method) -> dict[str, Any]:
    """Return the known facts of a request."""
    since, bodies = FIRST, {}
    for first, function in versions(method):
        since = first
        for begin, schema in schemas(function):
            bodies[begin if begin != FIRST else first] = bounds.of(schema)
    for path, first in CHECKED_WITHIN.items():
        if path in name:
            since = first
    return {'since': since, 'bodies': dict(sorted(bodies.items(), key=by_number))}


def versions(method: Method) -> list[tuple[str, Method]]:
    """Return the functions of a method with their microversions, newest first."""
    cells = closure(method)
    if 'key' not in cells or 'self' not in cells:
        return [(FIRST, method)]
    return [(one.start_version.get_string(), one.func)
            for one in cells['self'].versioned_methods[cells['key']]]


def schemas(function: Any) -> Iterator[tuple[str, Any]]:
    """Return the schemas with which the decorators of a function validate its body."""
    while hasattr(function, '_request_schema'):
        cells = closure(function)
        if 'request_body_schema' in cells:
            yield cells['min_version'] or FIRST, cells['request_body_schema']
        # Other decorators name the decorated function differently.
        function = next((value for value in cells.values() if callable(value)), None)


def closure(function: Method) -> dict[str, Any]:
    """Return the closure variables of a function."""
    function = getattr(function, '__func__', function)
    return {name: cell.cell_contents for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True)}


def by_number(pair: tuple[str, Any]) -> list[int]:
    """Return the key that sorts microversions as numbers."""
    return [int(part) for part in pair[0].split('.')]


def main() -> int:
    """Print the data."""
    with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
        file.write('[DEFAULT]\ntransport_url = fake:/\n[database]\nconnection = sqlite://\n')
        file.flush()
        cfg.CONF([], project='cinder', version=version.version_string(),
                 default_config_files=[file.name])
    objects.register_all()
    rpc.init(cfg.CONF)
    # Replaces a read from a database.
    for binary in constants.LOG_BINARIES:
        rpc.LAST_OBJ_VERSIONS[binary] = rpc.LAST_RPC_VERSIONS[binary] = None
    # The controllers create clients of the message bus.
    from cinder.api.v3 import router
    found = {name: described(name, method)
             for name, method in requests(router.APIRouter().map)}
    lines = ',\n'.join(f'{json.dumps(name)}: {json.dumps(one, sort_keys=True)}'
                       for name, one in sorted(found.items()))
    print(f'{{"version": "{version.version_string()}", "requests": {{\n{lines}}}}}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
