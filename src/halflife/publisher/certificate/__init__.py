"""Certificates: what a policy published in a period, at which risk, and what it does not protect, bound to the ledger's chain."""

from halflife.publisher.certificate.checking import CertificateVerdict, check_certificate, is_certificate
from halflife.publisher.certificate.content import certify

__all__ = ["CertificateVerdict", "certify", "check_certificate", "is_certificate"]
