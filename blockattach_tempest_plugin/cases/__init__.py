"""Test cases in groups. The name of each test method is a sentence about the expected behavior."""
from blockattach_tempest_plugin.cases import base
from blockattach_tempest_plugin.cases import extension
from blockattach_tempest_plugin.cases import isolation
from blockattach_tempest_plugin.cases import joins
from blockattach_tempest_plugin.cases import legacy
from blockattach_tempest_plugin.cases import lifecycle
from blockattach_tempest_plugin.cases import listing
from blockattach_tempest_plugin.cases import modes
from blockattach_tempest_plugin.cases import races
from blockattach_tempest_plugin.cases import refusals
from blockattach_tempest_plugin.cases import repeating
from blockattach_tempest_plugin.cases import servers
from blockattach_tempest_plugin.cases import statuses

# `servers.ServersOfOneRequest` is not listed, because it requires the compute API, which only
# Tempest configures.
GROUPS: tuple[type[base.Cases], ...] = (
    lifecycle.Lifecycle, statuses.VolumeStatuses, modes.AccessModes, joins.Multiattach,
    races.ConcurrentRequests, repeating.RepeatedRequests, refusals.RejectedCreations,
    refusals.RejectedUpdates, refusals.RejectedMicroversions, refusals.RejectedVolumeStatuses,
    listing.AttachmentLists, isolation.ProjectIsolation, isolation.Readers, servers.ServerMoves,
    servers.ServiceTokens, legacy.LegacyActions, legacy.RejectedLegacyActions,
    legacy.ActionsAndAttachments, extension.Extension)
"""Groups in the order in which they run and are reported."""
