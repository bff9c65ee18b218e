"""``blockattach-manage reconcile`` and ``target``: repair of backends, and stopping tgtd."""
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
    """Finish interrupted operations, and repair differences between targets and database.

    Each repair is printed with its outcome. With ``--dry-run``, the repairs are only printed.

    :returns: exit status, as in the help of the command
    :raises ConfigurationError: a backend is misconfigured, or a target does not respond
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


def _print(opened: wiring.OneShots, findings: list[repair.Finding]) -> None:
    for host in opened.unseen:
        print(f'Skipping the target of {host}, which is in the memory of its service.')
    if not opened.backends and not opened.unseen:
        print('No backend is configured.')
    for each in findings:
        of = ' '.join(filter(None, (each.volume_id, each.attachment_id, each.initiator)))
        print(f'{each.host} {each.drift} {of}: {each.said}')
        print(f'    {each.remedy}: {each.outcome}')
    print(f'{len(findings)} differences' if findings else 'No differences.')


def stop_target(conf: cfg.ConfigOpts) -> None:
    """Stop the tgtd that the volume manager of this configuration has started.

    :raises ConfigurationError: tgtd was not stopped. Without ``--force``, tgtd is not stopped if
        hosts are logged in or tgtd does not respond
    """
    pid = tgt_daemon.stop(conf, conf.noun.force)
    print('No tgtd is running.' if pid is None else f'tgtd (process {pid}) stopped.')
