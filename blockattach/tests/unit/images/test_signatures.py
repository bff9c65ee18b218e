"""Verification of image signatures."""
import base64
import datetime
import unittest

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import oid

from blockattach.storage import errors
from blockattach.storage.domain import images
from blockattach.storage.images import moving

DATA = b'the bytes of an image'
SHA = hashes.SHA256()


def certificate(key):
    name = x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, 'signer')])
    now = datetime.datetime(2026, 1, 1)
    return x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(
        key.public_key()).serial_number(1).not_valid_before(now).not_valid_after(
        now + datetime.timedelta(days=1)).sign(key, hashes.SHA256()).public_bytes(
        serialization.Encoding.DER)


def image(signature, kind, **changed):
    return images.Image('id', 'active', properties={
        'img_signature': base64.b64encode(signature).decode(),
        'img_signature_hash_method': 'SHA-256', 'img_signature_key_type': kind,
        'img_signature_certificate_uuid': 'certificate-1', **changed})


class SignaturesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rsa = rsa.generate_private_key(65537, 2048)
        cls.ec = ec.generate_private_key(ec.SECP384R1())
        cls.dsa = dsa.generate_private_key(2048)
        pss = padding.PSS(padding.MGF1(SHA), padding.PSS.MAX_LENGTH)
        cls.signed = {
            'RSA-PSS': (cls.rsa, cls.rsa.sign(DATA, pss, SHA)),
            'ECC_SECP384R1': (cls.ec, cls.ec.sign(DATA, ec.ECDSA(SHA))),
            'DSA': (cls.dsa, cls.dsa.sign(DATA, SHA))}

    def check(self, image, key, data=DATA):
        asked = []

        def fetch(name):
            asked.append(name)
            return certificate(key)

        signature = moving.Signature(image, fetch)
        self.assertEqual(['certificate-1'], asked)
        for at in range(0, len(data), 7):
            signature.add(data[at:at + 7])
        signature.check()

    def wrong(self, *arguments):
        with self.assertRaises(errors.ImageSignatureWrong):
            self.check(*arguments)

    def test_signature_of_each_key_type_verified(self):
        for kind, (key, signed) in self.signed.items():
            with self.subTest(kind):
                self.check(image(signed, kind), key)
                self.wrong(image(signed, kind), key, DATA + b'.')
                other = b'2' if signed.startswith(b'1') else b'1'
                self.wrong(image(other + signed[1:], kind), key)

    def test_certificate_of_other_key_type_rejected(self):
        key, signed = self.signed['RSA-PSS']
        for kind in ('DSA', 'ECC_SECP384R1', 'ECC_SECP521R1', 'none', ''):
            self.wrong(image(signed, kind), key)
        key, signed = self.signed['ECC_SECP384R1']
        self.wrong(image(signed, 'ECC_SECP521R1'), key)

    def test_incomplete_signature_properties_rejected(self):
        key, signed = self.signed['RSA-PSS']
        for changed in ({'img_signature': ''}, {'img_signature_hash_method': 'MD5'},
                        {'img_signature_certificate_uuid': ''}, {'img_signature': '?'}):
            with self.assertRaises(errors.ImageSignatureWrong):
                moving.Signature(image(signed, 'RSA-PSS', **changed),
                                 lambda _: certificate(key))
        with self.assertRaises(errors.ImageSignatureWrong):
            moving.Signature(image(signed, 'RSA-PSS'), lambda _: b'no certificate')
