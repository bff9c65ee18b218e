"""LIO driver on a storage host. The tests call these functions in a guest."""
import secrets

from blockattach.storage.domain import connection
from blockattach.testing import scsi
from lab.guests import lio_kit
from lab.guests import lvm_devices
from lab.guests import lvm_kit

VOLUME = '5e0f6a4e-8a64-4d55-9c43-2d3f4a1e7b10'
USERNAME = 'somebody'
HOSTS = tuple(f'iqn.2026-01.org.example:host-{number}' for number in range(4))


def before(device):
    """Prepare reservations before a power loss, and return the passwords and the reservations.

    Three of four hosts register, one of them also reserves, and one of them is revoked again.
    """
    lio_kit.setUpModule()
    given = {'passwords': [secrets.token_hex(8) for _ in HOSTS]}
    target, export = lio_kit.make_target(), an_export(device)
    hosts = []
    for number, grant in enumerate(grants(given)):
        made = target.grant(export, grant)
        hosts.append(scsi.Session(grant.initiator, lio_kit.info(made, grant)))
        if number < 3:
            hosts[-1].register(0xa + number, survives_power_loss=True)
    hosts[0].reserve(0xa)
    given['held'] = held(target)
    target.revoke(VOLUME, HOSTS[2])
    return given


def after(device, given):
    """Grant all four hosts again, and return the reservation of each."""
    lio_kit.setUpModule()
    target, export = lio_kit.make_target(), an_export(device)
    for grant in grants(given):
        target.grant(export, grant)
    return held(target)


def grant(device, address, initiator, password, mode):
    """Grant a host access with the driver and return the connection."""
    lio_kit.setUpModule()
    target = lio_kit.make_target(target_ip_address=address, target_secondary_ip_addresses=())
    made = target.grant(an_export(device), connection.Grant(
        VOLUME, initiator, connection.AccessMode(mode),
        connection.Credential(USERNAME, password)))
    return made.to_dict()


def grant_volume(address, initiator, password):
    """Grant a host access to a new logical volume, and return the connection and the device."""
    lio_kit.setUpModule()
    target = lio_kit.make_target(target_ip_address=address, target_secondary_ip_addresses=())
    device = lvm_devices.devices().take()
    made = target.grant(an_export(device), connection.Grant(
        VOLUME, initiator, connection.AccessMode.RW, connection.Credential(USERNAME, password)))
    return {'connection': made.to_dict(), 'device': device}


def grow(device, size_gb):
    """Extend a logical volume and its export."""
    lio_kit.setUpModule()
    lvm_kit.configure(lvm_kit.DISK)
    lvm_kit.lvm('lvextend', '--size', f'{size_gb}g', device)
    lio_kit.make_target().resize(connection.Export(VOLUME, f'volume-{VOLUME}', device, size_gb))


def grant_two(address, password):
    """Grant two hosts access to a volume with one credential, and return the connection."""
    lio_kit.setUpModule()
    target = lio_kit.make_target(target_ip_address=address, target_secondary_ip_addresses=())
    export = an_export(lvm_devices.devices().take())
    [made] = {target.grant(export, grant) for grant in grants({'passwords': [password] * 2})}
    return made.to_dict()


def an_export(device):
    return connection.Export(VOLUME, f'volume-{VOLUME}', device, 1)


def grants(given):
    return [connection.Grant(VOLUME, name, connection.AccessMode.RW,
                             connection.Credential(USERNAME, password))
            for name, password in zip(HOSTS, given['passwords'], strict=False)]


def held(target):
    found = target.reservations(VOLUME)
    return [found.of(name) for name in HOSTS]
