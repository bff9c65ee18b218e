"""Dry run of an attachment request: all checks without a reservation of the volume."""
from blockattach.storage.db import quotas
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_values
from blockattach.storage.db.attachments import pairs
from blockattach.storage.domain import quotas as domain_quotas
from blockattach.storage.domain import records

NO_ID = '00000000-0000-0000-0000-000000000000'
"""Id of the attachment that a dry run returns, because no attachment is created."""


@storage_db.retried
def reserve(database: storage_db.Database, wish: attachment_values.Wish) -> records.Attachment:
    """Return the attachment that `attachments.reserve` would create now.

    The volume is not reserved. A request to create the attachment may therefore be refused later.
    Raises the errors of `attachments.reserve`, except that the project of the volume is not
    compared with ``wish.project_id``.
    """
    read = wish.expected or pairs.precondition(database, wish.volume_id, wish.instance_uuid,
                                               wish.connector)
    change = attachment_values.insert_values(read, wish, 0, database.clock.utcnow(), NO_ID)
    limits = quotas.attachment_limits(database, read.volume.project_id, read.own_limit,
                                      read.class_limit)
    # This needs a write transaction, because `quotas.check` may lock the project.
    with database.writer() as connection:
        quotas.check(connection, database, limits, domain_quotas.attachment())
    return rows.made_attachment(change.values)
