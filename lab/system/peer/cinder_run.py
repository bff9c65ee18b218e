"""Cinder's API, scheduler and volume service in one process, with an in-memory message bus.

    cinder_run.py --config-file FILE

The tests of the migration from Cinder run this module with the interpreter of ``.venv-cinder``. It
imports nothing of blockattach. The backend keeps volumes as files. It exports them with Cinder's
own tgt driver, as Cinder's LVM driver exports logical volumes, using the tgt-admin and tgtadm that
are found in ``PATH``.
"""
import os
import pathlib
import sys
from typing import Any

from cinder.cmd import volume as command
from cinder.privsep import sys_admin_pctxt
from cinder.volume import configuration
from cinder.volume import driver
from cinder.volume.targets import tgt
from oslo_config import cfg
from oslo_log import log
from oslo_service import service as services

# The import of `cinder.cmd.volume` monkey-patches the standard library, so it must be the first
# import. Modules that would be sorted before it are read from its attributes.
service = command.service

GIB = 2 ** 30
CONF = cfg.CONF
OPTIONS = [cfg.StrOpt('files_dir', help='Where the bytes of volumes are.')]
CONF.register_opts(OPTIONS, group=configuration.SHARED_CONF_GROUP)


class FileDriver(driver.VolumeDriver):
    """Driver that keeps volumes as sparse files, and snapshots as files next to them."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.configuration.append_config_values(OPTIONS)
        self.target_driver = tgt.TgtAdm(configuration=self.configuration, executor=self._execute)

    def do_setup(self, context: Any) -> None:
        self.target_driver.db = self.db

    def check_for_setup_error(self) -> None:
        pass

    def create_volume(self, volume: Any) -> None:
        path = self._path(volume)
        path.touch()
        os.truncate(path, volume.size * GIB)

    def delete_volume(self, volume: Any) -> None:
        self._path(volume).unlink(missing_ok=True)

    def create_snapshot(self, snapshot: Any) -> None:
        path = self._path(snapshot)
        path.touch()
        os.truncate(path, snapshot.volume_size * GIB)

    def delete_snapshot(self, snapshot: Any) -> None:
        self._path(snapshot).unlink(missing_ok=True)

    def create_export(self, context: Any, volume: Any, connector: Any) -> dict[str, Any]:
        export = self.target_driver.create_export(context, volume, str(self._path(volume)))
        return {'provider_location': export['location'], 'provider_auth': export['auth']}

    def ensure_export(self, context: Any, volume: Any) -> None:
        self.target_driver.ensure_export(context, volume, str(self._path(volume)))

    def remove_export(self, context: Any, volume: Any) -> None:
        self.target_driver.remove_export(context, volume)

    def validate_connector(self, connector: Any) -> bool:
        return self.target_driver.validate_connector(connector)

    def initialize_connection(self, volume: Any, connector: Any) -> dict[str, Any]:
        return self.target_driver.initialize_connection(volume, connector)

    def terminate_connection(self, volume: Any, connector: Any, **named: Any) -> None:
        pass

    def _path(self, what: Any) -> pathlib.Path:
        return pathlib.Path(self.configuration.files_dir, what.name)

    def _update_volume_stats(self) -> None:
        name = self.configuration.volume_backend_name
        self._stats = {
            'volume_backend_name': name, 'vendor_name': 'files', 'driver_version': '1.0',
            'storage_protocol': 'iSCSI', 'pools': [{
                'pool_name': name, 'total_capacity_gb': 1000, 'free_capacity_gb': 1000,
                'provisioned_capacity_gb': 0, 'allocated_capacity_gb': 0,
                'max_over_subscription_ratio': '20.0', 'thin_provisioning_support': True,
                'reserved_percentage': 0, 'QoS_support': False, 'multiattach': True}]}


def main() -> None:
    """Serve until a signal stops the process."""
    command.objects.register_all()
    CONF(sys.argv[1:], project='cinder')
    command.config.set_middleware_defaults()
    log.setup(CONF, 'cinder')
    # Privileged commands run in this process, under the account of the caller, because there is
    # no privsep daemon.
    sys_admin_pctxt.set_client_mode(False)
    service.rpc.init(CONF)
    service.coordination.COORDINATOR.start()
    [backend] = CONF.enabled_backends
    launcher = services.ServiceLauncher(CONF)
    for server in (service.Service.create(binary='cinder-scheduler'),
                   service.Service.create(binary='cinder-volume', service_name=backend,
                                          host=f'{CONF.host}@{backend}', coordination=True),
                   service.WSGIService('osapi_volume')):
        launcher.launch_service(server)
    launcher.wait()


if __name__ == '__main__':
    main()
