"""Groups of cases of the attachments API, as test classes of Tempest's."""
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
    """Create, update, complete and delete."""


class StatusesTest(statuses.Statuses, base.CasesTest):
    """From available to in-use and back."""


class ModesTest(modes.Modes, base.CasesTest):
    """rw and ro."""


class JoinsTest(joins.Joins, base.CasesTest):
    """Hosts that join a multiattach volume and leave it."""


class RacesTest(races.Races, base.CasesTest):
    """Of a volume that only one may have."""


class RepeatingTest(repeating.Repeating, base.CasesTest):
    """The same request once more."""


class RefusedCreatesTest(refusals.RefusedCreates, base.CasesTest):
    """Creating an attachment that cannot be."""


class RefusedUpdatesTest(refusals.RefusedUpdates, base.CasesTest):
    """Updating, completing, showing and deleting what cannot be."""


class RefusedVersionsTest(refusals.RefusedVersions, base.CasesTest):
    """Requests of a microversion that does not have them."""


class RefusedStatesTest(refusals.RefusedStates, base.CasesTest):
    """Requests that the state of the volume does not allow."""


class ListsTest(listing.Lists, base.CasesTest):
    """GET /attachments."""


class ExtensionTest(extension.Extension, base.CasesTest):
    """``OpenStack-API-Version: volume ..., blockattach ...``."""
