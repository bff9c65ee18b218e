#!/bin/sh
# What Keystone needs before its first start: tables, keys, an administrator, and itself in the
# catalog. What is there already stays, but for the administrator's password and the addresses.
set -eu
manage() {
    keystone-manage --config-file /etc/keystone/keystone.conf \
        --config-file /run/secrets/keystone-secrets.conf "$@"
}
umask 077
mkdir -p /var/lib/keystone/tokens /var/lib/keystone/receipts /var/lib/keystone/credentials
manage db_sync
for keys in fernet_setup credential_setup; do
    manage "$keys" --keystone-user "$(id -un)" --keystone-group "$(id -gn)"
done
# Of this process only: what compose sets is shown to every user who may inspect the container.
OS_BOOTSTRAP_PASSWORD=$(cat /run/secrets/keystone-admin-password)
export OS_BOOTSTRAP_PASSWORD
manage bootstrap --bootstrap-region-id RegionOne \
    --bootstrap-internal-url "$KEYSTONE_INTERNAL_URL" --bootstrap-public-url "$KEYSTONE_PUBLIC_URL"
