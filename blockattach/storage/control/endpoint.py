"""RPC endpoint for attachments, which consumers such as Nova call on the message bus.

The endpoint checks the same policies as the API, in the same order. The request context of the
message is trusted with one exception: the policy of this service decides whether the caller is an
administrator.
"""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform import context
from blockattach.platform.policy import enforcer
from blockattach.storage import errors
from blockattach.storage import objects
from blockattach.storage.control import attachments
from blockattach.storage.control import consumer_requests
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.domain import records
from blockattach.storage.policy import access
from blockattach.storage.policy import attachments as policies
from blockattach.storage.rpc import attachments as attachments_rpc

_TOGETHER = 1000
"""Maximum number of attachments in one call of ``complete_all``."""


class AttachmentsEndpoint(attachments_rpc.AttachmentsInterface):
    """RPC endpoint of a control process. Any control process can process any call.

    The methods raise AttachmentNotFound or VolumeNotFound if the caller cannot see the resource,
    and NotAuthorized if the policy denies the operation.
    """

    def __init__(self, policy: enforcer.Enforcer, control: attachments.AttachmentControl,
                 most: int) -> None:
        """
        :param most: maximum number of attachments on a page of a list
        """
        self._database = control.backend.database
        self._policy = policy
        self._control = control
        self._most = most

    def create(self, ctxt: context.RequestContext, volume_id: str, instance_uuid: str | None,
               connector: Mapping[str, Any] | None, mode: str | None,
               idempotency_key: str | None) -> objects.Attachment:
        self._admit(ctxt, policies.CREATE)
        if not consumer_requests.is_id(volume_id):
            raise errors.VolumeNotFound(volume_id=volume_id)
        # Malformed arguments are rejected by `wish`, but only after the policy check for the
        # project of the volume.
        expected = access.volume_to_attach(
            ctxt, self._database, volume_id,
            instance_uuid if consumer_requests.is_id(instance_uuid) else None,
            connector if isinstance(connector, Mapping) else None)
        volume = expected.volume
        self._policy.authorize(ctxt, policies.CREATE, volume.project_id)
        wish = consumer_requests.wish(expected, instance_uuid, connector, mode,
                                      access.forbidden_by(self._policy, ctxt, volume))
        request = consumer_requests.named(ctxt, idempotency_key, {
            'volume_id': volume_id, 'instance_uuid': instance_uuid, 'connector': connector,
            'mode': mode})
        return self._shown(ctxt, [self._control.create(ctxt, volume, wish, request)])[0]

    def update(self, ctxt: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> objects.Attachment:
        row = self._attachment(ctxt, policies.UPDATE, attachment_id)
        checked = consumer_requests.connector_of(connector)
        return self._shown(ctxt, [self._control.update(ctxt, row, checked)])[0]

    def complete(self, ctxt: context.RequestContext, attachment_id: str) -> None:
        row = self._attachment(ctxt, policies.COMPLETE, attachment_id)
        self._control.complete(ctxt, row)

    def complete_all(self, ctxt: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, str]:
        self._admit(ctxt, policies.COMPLETE)
        if not isinstance(attachment_ids, list) or len(attachment_ids) > _TOGETHER:
            raise errors.InvalidInput(
                reason=f'Invalid input received: attachment_ids must be a list of at most '
                       f'{_TOGETHER} IDs.')
        failed = {}
        for attachment_id in attachment_ids:
            try:
                self.complete(ctxt, attachment_id)
            except errors.AttachmentNotFound:
                pass
            except errors.BlockattachError as exc:
                failed[attachment_id] = str(exc)
        return failed

    def get(self, ctxt: context.RequestContext, attachment_id: str) -> objects.Attachment:
        row = self._attachment(ctxt, policies.GET, attachment_id)
        return self._shown(ctxt, [row])[0]

    def list(self, ctxt: context.RequestContext, filters: Mapping[str, str], all_projects: bool,
             marker: str | None, limit: int | None) -> Sequence[objects.Attachment]:
        self._admit(ctxt, policies.GET_ALL)
        wanted = consumer_requests.filters(ctxt, filters, all_projects)
        page = consumer_requests.page(marker, limit, self._most)
        return self._shown(
            ctxt, attachment_queries.list_page(self._database, wanted, page, sealed=True))

    def delete(self, ctxt: context.RequestContext,
               attachment_id: str) -> Sequence[objects.Attachment]:
        row = self._attachment(ctxt, policies.DELETE, attachment_id)
        return [objects.Attachment.from_domain(one) for one in self._control.delete(ctxt, row)]

    def _admit(self, caller: context.RequestContext, rule: str) -> None:
        """Check that the caller is a consumer, and may execute the operation in its own project.

        :param rule: policy rule of the operation
        :raises NotAuthorized: the policy denies the operation
        :raises InvalidInput: the request context has no project
        """
        self._identify(caller)
        self._policy.authorize(caller, rule)

    def _attachment(self, caller: context.RequestContext, rule: str,
                    attachment_id: str) -> records.Attachment:
        """Return an attachment, after the caller is authorized by a policy rule.

        :raises AttachmentNotFound: the caller cannot see the attachment
        :raises NotAuthorized: the policy denies the operation
        """
        self._identify(caller)
        if not consumer_requests.is_id(attachment_id):
            raise errors.AttachmentNotFound(attachment_id=attachment_id)
        found = access.attachment(caller, self._database, attachment_id)
        self._policy.authorize(caller, rule, found.project_id)
        return found

    def _shown(self, caller: context.RequestContext,
               rows: Sequence[records.Attachment]) -> Sequence[objects.Attachment]:
        """Convert attachments for the response.

        The result contains the connection information, and the credential if the policy allows
        the caller to see the credential.
        """
        infos = access.connection_infos(self._policy, caller, self._database, rows)
        return [objects.Attachment.from_domain(one, infos[one.id]) for one in rows]

    def _identify(self, caller: context.RequestContext) -> None:
        if not caller.project_id:
            raise errors.InvalidInput(
                reason='Invalid input received: The request context must have a project_id.')
        # A policy rule may refer to ``is_admin``, and must not use the value of the sender.
        caller.is_admin = False
        caller.is_admin = self._policy.is_admin(caller)
        self._policy.authorize(caller, policies.CONSUME)
