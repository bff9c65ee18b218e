"""Chance: every pool that will do is as likely as any other."""
import hashlib

from blockattach.domain import pools

_BYTES = 8


def measure(request: pools.VolumeRequest, pool: pools.Pool) -> float:
    """From 0 to 1: drawn from the names of the volume and the pool, so that the same question has
    the same answer, while ids of volumes are themselves drawn by chance.
    """
    drawn = hashlib.blake2b(f'{request.volume_id} {request.generation} {pool.name}'.encode(),
                            digest_size=_BYTES).digest()
    return int.from_bytes(drawn, 'big') / 2 ** (8 * _BYTES)
