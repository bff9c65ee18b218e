"""``blockattach-manage reconcile``, ``target``: finish what was interrupted, hold targets to the
rows; end the target of this host."""
import dataclasses
import json

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.conf import locations
from blockattach.storage.volume import repair
from blockattach.wiring import one_shot as wiring
from blockattach.wiring import tgt_daemon

SOME_REMAIN = 3


def run(conf: cfg.ConfigOpts) -> int:
    """Repair differences, or print what would be done.

    :raises ConfigurationError: a backend is misconfigured, or a target does not answer
    """
    noun = conf.noun
    found: list[repair.Finding] = []
    with wiring.open_one_shots(conf, 'blockattach-manage', noun.backend) as opened:
        for host, backend in opened.backends.items():
            with locations.named(conf, host.partition('@')[2], 'target'):
                try:
                    found += backend.run(noun.dry_run)
                except errors.BackendError as exc:
                    raise errors.ConfigurationError(
                        reason=f'cannot query the target of {host}: {exc}') from exc
    if noun.format == 'json':
        print(json.dumps({'dry_run': noun.dry_run, 'backends': list(opened.backends),
                          'backends_not_asked': opened.unseen,
                          'findings': [dataclasses.asdict(one) for one in found]}, indent=2))
    else:
        _print(opened, found)
    return SOME_REMAIN if any(one.remains for one in found) else 0


def _print(opened: wiring.OneShots, found: list[repair.Finding]) -> None:
    for host in opened.unseen:
        print(f'Skipping the target of {host}, which is in the memory of its service.')
    if not opened.backends and not opened.unseen:
        print('No backend is configured.')
    for one in found:
        of = ' '.join(filter(None, (one.volume_id, one.attachment_id, one.initiator)))
        print(f'{one.host} {one.drift} {of}: {one.said}')
        print(f'    {one.remedy}: {one.outcome}')
    print(f'{len(found)} differences' if found else 'No differences.')


def stop_target(conf: cfg.ConfigOpts) -> None:
    """End the tgtd that the volume manager of this configuration has started.

    :raises ConfigurationError: hosts use it, or it does not answer, and force was not asked for
    """
    pid = tgt_daemon.stop(conf, conf.noun.force)
    print('No tgtd is running.' if pid is None else f'tgtd (process {pid}) stopped.')
