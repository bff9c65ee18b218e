"""RPC interface for consumers of attachments, such as Nova, and its client.

The interface has the operations of ``/attachments`` in the API, with the same policy and errors
(`blockattach.platform.errors`). A consumer needs only this module and `contract`::

    bus = attachments.open_bus(conf)
    client = attachments.AttachmentsClient(bus)
    caller = attachments.caller(project_id, user_id, roles=['member'])
    attachment = client.create(caller, volume_id, instance_uuid, connector)
    ...
    client.complete(caller, attachment.id)

The context of the caller is trusted, as for every client of the bus. All methods are idempotent. A
repeated ``create`` must have the idempotency key of the first request.
"""
import abc
import uuid
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from blockattach.platform import context
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import transport
from blockattach.storage import objects
from blockattach.storage.rpc import history

SERVICE_ROLE = 'service'
"""Role that identifies a service in the default policy."""


class AttachmentsInterface(contract.Interface):
    """Attachments of a consumer. All processes that serve the interface are equivalent.

    In addition to the errors in their documentation, the methods raise the following errors, and
    then change nothing:

    - NotAuthorized if the policy denies the request, or the caller has no service role
    - AttachmentNotFound if no such attachment is visible to the project of the caller
    - InvalidInput if an argument is malformed
    """

    TOPIC = 'attachments'

    @contract.call(since='1.0')
    @abc.abstractmethod
    def create(self, ctxt: context.RequestContext, volume_id: str, instance_uuid: str | None,
               connector: Mapping[str, Any] | None, mode: str | None,
               idempotency_key: str | None) -> objects.Attachment:
        """Reserve a volume for a consumer. If a connector is given, also grant access to its host.

        :raises VolumeNotFound: if no such volume is visible to the project of the caller
        :raises InvalidVolume: if the volume does not allow a new attachment
        :raises QuotaExceeded: if the project has reached its quota of attachments
        :raises BackendRefused: if the backend refused access. No attachment was created.
        :raises BackendUncertain: if the result of the backend is unknown. The attachment is being
            deleted.
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def update(self, ctxt: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> objects.Attachment:
        """Store a connector in an attachment, and connect its host.

        :raises Conflict: if the state of the volume or of its attachments does not allow the
            connection. The attachment is unchanged.
        :raises BackendRefused: if the backend refused access. The attachment is unchanged.
        :raises BackendUncertain: if the result of the backend is unknown. The host may be
            connected, and the request can be repeated.
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def complete(self, ctxt: context.RequestContext, attachment_id: str) -> None:
        """Complete an attachment. The call confirms that the consumer uses the volume.

        :raises InvalidTransition: if the state of the attachment does not allow a completion
        """

    @contract.call(since='1.1')
    @abc.abstractmethod
    def complete_all(self, ctxt: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, str]:
        """Complete several attachments independently. Missing attachments are skipped.

        :param attachment_ids: at most 1000 ids
        :returns: reason of the failure by id, for each attachment that was not completed
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def get(self, ctxt: context.RequestContext, attachment_id: str) -> objects.Attachment:
        """Return an attachment."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def list(self, ctxt: context.RequestContext, filters: Mapping[str, str], all_projects: bool,
             marker: str | None, limit: int | None) -> Sequence[objects.Attachment]:
        """List attachments, newest first.

        :param filters: values by filter name: volume_id, instance_uuid, host or attach_status
        :param all_projects: True to list the attachments of all projects, for administrators only
        :param marker: id of the last attachment on the previous page; None for the first page
        :param limit: maximum number of attachments; None for the configured maximum
        :raises InvalidFilter: if a filter has another name
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def delete(self, ctxt: context.RequestContext,
               attachment_id: str) -> Sequence[objects.Attachment]:
        """Delete an attachment, and return the other attachments of its volume.

        :raises AttachmentInUseByServer: if Nova uses the attachment, and the request has no
            service role. The attachment is unchanged.
        :raises BackendRefused: if the backend refused to revoke access. The attachment is
            unchanged.
        :raises BackendUncertain: if the result of the backend is unknown. The attachment is being
            deleted.
        """


def open_bus(conf: cfg.ConfigOpts) -> transport.Bus:
    """Return the configured message bus, for a process that is only a client.

    The options are ``transport_url`` and those of ``[rpc]``.

    :raises ConfigurationError: if an option is invalid
    """
    conf.register_opts(rpc_conf.OPTS, group=rpc_conf.GROUP)
    return transport.Bus(transport.build_transport(conf), rpc_conf.settings(conf),
                         history.RELEASES)


class AttachmentsClient(AttachmentsInterface):
    """RPC client for consumers. `AttachmentsInterface` documents the methods.

    Each method also raises the errors of `contract.Invoke`.
    """

    def __init__(self, bus: transport.Bus) -> None:
        self._stub = calling.stub(AttachmentsInterface, bus.client(AttachmentsInterface))

    def create(self, ctxt: context.RequestContext, volume_id: str,
               instance_uuid: str | None = None, connector: Mapping[str, Any] | None = None,
               mode: str | None = None,
               idempotency_key: str | None = None) -> objects.Attachment:
        """Reserve a volume, and connect the host if a connector is given.

        :param idempotency_key: key of the request. A repeated request with the same key returns
            the attachment of the first request. For None, the client generates a unique key, so
            that a message that is delivered twice creates only one attachment.
        """
        return self._stub.create(
            ctxt, volume_id, instance_uuid, connector, mode,
            uuid.uuid4().hex if idempotency_key is None else idempotency_key)

    def update(self, ctxt: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> objects.Attachment:
        return self._stub.update(ctxt, attachment_id, connector)

    def complete(self, ctxt: context.RequestContext, attachment_id: str) -> None:
        self._stub.complete(ctxt, attachment_id)

    def complete_all(self, ctxt: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, str]:
        return self._stub.complete_all(ctxt, attachment_ids)

    def get(self, ctxt: context.RequestContext, attachment_id: str) -> objects.Attachment:
        return self._stub.get(ctxt, attachment_id)

    def list(self, ctxt: context.RequestContext, filters: Mapping[str, str] | None = None,
             all_projects: bool = False, marker: str | None = None,
             limit: int | None = None) -> Sequence[objects.Attachment]:
        return self._stub.list(ctxt, filters or {}, all_projects, marker, limit)

    def delete(self, ctxt: context.RequestContext,
               attachment_id: str) -> Sequence[objects.Attachment]:
        return self._stub.delete(ctxt, attachment_id)


def caller(project_id: str, user_id: str, roles: Sequence[str] = (),
           service_roles: Sequence[str] = (SERVICE_ROLE,),
           request_id: str | None = None) -> context.RequestContext:
    """Return the context of a request that a service sends for a user.

    :param roles: roles of the user in the project
    :param service_roles: roles of the service that sends the request
    :param request_id: id of the request in the logs of both the consumer and this service; None
        for a new id
    """
    return context.RequestContext(
        project_id=project_id, user_id=user_id, roles=list(roles),
        service_roles=list(service_roles), request_id=request_id, overwrite=False)
