"""Dry run of the creation of an attachment."""
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_values
from blockattach.storage.db.attachments import pairs
from blockattach.storage.domain import quotas as domain_quotas
from blockattach.storage.domain import records

NO_ID = '00000000-0000-0000-0000-000000000000'
"""Id of an attachment that was not created."""


@storage_db.retried
def reserve(database: storage_db.Database, wish: attachment_values.Wish) -> records.Attachment:
    """Return the attachment that `attachments.reserve` would create now.

    The volume is not reserved, so the real request may still be refused. Raises the errors of
    `attachments.reserve`.
    """
    read = wish.expected or pairs.precondition(database, wish.volume_id, wish.instance_uuid,
                                               wish.connector)
    change = attachment_values.insert_values(read, wish, 0, database.clock.utcnow(), NO_ID)
    limits = quotas.attachment_limits(database, read.volume.project_id, read.own_limit,
                                      read.class_limit)
    # A write transaction, because `quotas.check` may lock the project.
    with database.writer() as connection:
        quotas.check(connection, database, limits, domain_quotas.attachment())
    return rows.made_attachment(change.values)
