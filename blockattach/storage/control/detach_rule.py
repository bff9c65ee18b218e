"""Check of the detach rule against CVE-2023-2088 before an attachment is deleted or moved.

While Nova uses an attachment, the rule (`blockattach.storage.domain.detach_rule`) allows only a
service to delete the attachment. This module reads the facts that the rule needs: the roles of the
service token, the attachment, and if necessary the answer of Nova.
"""
import dataclasses
import logging
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from blockattach.platform import context
from blockattach.platform.log import fields
from blockattach.storage import errors
from blockattach.storage.domain import connection
from blockattach.storage.domain import detach_rule
from blockattach.storage.domain import records

if TYPE_CHECKING:
    from blockattach.storage import nova as nova_client

LOG = logging.getLogger(__name__)

_Outcome = detach_rule.Outcome
Verb = detach_rule.Verb


class DetachRule:
    """Check of the rule by which a caller may delete an attachment or move its access."""

    def __init__(self, nova: 'nova_client.NovaClient | None',
                 find: Callable[[str], records.Attachment], holds: bool = True,
                 service_roles: Collection[str] = context.SERVICE_ROLES) -> None:
        """
        :param nova: client of Nova; None if Nova is not configured
        :param find: function that returns a live attachment by its ID, or raises
            AttachmentNotFound
        :param holds: False to disable the rule
        :param service_roles: roles of services. A service token must have at least one of them
        """
        self._nova = nova
        self._find = find
        self._holds = holds
        self._service_roles = frozenset(service_roles)

    def check(self, caller: context.RequestContext, attachment: records.Attachment,
              verb: detach_rule.Verb, connector: Mapping[str, Any] | None = None) -> None:
        """Raise an error if a caller may not delete an attachment or move its access.

        :param verb: request that deletes the attachment or moves its access
        :param connector: connector of the host to which the access moves; None for a deletion
        :raises ConnectorUnusable: the connector has no usable initiator
        :raises AttachmentInUseByServer: the attachment must be deleted through Nova
        :raises NovaUnavailable: Nova does not respond, or is not configured
        """
        self._decide(caller, detach_rule.Facts(
            self._is_service(caller), attachment.volume_id, attachment.id, 1, attachment,
            verb=verb,
            initiator=None if connector is None else connection.initiator_of(connector)))

    def check_volume(self, caller: context.RequestContext, volume_id: str,
                     rows: Sequence[records.Attachment], attachment_id: str | None,
                     verb: detach_rule.Verb) -> None:
        """Raise an error if a caller may not delete an attachment of a volume.

        A caller with the token of a service always passes the check.

        :param rows: live attachments to which the request may refer
        :param attachment_id: attachment that the caller names; None for the only attachment
        :param verb: request that deletes the attachment, such as os-detach
        :raises AttachmentNotNamed: no visible attachment has this ID, or no attachment is named
            and there are several
        :raises InvalidInput: the attachment belongs to another volume
        :raises AttachmentInUseByServer: the attachment must be deleted through Nova
        :raises NovaUnavailable: Nova does not respond, or is not configured
        """
        by_service = self._is_service(caller)
        record = detach_rule.meant(rows, attachment_id)
        if record is None and attachment_id is not None and not by_service:
            record = self._elsewhere(caller, attachment_id)
        self._decide(caller, detach_rule.Facts(by_service, volume_id, attachment_id, len(rows),
                                               record, verb=verb))

    def _is_service(self, caller: context.RequestContext) -> bool:
        """Return True if the caller sends the token of a service, or if the rule is disabled."""
        # The roles of the user token do not count, not even admin or service (CVE-2023-2088).
        return not self._holds or not self._service_roles.isdisjoint(caller.service_roles)

    def _elsewhere(self, caller: context.RequestContext,
                   attachment_id: str) -> records.Attachment | None:
        """Return an attachment of another volume, or None if the caller may not see it."""
        try:
            found = self._find(attachment_id)
        except errors.AttachmentNotFound:
            return None
        return found if caller.is_admin or found.project_id == caller.project_id else None

    def _decide(self, caller: context.RequestContext, facts: detach_rule.Facts) -> None:
        row = detach_rule.decide(facts)
        if row.outcome is _Outcome.ASK_NOVA:
            try:
                facts = dataclasses.replace(facts, answer=self._ask(caller, facts))
            except errors.NovaUnavailable as exc:
                if detach_rule.ASKED[facts.verb] is not detach_rule.Asked.WHERE_KNOWN:
                    raise
                LOG.warning('Allowing forced delete of attachment without an answer from Nova%s',
                            fields(attachment_id=_id(facts), volume_id=facts.volume_id,
                                   project_id=caller.project_id, reason=exc))
                return
            row = detach_rule.decide(facts)
        if row.outcome is _Outcome.ALLOWED:
            return
        LOG.warning('Request rejected by detach rule%s', fields(
            row=row.number, verb=facts.verb, volume_id=facts.volume_id,
            attachment_id=_id(facts), project_id=caller.project_id))
        if row.outcome is _Outcome.MISMATCHED:
            raise errors.InvalidInput(reason='Invalid input received: Mismatched volume and '
                                             'attachment.')
        if row.outcome is _Outcome.NOT_NAMED or facts.record is None:
            raise errors.AttachmentNotNamed(count=facts.count)
        raise errors.AttachmentInUseByServer(instance_id=facts.record.instance_uuid)

    def _ask(self, caller: context.RequestContext,
             facts: detach_rule.Facts) -> detach_rule.Answer:
        assert facts.record is not None and facts.record.instance_uuid is not None
        server_id = facts.record.instance_uuid
        if self._nova is None:
            raise errors.NovaUnavailable(server_id=server_id, volume_id=facts.volume_id,
                                         reason='[nova] is not configured')
        # As in Cinder, the request to Nova contains the token of the caller.
        return detach_rule.Answer(
            self._nova.attachment_in_use(caller, server_id, facts.volume_id))


def _id(facts: detach_rule.Facts) -> str | None:
    return facts.record.id if facts.record else facts.given_id
