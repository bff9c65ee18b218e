"""Tempest tests of volume actions and of access rights, one class for each group of cases."""
from blockattach_tempest_plugin.cases import isolation
from blockattach_tempest_plugin.cases import legacy
from blockattach_tempest_plugin.cases import servers
from blockattach_tempest_plugin.tests import base


class ProjectIsolationTest(isolation.ProjectIsolation, base.CasesTest):
    """Tests with two projects of one service."""


class ReadersTest(isolation.Readers, base.CasesTest):
    """Tests with a read-only user."""


class ServerMovesTest(servers.ServerMoves, base.CasesTest):
    """Tests of a server that temporarily has attachments on two hosts."""


class ServersOfOneRequestTest(servers.ServersOfOneRequest, base.CasesTest):
    """Tests of servers that one request of the compute API creates with one volume."""


class ServiceTokensTest(servers.ServiceTokens, base.CasesTest):
    """Tests of requests on a server's volume that are allowed only to services."""


class LegacyActionsTest(legacy.LegacyActions, base.CasesTest):
    """Tests of the actions from os-reserve to os-detach."""


class RejectedLegacyActionsTest(legacy.RejectedLegacyActions, base.CasesTest):
    """Tests of actions that are refused."""


class ActionsAndAttachmentsTest(legacy.ActionsAndAttachments, base.CasesTest):
    """Tests that combine volume actions and the attachments API on one volume."""
