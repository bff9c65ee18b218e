"""Microversions of the compute API, with the numbers of Nova's microversions.

`HISTORY` lists the versions that concern servers, their volumes, flavors or agents. All other
versions are accepted without effect, except that some add constant fields to servers and flavors
(`blockattach.compute.api.views`).
"""
from blockattach.platform.http.operation import V

SERVICE = 'compute'
PREFIX = '/v2.1'
MINIMUM, MAXIMUM = V(2, 1), V(2, 104)
UPDATED = '2026-11-27T00:00:00Z'

HISTORY = (
    (V(2, 1), 'Initial version.'),
    (V(2, 3), 'Add root_device_name to servers, and delete_on_termination to their volumes.'),
    (V(2, 11), 'Add forced_down to services.'),
    (V(2, 19), 'Add a description to servers.'),
    (V(2, 37), 'Require networks, which may be auto or none.'),
    (V(2, 42), 'Add tag to block devices of new servers.'),
    (V(2, 47), 'Add the full flavor to server details.'),
    (V(2, 49), 'Add tag to requests that attach a volume.'),
    (V(2, 51), 'Show events of actions to all users who may see the action.'),
    (V(2, 53), 'Use UUIDs as the IDs of services.'),
    (V(2, 58), 'Add pagination, changes-since and updated_at to instance actions.'),
    (V(2, 60), 'Allow multiattach volumes.'),
    (V(2, 62), 'Add host to events of actions.'),
    (V(2, 66), 'Add changes-before to lists of instance actions.'),
    (V(2, 70), 'Add tag to volume attachments.'),
    (V(2, 75), 'Return full server details from updates.'),
    (V(2, 79), 'Add delete_on_termination to volume attachments.'),
    (V(2, 84), 'Add details to events of actions.'),
    (V(2, 85), 'Allow updates of delete_on_termination.'),
    (V(2, 89), 'Add attachment_id and bdm_uuid to volume attachments, and remove id.'),
    (V(2, 101), 'Attach volumes asynchronously. The response is 202 without a body.'),
)
(BASE, ROOT_DEVICE, FORCED_DOWN, DESCRIPTION, NETWORKS, TAG_AT_BOOT, FLAVOR_SHOWN, TAG,
 EVENTS_SHOWN, SERVICE_IDS, ACTION_PAGES, MULTIATTACH, EVENT_HOST, CHANGES_BEFORE, TAG_SHOWN,
 CHANGED_SHOWN, KEEP, EVENT_DETAILS, KEEP_CHANGED, IDS, LATER) = (since for since, _ in HISTORY)

EXTENSION_HISTORY = (
    (V(1, 0), 'Add attach_mode, the mode of a volume.'),
)
ATTACH_MODE = EXTENSION_HISTORY[0][0]
EXTENSION_MINIMUM, EXTENSION_MAXIMUM = EXTENSION_HISTORY[0][0], EXTENSION_HISTORY[-1][0]
