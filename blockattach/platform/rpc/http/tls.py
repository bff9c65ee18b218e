"""TLS for connections between hosts.

A process creates a certificate when it starts to listen for other hosts. Clients verify the
certificate by its fingerprint in the directory. No certificate authority is therefore needed. A
certificate is used until its process ends, and does not expire before.
"""
import datetime
import hashlib
import hmac
import os
import socket
import ssl

from blockattach.platform import clock as clocks

_NAME = 'blockattach-rpc'
_DAYS = 36500
_SKEW = datetime.timedelta(days=1)


class Impostor(ssl.SSLError):
    """TLS peer whose certificate is not the certificate of the server."""


def make_identity(clock: clocks.Clock) -> tuple[ssl.SSLContext, str]:
    """Create a certificate, and return its server-side TLS context and its fingerprint."""
    # Imported here because the package is large, and only processes that listen for other hosts
    # need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), clock.utcnow()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    certificate = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - _SKEW,
        now + datetime.timedelta(days=_DAYS)).sign(key, hashes.SHA256())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Session tickets would arrive on idle connections, and clients do not reuse an idle connection
    # with data to read.
    context.num_tickets = 0
    _load(context, certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption()))
    return context, hashlib.sha256(
        certificate.public_bytes(serialization.Encoding.DER)).hexdigest()


def _load(context: ssl.SSLContext, pem: bytes) -> None:
    """Load a certificate and its key from memory."""
    # The module ssl accepts only paths, so the path of an in-memory file is used.
    with os.fdopen(os.memfd_create(_NAME), 'wb') as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f'/proc/self/fd/{file.fileno()}')


def client_context() -> ssl.SSLContext:
    """Return the client-side TLS context for `connect`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # No authority has signed the certificates. `connect` verifies them by their fingerprints.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def connect(context: ssl.SSLContext, connection: socket.socket,
            fingerprint: str) -> ssl.SSLSocket:
    """Encrypt a connection with TLS, and check the fingerprint of the server certificate.

    The timeout of the connection limits the handshake.

    :param fingerprint: SHA-256 of the certificate in hexadecimal
    :raises Impostor: the peer has another certificate; no data was sent
    :raises OSError: the handshake failed
    """
    encrypted = context.wrap_socket(connection)
    actual = hashlib.sha256(encrypted.getpeercert(binary_form=True) or b'').hexdigest()
    if not hmac.compare_digest(actual, fingerprint):
        encrypted.close()
        raise Impostor('the certificate does not match the fingerprint of the server')
    return encrypted
