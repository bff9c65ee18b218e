"""What a consumer may ask over the bus: the verbs of an attachment, three lines a method."""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach import context
from blockattach.control import attachments
from blockattach.control import consumer_requests
from blockattach.control import consumers
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.objects import attachment as carriers
from blockattach.policy import attachments as policies
from blockattach.rpc import attachments as attachments_rpc


class AttachmentsEndpoint(attachments_rpc.AttachmentsInterface):
    """Answers for one control process; all of them are equal."""

    def __init__(self, database: engine.Database, consumers: consumers.Consumers,
                 control: attachments.AttachmentControl, most: int) -> None:
        """
        :param most: the most items that one page of a list has
        """
        self._database = database
        self._consumers = consumers
        self._control = control
        self._most = most

    def create(self, ctxt: context.RequestContext, volume_id: str, instance_uuid: str | None,
               connector: Mapping[str, Any] | None, mode: str | None,
               idempotency_key: str | None) -> carriers.Attachment:
        """Reserve a volume, and with a connector connect its host too."""
        expected = self._consumers.volume(ctxt, volume_id, instance_uuid, connector)
        volume = expected.volume
        wish = consumer_requests.wish(expected, instance_uuid, connector, mode,
                                      self._consumers.forbidden_by(ctxt, volume))
        request = consumer_requests.named(ctxt, idempotency_key, {
            'volume_id': volume_id, 'instance_uuid': instance_uuid, 'connector': connector,
            'mode': mode})
        return self._consumers.shown(
            ctxt, [self._control.create(ctxt, volume, wish, request)])[0]

    def update(self, ctxt: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> carriers.Attachment:
        """Connect the host of a connector."""
        row = self._consumers.attachment(ctxt, policies.UPDATE, attachment_id)
        checked = consumer_requests.connector_of(connector)
        return self._consumers.shown(ctxt, [self._control.update(ctxt, row, checked)])[0]

    def complete(self, ctxt: context.RequestContext, attachment_id: str) -> None:
        """The consumer uses the volume."""
        row = self._consumers.attachment(ctxt, policies.COMPLETE, attachment_id)
        self._control.complete(ctxt, row)

    def get(self, ctxt: context.RequestContext, attachment_id: str) -> carriers.Attachment:
        """Show one."""
        row = self._consumers.attachment(ctxt, policies.GET, attachment_id)
        return self._consumers.shown(ctxt, [row])[0]

    def list(self, ctxt: context.RequestContext, filters: Mapping[str, str], all_projects: bool,
             marker: str | None, limit: int | None) -> Sequence[carriers.Attachment]:
        """Show a page."""
        self._consumers.admit(ctxt, policies.GET_ALL)
        wanted = consumer_requests.filters(ctxt, filters, all_projects)
        page = consumer_requests.page(marker, limit, self._most)
        return self._consumers.shown(
            ctxt, attachment_queries.list_page(self._database, wanted, page, sealed=True))

    def delete(self, ctxt: context.RequestContext,
               attachment_id: str) -> Sequence[carriers.Attachment]:
        """Disconnect one; returns the remaining ones of its volume."""
        row = self._consumers.attachment(ctxt, policies.DELETE, attachment_id)
        return [carriers.Attachment.from_domain(one) for one in self._control.delete(ctxt, row)]
