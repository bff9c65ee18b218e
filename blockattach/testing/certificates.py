"""Certificates for tests, by an authority that nobody else trusts and that ends with the test."""
import dataclasses
import datetime
import ipaddress
import os
import pathlib
import tempfile
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from blockattach import clock as clocks

LOOPBACK = '127.0.0.1'
_DAY = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Issued:
    """PEM files: a certificate, its key, and who vouches for it."""

    cert: pathlib.Path
    key: pathlib.Path
    authority: pathlib.Path


class Authority:
    """Vouches for whoever is `issued` a certificate, from construction until `close`."""

    def __init__(self, clock: clocks.Clock | None = None) -> None:
        self._clock = clock or clocks.Clock()
        self._folder = tempfile.TemporaryDirectory(prefix='blockattach-authority-')
        # Servers that run as other accounts read its certificate.
        os.chmod(self._folder.name, 0o755)
        self.folder = pathlib.Path(self._folder.name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, 'a test')])
        self.cert = self.folder / 'authority.pem'
        self._write(self.cert, self._signed(self._name, self._key, [
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), False),
            (_usage(signs=True), True)]))

    def issue(self, folder: pathlib.Path, name: str) -> Issued:
        """A certificate for the loopback address and ``localhost``, for servers and clients.

        :param name: of its files, and whom it names
        """
        key = ec.generate_private_key(ec.SECP256R1())
        issued = Issued(folder / f'{name}.pem', folder / f'{name}.key', self.cert)
        self._write(issued.cert, self._signed(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key, [
                (x509.BasicConstraints(ca=False, path_length=None), True),
                (x509.SubjectAlternativeName([
                    x509.DNSName('localhost'),
                    x509.IPAddress(ipaddress.ip_address(LOOPBACK))]), False),
                (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                 False),
                (_usage(signs=False), True)]))
        issued.key.touch(mode=0o600)
        issued.key.write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()))
        return issued

    def close(self) -> None:
        """Be gone."""
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey,
                extensions: list[tuple[x509.ExtensionType, bool]]) -> x509.Certificate:
        now = self._clock.utcnow()
        draft = (x509.CertificateBuilder().subject_name(name).issuer_name(self._name)
                 .public_key(key.public_key()).serial_number(x509.random_serial_number())
                 .not_valid_before(now - _DAY).not_valid_after(now + _DAY))
        for extension, critical in extensions:
            draft = draft.add_extension(extension, critical)
        return draft.sign(self._key, hashes.SHA256())

    @staticmethod
    def _write(path: pathlib.Path, certificate: x509.Certificate) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=not signs, key_cert_sign=signs, crl_sign=signs,
        encipher_only=False, decipher_only=False)
