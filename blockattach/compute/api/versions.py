"""Which microversions there are, and which of them change what is served here.

The numbers are Nova's. A version that is about something else than servers, their volumes, flavors
and agents changes nothing here, and is spoken all the same; what it adds to a server that there is
none of here is in `blockattach.compute.api.views`.
"""
from blockattach.http.operation import V

SERVICE = 'compute'
PREFIX = '/v2.1'
MINIMUM, MAXIMUM = V(2, 1), V(2, 104)
UPDATED = '2026-11-27T00:00:00Z'

HISTORY = (
    (V(2, 1), 'The base.'),
    (V(2, 3), 'A server shows its root device and whether its volumes go with it.'),
    (V(2, 11), 'A service shows whether it was forced down.'),
    (V(2, 19), 'A server has a description.'),
    (V(2, 37), 'networks is required, and may be auto or none.'),
    (V(2, 42), 'A block device of a new server may have a tag.'),
    (V(2, 47), 'A server shows its flavor in full.'),
    (V(2, 49), 'A volume is attached with a tag.'),
    (V(2, 51), 'The events of an action are shown to all that may see it.'),
    (V(2, 53), 'A service has a UUID.'),
    (V(2, 58), 'Actions come in pages, may be chosen by changes-since, and show updated_at.'),
    (V(2, 60), 'Volumes for many servers are attached.'),
    (V(2, 62), 'An event of an action shows its host.'),
    (V(2, 66), 'Actions may be chosen by changes-before.'),
    (V(2, 70), 'The tag of a volume is shown.'),
    (V(2, 75), 'A server that is changed is shown in full.'),
    (V(2, 79), 'A volume is attached with delete_on_termination, which is shown.'),
    (V(2, 84), 'An event of an action says why it failed.'),
    (V(2, 85), 'delete_on_termination is changed.'),
    (V(2, 89), 'A volume of a server shows its attachment_id and bdm_uuid, and no id.'),
    (V(2, 101), 'A volume is attached after the answer, which is 202 without a body.'),
)
(BASE, ROOT_DEVICE, FORCED_DOWN, DESCRIPTION, NETWORKS, TAG_AT_BOOT, FLAVOR_SHOWN, TAG,
 EVENTS_SHOWN, SERVICE_IDS, ACTION_PAGES, MULTIATTACH, EVENT_HOST, CHANGES_BEFORE, TAG_SHOWN,
 CHANGED_SHOWN, KEEP, EVENT_DETAILS, KEEP_CHANGED, IDS, LATER) = (since for since, _ in HISTORY)

EXTENSION_HISTORY = (
    (V(1, 0), 'The mode of a volume: attach_mode.'),
)
ATTACH_MODE = EXTENSION_HISTORY[0][0]
EXTENSION_MINIMUM, EXTENSION_MAXIMUM = EXTENSION_HISTORY[0][0], EXTENSION_HISTORY[-1][0]
