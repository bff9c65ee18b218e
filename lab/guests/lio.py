"""Export of a device by rtslib. The tests call these functions in a guest."""
import rtslib_fb

_STORAGE = 'lab'


def export(device, portal, iqn, accounts):
    """Export a device to ``accounts``: initiator, username, password, read-only flag."""
    storage = rtslib_fb.BlockStorageObject(_STORAGE, device)
    group = rtslib_fb.TPG(rtslib_fb.Target(rtslib_fb.FabricModule('iscsi'), iqn), 1)
    group.set_attribute('authentication', '1')
    group.enable = True
    lun = rtslib_fb.LUN(group, 0, storage)
    rtslib_fb.NetworkPortal(group, portal, 3260)
    for initiator, username, password, read_only in accounts:
        access = rtslib_fb.NodeACL(group, initiator)
        access.chap_userid = username
        access.chap_password = password
        rtslib_fb.MappedLUN(access, 0, lun, write_protect=read_only)


def withdraw(iqn, initiator):
    """Delete the ACL of an initiator, which ends its session."""
    rtslib_fb.NodeACL(_group(iqn), initiator).delete()


def open_to_all(iqn, reader):
    """Accept all logins without a secret, and make the mapped LUN of a reader writable."""
    group = _group(iqn)
    group.set_attribute('authentication', '0')
    group.set_attribute('generate_node_acls', '1')
    [mapped] = rtslib_fb.NodeACL(group, reader).mapped_luns
    mapped.write_protect = False


def forget():
    """Delete the backstore of `export`, whose target has been removed."""
    rtslib_fb.BlockStorageObject(_STORAGE).delete()


def _group(iqn):
    return rtslib_fb.TPG(rtslib_fb.Target(rtslib_fb.FabricModule('iscsi'), iqn), 1)
