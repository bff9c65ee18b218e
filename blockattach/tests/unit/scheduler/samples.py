"""Pools and requests that name only what matters to a test."""
from typing import Any

from blockattach.storage.domain import pools


def pool(name: str = 'h@b#p', **facts: Any) -> pools.Pool:
    """A thick pool of 100 GiB, empty, alive, in zone nova."""
    values: dict[str, Any] = {
        'availability_zone': 'nova', 'total_gb': 100.0, 'free_gb': 100.0, 'provisioned_gb': 0.0,
        'allocated_gb': 0, 'limit_gb': 100.0, 'thin': False, 'multiattach': True,
        'capabilities': {}}
    return pools.Pool(name=name, **{**values, **facts})


def request(**facts: Any) -> pools.VolumeRequest:
    """A plain volume of 1 GiB that asks for nothing else."""
    values: dict[str, Any] = {
        'volume_id': '7d5d8b6e-0000-4000-8000-000000000001', 'generation': 1, 'size_gb': 1,
        'multiattach': False, 'availability_zone': None, 'extra_specs': {}}
    return pools.VolumeRequest(**{**values, **facts})
