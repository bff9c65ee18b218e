"""An export as rtslib makes it; the tests call these in a guest."""
import rtslib_fb


def export(device, portal, iqn, accounts):
    """Let in each of ``accounts``: initiator, username, password, whether it may only read."""
    storage = rtslib_fb.BlockStorageObject('lab', device)
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
    group = rtslib_fb.TPG(rtslib_fb.Target(rtslib_fb.FabricModule('iscsi'), iqn), 1)
    rtslib_fb.NodeACL(group, initiator).delete()
