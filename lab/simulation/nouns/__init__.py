"""The nouns that are played, one module each. A new one is registered by a line here, and nowhere
else.
"""
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
    # In this order they are removed: what is made of a volume goes before it.
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
"""In the order in which a place is given to the first that passes it."""
IN_PROCESSES = tuple(one for one in OPERATIONS if not any(
    one in noun.operations for noun in NOUNS if noun.in_memory))
"""Those that are walked with processes of their own, too."""
COMMANDS = {words: body for noun in NOUNS for words, body in noun.commands.items()}
"""What a command does on a database that is open, by its words."""
AT_WORK = tuple(count for noun in NOUNS for count in noun.at_work)
"""Statements that count what is under way."""


def named(name):
    """One of the operations."""
    [found] = [one for one in OPERATIONS if one.name == name]
    return found
