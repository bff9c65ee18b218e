"""Consumer like Nova, which is a separate process and uses only the bus.

    python consumer.py --config-file FILE PROJECT USER VOLUME INSTANCE

The process attaches the volume to an instance, completes the attachment and reads it. After a line
on standard input, it detaches the volume. It prints the results as lines of JSON.
"""
import json
import sys

from oslo_config import cfg

from blockattach.storage.rpc import attachments

CONNECTOR = {'initiator': 'iqn.2026-01.org.example:consumer', 'host': 'consumer',
             'ip': '127.0.0.1'}


def report(**words):
    sys.stdout.write(json.dumps(words) + '\n')
    sys.stdout.flush()


def refused(act, *arguments):
    """Call a function and return the class name of its error, or None."""
    try:
        act(*arguments)
    except Exception as error:
        return type(error).__name__
    return None


def main():
    project_id, user_id, volume_id, instance_uuid = sys.argv[3:]
    conf = cfg.ConfigOpts()
    conf(sys.argv[1:3], project='consumer')
    bus = attachments.open_bus(conf)
    client = attachments.AttachmentsClient(bus)
    user = attachments.caller(project_id, user_id, ['member', 'reader'])
    reserved = client.create(user, volume_id, instance_uuid)
    updated = client.update(user, reserved.id, CONNECTOR)
    report(id=reserved.id, status=updated.attach_status, info=updated.connection_info)
    client.complete(user, reserved.id)
    report(status=client.get(user, reserved.id).attach_status,
           listed=[one.id for one in client.list(user, {'volume_id': volume_id})])
    sys.stdin.readline()
    for ctxt in (attachments.caller('another', user_id, ['member', 'reader']),
                 attachments.caller(project_id, user_id, ['reader']),
                 attachments.caller(project_id, user_id, ['member', 'reader'], [])):
        report(refused=refused(client.delete, ctxt, reserved.id))
    client.delete(user, reserved.id)
    report(refused=refused(client.get, user, reserved.id),
           packages=sorted({name.split('.')[1] for name in sys.modules
                            if name.startswith('blockattach.')}))
    bus.close()


if __name__ == '__main__':
    main()
