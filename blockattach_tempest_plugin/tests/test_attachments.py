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


class StatusesTest(statuses.Statuses, base.CasesTest):
    """Tests of the statuses from available to in-use and back."""


class ModesTest(modes.Modes, base.CasesTest):
    """Tests of the modes rw and ro."""


class JoinsTest(joins.Joins, base.CasesTest):
    """Tests of hosts that attach to and detach from a multiattach volume."""


class RacesTest(races.Races, base.CasesTest):
    """Tests of concurrent requests on a volume without multiattach."""


class RepeatingTest(repeating.Repeating, base.CasesTest):
    """Tests of requests that are sent twice."""


class RefusedCreatesTest(refusals.RefusedCreates, base.CasesTest):
    """Tests of invalid requests to create an attachment."""


class RefusedUpdatesTest(refusals.RefusedUpdates, base.CasesTest):
    """Tests of invalid requests to update, complete, show and delete attachments."""


class RefusedVersionsTest(refusals.RefusedVersions, base.CasesTest):
    """Tests of requests at a microversion that does not support them."""


class RefusedStatesTest(refusals.RefusedStates, base.CasesTest):
    """Tests of requests that the status of the volume does not allow."""


class ListsTest(listing.Lists, base.CasesTest):
    """Tests of ``GET /attachments``."""


class ExtensionTest(extension.Extension, base.CasesTest):
    """Tests of the blockattach extension."""
