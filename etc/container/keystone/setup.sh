#!/bin/sh
# Prepare the first start of Keystone: create its tables, keys, administrator and catalog entry.
# Existing data is kept, except for the administrator's password and the endpoint URLs.
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
# Set here, because every user who may inspect the container can read variables set by compose.
OS_BOOTSTRAP_PASSWORD=$(cat /run/secrets/keystone-admin-password)
export OS_BOOTSTRAP_PASSWORD
manage bootstrap --bootstrap-region-id RegionOne \
    --bootstrap-internal-url "$KEYSTONE_INTERNAL_URL" --bootstrap-public-url "$KEYSTONE_PUBLIC_URL"
