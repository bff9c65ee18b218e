"""Nouns of the simulation, one module each. A new noun is registered in this file only."""
from lab.simulation.nouns import attachments
from lab.simulation.nouns import copies
from lab.simulation.nouns import extending
from lab.simulation.nouns import image_cache
from lab.simulation.nouns import images
from lab.simulation.nouns import legacy
from lab.simulation.nouns import managing
from lab.simulation.nouns import metadata
from lab.simulation.nouns import moving
from lab.simulation.nouns import quotas
from lab.simulation.nouns import services
from lab.simulation.nouns import snapshots
from lab.simulation.nouns import transfers
from lab.simulation.nouns import types
from lab.simulation.nouns import volumes

NOUNS = (
    # Resources are deleted in this order: those made of a volume precede the volume.
    attachments.NOUN,
    legacy.NOUN,
    transfers.NOUN,
    copies.NOUN,
    managing.NOUN,
    snapshots.NOUN,
    extending.NOUN,
    images.NOUN,
    image_cache.NOUN,
    moving.NOUN,
    metadata.NOUN,
    volumes.NOUN,
    types.NOUN,
    quotas.NOUN,
    services.NOUN,
)

OPERATIONS = tuple(sorted((one for noun in NOUNS for one in noun.operations),
                          key=lambda one: not one.core))
"""All operations, core operations first. A place belongs to the first operation that passes it."""
IN_PROCESSES = tuple(one for one in OPERATIONS if not any(
    one in noun.operations for noun in NOUNS if noun.in_memory))
"""Operations that are also walked with real processes."""
COMMANDS = {words: body for noun in NOUNS for words, body in noun.commands.items()}
"""Function of each command on an open database, by command words."""
AT_WORK = tuple(count for noun in NOUNS for count in noun.at_work)
"""SQL statements that count the work under way."""


def named(name):
    """Return the operation of the given name."""
    [found] = [one for one in OPERATIONS if one.name == name]
    return found
