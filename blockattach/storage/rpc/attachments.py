"""RPC interface for consumers of attachments, such as Nova, and its client.

The interface has the operations of ``/attachments`` in the API, with the same policy and errors
(`blockattach.platform.errors`). A consumer needs only this module and `contract`::

    bus = attachments.open_bus(conf)
    client = attachments.AttachmentsClient(bus)
    caller = attachments.caller(project_id, user_id, roles=['member'])
    attachment = client.create(caller, volume_id, instance_uuid, connector)
    ...
    client.complete(caller, attachment.id)

The context of the caller is trusted, as for every client of the bus. Each method may be repeated.
A repeat finds the completed part of the first request, and completes the rest.
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
"""Role by which policies identify a service by default."""


class AttachmentsInterface(contract.Interface):
    """Attachments of a consumer. All processes that serve the interface are equivalent.

    Besides its own errors, every method raises NotAuthorized (the policy denies the request, or
    the caller has no service role), AttachmentNotFound (no such attachment is visible to the
    project of the caller), and InvalidInput (an argument is malformed). Nothing is changed in
    these cases.
    """

    TOPIC = 'attachments'

    @contract.call(since='1.0')
    @abc.abstractmethod
    def create(self, ctxt: context.RequestContext, volume_id: str, instance_uuid: str | None,
               connector: Mapping[str, Any] | None, mode: str | None,
               idempotency_key: str | None) -> objects.Attachment:
        """Reserve a volume for a consumer. If a connector is given, also grant access to its host.

        :raises VolumeNotFound: no such volume is visible to the project of the caller
        :raises InvalidVolume: the volume cannot be attached, or not once more
        :raises BackendRefused: the attachment was not created
        :raises BackendUncertain: the incomplete attachment is being deleted
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def update(self, ctxt: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> objects.Attachment:
        """Connect the host of a connector.

        :raises BackendRefused: the attachment is unchanged
        :raises BackendUncertain: the host may be connected; repeat the request
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def complete(self, ctxt: context.RequestContext, attachment_id: str) -> None:
        """Complete an attachment that the consumer uses.

        :raises InvalidTransition: the service is still working on the attachment
        """

    @contract.call(since='1.1')
    @abc.abstractmethod
    def complete_all(self, ctxt: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, str]:
        """Complete several attachments independently. Missing attachments are skipped.

        :returns: the reasons of failed attachments, by attachment id
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

        :param filters: volume_id, instance_uuid, host, attach_status
        :param all_projects: list the attachments of all projects, for an administrator
        :param marker: id of the last attachment of the previous page
        :raises InvalidFilter: there is no such filter
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def delete(self, ctxt: context.RequestContext,
               attachment_id: str) -> Sequence[objects.Attachment]:
        """Delete an attachment, and return the other attachments of its volume.

        :raises BackendRefused: the attachment is unchanged
        :raises BackendUncertain: the attachment is being deleted
        """


def open_bus(conf: cfg.ConfigOpts) -> transport.Bus:
    """Return the bus as configured (``transport_url``, ``[rpc]``), for a process that only calls.

    :raises ConfigurationError: an option is invalid
    """
    conf.register_opts(rpc_conf.OPTS, group=rpc_conf.GROUP)
    return transport.Bus(transport.build_transport(conf), rpc_conf.settings(conf),
                         history.RELEASES)


class AttachmentsClient(AttachmentsInterface):
    """Client for consumers. Methods without documentation are documented in the interface.

    Each method also raises the errors of `contract.Invoke`.
    """

    def __init__(self, bus: transport.Bus) -> None:
        self._stub = calling.stub(AttachmentsInterface, bus.client(AttachmentsInterface))

    def create(self, ctxt: context.RequestContext, volume_id: str,
               instance_uuid: str | None = None, connector: Mapping[str, Any] | None = None,
               mode: str | None = None,
               idempotency_key: str | None = None) -> objects.Attachment:
        """Reserve a volume, and connect the host if a connector is given.

        :param idempotency_key: a repeat with the same key returns the attachment of the first
            request. None for a unique key, with which a message that is delivered twice creates
            only one attachment
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

    :param roles: roles of the user in the project, for policy
    :param service_roles: roles of the service
    :param request_id: request id in the logs of the consumer, which the logs of this service show
        too. None for a new request id
    """
    return context.RequestContext(
        project_id=project_id, user_id=user_id, roles=list(roles),
        service_roles=list(service_roles), request_id=request_id, overwrite=False)
