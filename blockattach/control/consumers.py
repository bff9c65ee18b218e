"""What a consumer on the bus may do: by the rules of the API, asked in the same order.

The caller's context in the message is trusted, but for one thing: whether it is an administrator
is decided by our policy.
"""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach import context
from blockattach import errors
from blockattach.control import connections
from blockattach.control import consumer_requests
from blockattach.db import engine
from blockattach.db import preconditions
from blockattach.domain import records
from blockattach.objects import attachment as carriers
from blockattach.policy import access
from blockattach.policy import attachments as policies
from blockattach.policy import enforcer
from blockattach.policy import joining


class Consumers:
    """Authorizes callers, and shows them what they may see."""

    def __init__(self, database: engine.Database, policy: enforcer.Enforcer) -> None:
        self._database = database
        self._policy = policy

    def admit(self, caller: context.RequestContext, rule: str) -> None:
        """Return if the caller may do that in its own project, by a service.

        :raises NotAuthorized: policy denies it
        :raises InvalidInput: no project is named
        """
        self._identify(caller)
        self._policy.authorize(caller, rule)

    def volume(self, caller: context.RequestContext, volume_id: str, instance_uuid: Any,
               connector: Any) -> preconditions.Precondition:
        """A volume that the caller may attach, as it is for this instance and this connector.

        :raises VolumeNotFound: there is none that the caller may see
        :raises NotAuthorized: policy denies it
        """
        self.admit(caller, policies.CREATE)
        if not consumer_requests.is_id(volume_id):
            raise errors.VolumeNotFound(volume_id=volume_id)
        found = access.volume_to_attach(
            caller, self._database, volume_id,
            instance_uuid if consumer_requests.is_id(instance_uuid) else None,
            connector if isinstance(connector, Mapping) else None)
        self._policy.authorize(caller, policies.CREATE, found.volume.project_id)
        return found

    def forbidden_by(self, caller: context.RequestContext, volume: records.Volume) -> str | None:
        """The rule that forbids a further attachment; see `blockattach.policy.joining`."""
        return joining.forbidden_by(self._policy, caller, volume)

    def attachment(self, caller: context.RequestContext, rule: str,
                   attachment_id: str) -> records.Attachment:
        """An attachment to which the caller may do what the rule says.

        :raises AttachmentNotFound: there is none that the caller may see
        :raises NotAuthorized: policy denies it
        """
        self._identify(caller)
        if not consumer_requests.is_id(attachment_id):
            raise errors.AttachmentNotFound(attachment_id=attachment_id)
        found = access.attachment(caller, self._database, attachment_id)
        self._policy.authorize(caller, rule, found.project_id)
        return found

    def shown(self, caller: context.RequestContext,
             rows: Sequence[records.Attachment]) -> list[carriers.Attachment]:
        """Attachments as the caller may see them, with how their hosts reach the volume."""
        infos = connections.shown(self._database, self._policy, caller, rows)
        return [carriers.Attachment.from_domain(one, infos[one.id]) for one in rows]

    def _identify(self, caller: context.RequestContext) -> None:
        if not caller.project_id:
            raise errors.InvalidInput(
                reason='Invalid input received: the caller must name a project.')
        caller.is_admin = False
        caller.is_admin = self._policy.is_admin(caller)
        self._policy.authorize(caller, policies.CONSUME)
