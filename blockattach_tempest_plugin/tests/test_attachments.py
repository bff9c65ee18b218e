"""Tempest tests of the attachments API, one class for each group of cases."""
from blockattach_tempest_plugin.cases import extension
from blockattach_tempest_plugin.cases import joins
from blockattach_tempest_plugin.cases import lifecycle
from blockattach_tempest_plugin.cases import listing
from blockattach_tempest_plugin.cases import modes
from blockattach_tempest_plugin.cases import races
from blockattach_tempest_plugin.cases import refusals
from blockattach_tempest_plugin.cases import repeating
from blockattach_tempest_plugin.cases import statuses
from blockattach_tempest_plugin.tests import base


class LifecycleTest(lifecycle.Lifecycle, base.CasesTest):
    """Tests of creating, updating, completing and deleting attachments."""


class VolumeStatusesTest(statuses.VolumeStatuses, base.CasesTest):
    """Tests of the statuses from available to in-use and back."""


class AccessModesTest(modes.AccessModes, base.CasesTest):
    """Tests of the modes rw and ro."""


class MultiattachTest(joins.Multiattach, base.CasesTest):
    """Tests of hosts that attach to and detach from a multiattach volume."""


class ConcurrentRequestsTest(races.ConcurrentRequests, base.CasesTest):
    """Tests of concurrent requests on a volume without multiattach."""


class RepeatedRequestsTest(repeating.RepeatedRequests, base.CasesTest):
    """Tests of requests that are sent twice."""


class RejectedCreationsTest(refusals.RejectedCreations, base.CasesTest):
    """Tests of invalid requests to create an attachment."""


class RejectedUpdatesTest(refusals.RejectedUpdates, base.CasesTest):
    """Tests of invalid requests to update, complete, show and delete attachments."""


class RejectedMicroversionsTest(refusals.RejectedMicroversions, base.CasesTest):
    """Tests of requests at a microversion that does not support them."""


class RejectedVolumeStatusesTest(refusals.RejectedVolumeStatuses, base.CasesTest):
    """Tests of requests that the status of the volume does not allow."""


class AttachmentListsTest(listing.AttachmentLists, base.CasesTest):
    """Tests of ``GET /attachments``."""


class ExtensionTest(extension.Extension, base.CasesTest):
    """Tests of the blockattach extension."""
