"""Loading of the store and target drivers that the configuration of a backend names."""
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
"""Extra of this package that installs a module which a driver needs, by the name of the module."""

# Capabilities of a pool and their values, unless the store reports other values.
_DEFAULTS = {'backend_state': 'up', 'vendor_name': 'Open Source', 'driver_version': '1.0.0'}


@dataclasses.dataclass(frozen=True)
class Backend:
    """Store and target that one configuration group combines."""

    name: str
    settings: backend_conf.BackendSettings
    store: base.VolumeStore
    target: base.ExportTarget

    @functools.cached_property
    def capabilities(self) -> frozenset[str]:
        """Names of the optional features that the store or the target implements.

        Each pool report includes these names.
        """
        return base.declared(self.store) | base.declared(self.target)

    def functions(self) -> dict[str, str | None]:
        """Return ``filter_function`` and ``goodness_function`` of the backend.

        An expression is None if it is not configured.
        """
        return {'filter_function': self.settings.filter_function,
                'goodness_function': self.settings.goodness_function}

    def pools(self) -> tuple[base.PoolReport, ...]:
        """Return the pool reports of the store, with values of the backend and the target added.

        ``multiattach`` is False if the store or the target reports False, otherwise True.
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
    """Load the drivers of a backend, without starting or changing anything.

    :raises ConfigurationError: if the name of a driver is unknown or a driver cannot be loaded
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
