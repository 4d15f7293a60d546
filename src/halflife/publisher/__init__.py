"""The private look beforehand, the loop that publishes exactly once, the push interface, where a policy stands, and the check of
what was published."""

from halflife.publisher.amending import Amended, amend
from halflife.publisher.backfill import Summary, publish
from halflife.publisher.backing_up import Backup, backup
from halflife.publisher.certificate import CertificateVerdict, certify, check_certificate, is_certificate
from halflife.publisher.inspection import CheckReport, check
from halflife.publisher.looking_back import Revised, hindsight
from halflife.publisher.preview import Preview, preview
from halflife.publisher.reading import read_published
from halflife.publisher.restoring import Restored, restore
from halflife.publisher.standing import Status, StreamStatus, status
from halflife.publisher.stream import Pushed, Stream
from halflife.publisher.verification import Verdict, verify
from halflife.publisher.vintages.revise import Revision, revise

__all__ = [
    "Amended",
    "Backup",
    "CertificateVerdict",
    "CheckReport",
    "Preview",
    "Pushed",
    "Restored",
    "Revised",
    "Revision",
    "Status",
    "Stream",
    "StreamStatus",
    "Summary",
    "Verdict",
    "amend",
    "backup",
    "certify",
    "check",
    "check_certificate",
    "hindsight",
    "is_certificate",
    "preview",
    "publish",
    "read_published",
    "restore",
    "revise",
    "status",
    "verify",
]
