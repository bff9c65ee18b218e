"""An export as rtslib makes it; the tests call these in a guest."""
import rtslib_fb

_STORAGE = 'lab'


def export(device, portal, iqn, accounts):
    """Grant each of ``accounts``: initiator, username, password, whether it may only read."""
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
    """Let an initiator in no more, and end its session."""
    rtslib_fb.NodeACL(_group(iqn), initiator).delete()


def open_to_all(iqn, reader):
    """Accept every login without a secret, and let a read-only host write."""
    group = _group(iqn)
    group.set_attribute('authentication', '0')
    group.set_attribute('generate_node_acls', '1')
    [mapped] = rtslib_fb.NodeACL(group, reader).mapped_luns
    mapped.write_protect = False


def forget():
    """Let go of the device of `export`, which no target offers any more."""
    rtslib_fb.BlockStorageObject(_STORAGE).delete()


def _group(iqn):
    return rtslib_fb.TPG(rtslib_fb.Target(rtslib_fb.FabricModule('iscsi'), iqn), 1)
