"""From a configured name to an assembled backend: one store and one target."""
import dataclasses
import functools
from typing import Any

from stevedore import driver as stevedore_driver
from stevedore import exception as stevedore_exception
from stevedore import extension as stevedore_extension

from blockattach.platform import errors
from blockattach.storage.conf import backend as backend_conf
from blockattach.storage.domain import pools
from blockattach.storage.drivers import base

STORES = 'blockattach.stores'
TARGETS = 'blockattach.targets'

_EXTRAS = {'rtslib_fb': 'lio'}
"""Of which extra a module is that a driver needs."""

# Capabilities of stores that do not report them.
_DEFAULTS = {'backend_state': 'up', 'vendor_name': 'Open Source', 'driver_version': '1.0.0'}


@dataclasses.dataclass(frozen=True)
class Backend:
    """A store and a target joined by configuration."""

    name: str
    settings: backend_conf.BackendSettings
    store: base.VolumeStore
    target: base.ExportTarget

    @functools.cached_property
    def capabilities(self) -> frozenset[str]:
        """What the two can do beyond their contracts; the report after each volume has it."""
        return base.declared(self.store) | base.declared(self.target)

    def functions(self) -> dict[str, str | None]:
        """Expressions that filter and rate volumes for it; None: there are none."""
        return {'filter_function': self.settings.filter_function,
                'goodness_function': self.settings.goodness_function}

    def pools(self) -> tuple[base.PoolReport, ...]:
        """Pools of the store, with the facts of the backend and its target.

        ``multiattach`` is True unless the store or the target reports it as False.
        """
        joined = {
            'volume_backend_name': self.settings.volume_backend_name,
            'driver_capabilities': sorted(self.capabilities),
            'online_extend_support': 'live_resize' in self.capabilities,
            'storage_protocol': self.target.storage_protocol,
            **{name: expression for name, expression in self.functions().items()
               if expression is not None},
        }
        return tuple(
            base.PoolReport(report.name, {
                **_DEFAULTS, **report.capabilities, **joined,
                'multiattach': self.target.multiattach and pools.flag(
                    report.capabilities.get('multiattach', True))})
            for report in self.store.pools())


def load_backend(settings: backend_conf.BackendSettings) -> Backend:
    """Assemble what one backend's group names. Nothing is started or touched yet.

    :raises ConfigurationError: a name is unknown, or its driver cannot be loaded
    """
    return Backend(settings.name, settings,
                   _load(STORES, settings.store, settings, base.VolumeStore),
                   _load(TARGETS, settings.target, settings, base.ExportTarget))


def _load(group: str, name: str, settings: backend_conf.BackendSettings, kind: type) -> Any:
    noun = group.rpartition('.')[2].removesuffix('s')
    try:
        loaded = stevedore_driver.DriverManager(
            group, name, invoke_on_load=True, invoke_args=(settings,),
            on_load_failure_callback=_not_loaded, warn_on_missing_entrypoint=False).driver
    except stevedore_exception.NoMatches:
        raise errors.ConfigurationError(
            reason=f'{noun} = {name} of backend {settings.name} is unknown; installed drivers: '
                   f'{", ".join(_known(group)) or "none"}') from None
    if not isinstance(loaded, kind):
        raise errors.ConfigurationError(
            reason=f'{noun} = {name} of backend {settings.name} is not a {kind.__name__}')
    return loaded


def _known(group: str) -> list[str]:
    return sorted(stevedore_extension.ExtensionManager(group).entry_points_names())


def _not_loaded(_manager: Any, entry_point: Any, failure: BaseException) -> None:
    if isinstance(failure, errors.ConfigurationError):
        raise failure
    extra = _EXTRAS.get(getattr(failure, 'name', None) or '')
    hint = f'; install blockattach[{extra}]' if extra else ''
    raise errors.ConfigurationError(
        reason=f'cannot load driver {entry_point.name}: {failure}{hint}') from failure
