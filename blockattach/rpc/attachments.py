"""What a consumer such as Nova can ask for over the bus: `AttachmentsInterface`, and its client.

It is the API's ``/attachments``, with its policy, verbs and errors (`blockattach.errors`); a
consumer needs no more of this package than this module, `transport` and `contract`::

    bus = transport.open_bus(conf)
    client = attachments.AttachmentsClient(bus)
    caller = attachments.caller(project_id, user_id, roles=['member'])
    made = client.create(caller, volume_id, instance_uuid, connector)
    ...
    client.complete(caller, made.id)

The caller's context is trusted, as every client of the bus is. Each method may be repeated: a
repeat finds what the first has done, and does the rest.
"""
import abc
import uuid
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach import context
from blockattach.objects import attachment
from blockattach.rpc import calling
from blockattach.rpc import contract
from blockattach.rpc import transport

SERVICE_ROLE = 'service'
"""The role by which policies know a service, by default."""


class AttachmentsInterface(contract.Interface):
    """Any of those that serve consumers: all of them are equal.

    Besides its own errors, every method raises NotAuthorized (policy denies it, or the caller has
    no service role), AttachmentNotFound (none that the caller's project may see) and InvalidInput
    (an argument is malformed); nothing was changed then.
    """

    TOPIC = 'attachments'

    @contract.call(since='1.0')
    @abc.abstractmethod
    def create(self, ctxt: context.RequestContext, volume_id: str, instance_uuid: str | None,
               connector: Mapping[str, Any] | None, mode: str | None,
               idempotency_key: str | None) -> attachment.Attachment:
        """Reserve a volume for a consumer, and with a connector connect its host too.

        :raises VolumeNotFound: none that the caller's project may see
        :raises InvalidVolume: it cannot be attached (once more)
        :raises BackendRefused: nothing was kept
        :raises BackendUncertain: what was begun is being removed
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def update(self, ctxt: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> attachment.Attachment:
        """Connect the host of a connector.

        :raises BackendRefused: it is as it was
        :raises BackendUncertain: it may have happened: repeat the request
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def complete(self, ctxt: context.RequestContext, attachment_id: str) -> None:
        """Say that the consumer uses the volume.

        :raises InvalidTransition: the service itself is still at work on it
        """

    @contract.call(since='1.1')
    @abc.abstractmethod
    def complete_all(self, ctxt: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, str]:
        """`complete` of several, each by itself; one that is not there is passed over.

        :returns: why those failed that did, by their ids
        """

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def get(self, ctxt: context.RequestContext, attachment_id: str) -> attachment.Attachment:
        """Look at one."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def list(self, ctxt: context.RequestContext, filters: Mapping[str, str], all_projects: bool,
             marker: str | None, limit: int | None) -> Sequence[attachment.Attachment]:
        """List attachments, the newest first.

        :param filters: volume_id, instance_uuid, host, attach_status
        :param all_projects: not only those of the caller's project, for an administrator
        :param marker: the id of the last one of the page before
        :raises InvalidFilter: there is no such filter
        """

    @contract.call(since='1.0')
    @abc.abstractmethod
    def delete(self, ctxt: context.RequestContext,
               attachment_id: str) -> Sequence[attachment.Attachment]:
        """Disconnect an attachment and remove it; returns the remaining ones of its volume.

        :raises BackendRefused: it is as it was
        :raises BackendUncertain: it is on its way out
        """


class AttachmentsClient(AttachmentsInterface):
    """The client of consumers; it raises the errors of `contract.Invoke` too."""

    def __init__(self, bus: transport.Bus) -> None:
        self._stub = calling.stub(AttachmentsInterface, bus.client(AttachmentsInterface))

    def create(self, ctxt: context.RequestContext, volume_id: str,
               instance_uuid: str | None = None, connector: Mapping[str, Any] | None = None,
               mode: str | None = None,
               idempotency_key: str | None = None) -> attachment.Attachment:
        """Hold a volume. With a key a repeat finds what the first has made.

        Without one the message has a key of its own: delivered twice, it makes one attachment.
        """
        return self._stub.create(
            ctxt, volume_id, instance_uuid, connector, mode,
            uuid.uuid4().hex if idempotency_key is None else idempotency_key)

    def update(self, ctxt: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> attachment.Attachment:
        """Connect a host."""
        return self._stub.update(ctxt, attachment_id, connector)

    def complete(self, ctxt: context.RequestContext, attachment_id: str) -> None:
        """Say that the volume is used."""
        self._stub.complete(ctxt, attachment_id)

    def complete_all(self, ctxt: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, str]:
        """Say of several volumes that they are used; why that failed, by their ids."""
        return self._stub.complete_all(ctxt, attachment_ids)

    def get(self, ctxt: context.RequestContext, attachment_id: str) -> attachment.Attachment:
        """Look at one."""
        return self._stub.get(ctxt, attachment_id)

    def list(self, ctxt: context.RequestContext, filters: Mapping[str, str] | None = None,
             all_projects: bool = False, marker: str | None = None,
             limit: int | None = None) -> Sequence[attachment.Attachment]:
        """List a page of attachments."""
        return self._stub.list(ctxt, filters or {}, all_projects, marker, limit)

    def delete(self, ctxt: context.RequestContext,
               attachment_id: str) -> Sequence[attachment.Attachment]:
        """Disconnect an attachment and remove it."""
        return self._stub.delete(ctxt, attachment_id)


def caller(project_id: str, user_id: str, roles: Sequence[str] = (),
           service_roles: Sequence[str] = (SERVICE_ROLE,),
           request_id: str | None = None) -> context.RequestContext:
    """The context of a request: of a user, sent by a service.

    :param roles: the user's in the project, for policy
    :param service_roles: the service's own
    :param request_id: the one under which the consumer logs, to be found in our logs too
    """
    return context.RequestContext(
        project_id=project_id, user_id=user_id, roles=list(roles),
        service_roles=list(service_roles), request_id=request_id, overwrite=False)
