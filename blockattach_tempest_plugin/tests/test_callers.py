"""The same of actions on volumes, and of who may do what."""
from blockattach_tempest_plugin.cases import isolation
from blockattach_tempest_plugin.cases import legacy
from blockattach_tempest_plugin.cases import servers
from blockattach_tempest_plugin.tests import base


class IsolationTest(isolation.Isolation, base.CasesTest):
    """Two projects on one service."""


class ReadersTest(isolation.Readers, base.CasesTest):
    """A user who may only read."""


class MovesTest(servers.Moves, base.CasesTest):
    """A server on two hosts for a while."""


class MadeTogetherTest(servers.MadeTogether, base.CasesTest):
    """Servers that one request of the compute API creates with one volume."""


class ServiceTokensTest(servers.ServiceTokens, base.CasesTest):
    """What a user may not do with the volume of a server, and a service may."""


class LegacyActionsTest(legacy.LegacyActions, base.CasesTest):
    """The way from os-reserve to os-detach, and its turns."""


class LegacyRefusalsTest(legacy.LegacyRefusals, base.CasesTest):
    """Actions that cannot be."""


class OldAndNewTest(legacy.OldAndNew, base.CasesTest):
    """The actions and the attachments of one volume."""
