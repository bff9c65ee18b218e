"""Filters that users may use in lists.

The operator can configure a file in the format of Cinder's ``resource_filters.json``. Without a
file, the filters in `DEFAULT` apply.
"""
import json
import pathlib
from collections.abc import Mapping

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.conf import api
from blockattach.platform.conf import locations

Filters = Mapping[str, tuple[str, ...]]
"""Names of the filters by resource.

A name with ``~`` at the end allows both exact and substring matches.
"""

DEFAULT: Filters = {
    'volume': ('name', 'status', 'metadata', 'bootable', 'migration_status', 'availability_zone',
               'group_id', 'size', 'created_at', 'updated_at', 'consumes_quota'),
    'backup': ('name', 'status', 'volume_id'),
    'snapshot': ('name', 'status', 'volume_id', 'metadata', 'availability_zone',
                 'consumes_quota'),
    'group': ('name',),
    'group_snapshot': ('name', 'status', 'group_id'),
    'attachment': ('volume_id', 'status', 'instance_id', 'attach_status'),
    'message': ('resource_uuid', 'resource_type', 'event_id', 'request_id', 'message_level'),
    'pool': ('name', 'volume_type'),
    'volume_type': ('is_public', 'extra_specs'),
}


def settings(conf: cfg.ConfigOpts) -> Filters:
    """Return the filters in the file that ``[api] resource_query_filters_file`` names.

    Without a file, the result is `DEFAULT`.

    :raises ConfigurationError: if the file cannot be read or has another format
    """
    with locations.named(conf, api.GROUP, 'resource_query_filters_file'):
        return read(conf[api.GROUP].resource_query_filters_file)


def read(path: str | None) -> Filters:
    """Return the filters in a file, or `DEFAULT` without a file.

    :param path: path of the file; None or empty for no file
    :raises ConfigurationError: if the file cannot be read or has another format
    """
    if not path:
        return DEFAULT
    try:
        found = json.loads(pathlib.Path(path).read_text(encoding='utf-8'))
    except (OSError, ValueError) as exc:
        raise errors.ConfigurationError(reason=f'cannot read {path}: {exc}') from exc
    if not isinstance(found, dict) or not all(
            isinstance(names, list) and all(isinstance(name, str) for name in names)
            for names in found.values()):
        raise errors.ConfigurationError(
            reason=f'cannot use {path}: the file must contain a JSON object whose values are '
                   'lists of names')
    return {resource: tuple(names) for resource, names in found.items()}
