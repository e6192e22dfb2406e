"""A second verifier of the logs of the did:plc directory, written from the specification (M-01, M-04, M-05, M-07, M-08, M-09).

judge() says of one entry whether it is accepted, or the reason why not; Account keeps a log's accepted operations.
"""

import functools
import re
from dataclasses import dataclass, field
from datetime import datetime, timezone

import plc_op
from plc_op import Wrong

WINDOW = 72 * 3600 * 1000  # milliseconds
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
DID = re.compile(r"did:plc:[a-z2-7]{24}\Z")
REASONS = (
    "form", "encoding", "cid", "prev", "genesis", "nullified", "tombstone", "did", "signature", "key", "order", "late",
)  # fmt: skip


def time_of(text):
    """Milliseconds since 1970 of the directory's form of a time."""
    if not isinstance(text, str) or not TIME.match(text):
        raise Wrong("form")
    try:
        moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    except ValueError:
        raise Wrong("form") from None
    return round(moment.timestamp() * 1000)


def text_of_time(ms):
    moment = datetime.fromtimestamp(ms // 1000, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + f".{ms % 1000:03}Z"


@dataclass
class Accepted:
    cid: str
    created: int
    operation: dict
    data: dict  # None: a tombstone
    signer: str  # did:key; None for an operation that no key of its prev signed
    prev: "Accepted"
    nullified_by: "Accepted" = None
    child: "Accepted" = None  # in the chain that holds


@dataclass
class Account:
    did: str
    entries: list = field(default_factory=list)  # Accepted, in the order in which the directory accepted them
    by_cid: dict = field(default_factory=dict)

    def chain(self):
        return [entry for entry in self.entries if entry.nullified_by is None]


def check_entry(entry):
    """The members of an entry besides the operation; its time."""
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name), str) for name in ("did", "cid", "createdAt")):
        raise Wrong("form")
    if not DID.match(entry["did"]) or "operation" not in entry:
        raise Wrong("form")
    return time_of(entry["createdAt"])


def place(account, operation):
    """The accepted operation that this one follows; None: it begins the log."""
    prev = operation["prev"]
    if prev is None:
        if account.entries:
            raise Wrong("genesis")
        return None
    before = account.by_cid.get(prev)
    if before is None:
        raise Wrong("prev")
    if before.nullified_by is not None:
        raise Wrong("nullified")
    if before.data is None:
        raise Wrong("tombstone")
    return before


@functools.lru_cache(1 << 16)
def verifies(text, message, sig):
    return plc_op.key_of_text(text).verifies(message, sig)


def signer_of(keys, operation, sig):
    """The first key of the list that verifies.  Nobody looks behind a key that cannot be read."""
    message = plc_op.unsigned(operation)
    for text in keys:
        if plc_op.key_of_text(text) is None:
            break
        if verifies(text, message, sig):
            return text
    raise Wrong("signature")


def judge(account, entry):
    """Accepts the entry into the account's log; the new Accepted.  Wrong: str() is the first of its reasons."""
    created = check_entry(entry)
    operation = entry["operation"]
    plc_op.check_form(operation)
    encoded = plc_op.encode(operation)
    if len(encoded) > plc_op.SIZE_MAX:
        raise Wrong("form")
    sig = plc_op.signature(operation)
    plc_op.check_prev(operation)
    if plc_op.cid_of(encoded) != entry["cid"]:
        raise Wrong("cid")
    before = place(account, operation)
    if before is None and plc_op.did_of(encoded) != account.did or entry["did"] != account.did:
        raise Wrong("did")
    data = plc_op.meaning(operation)
    keys = (before.data if before else data)["rotationKeys"]
    signer = signer_of(keys, operation, sig)
    disputed = before and before.child
    if disputed and keys.index(signer) >= keys.index(disputed.signer):
        raise Wrong("key")
    if account.entries and created <= account.entries[-1].created:
        raise Wrong("order")
    if disputed and created - disputed.created > WINDOW:
        raise Wrong("late")
    accepted = Accepted(entry["cid"], created, operation, data, signer, before)
    while disputed:
        disputed.nullified_by, disputed = accepted, disputed.child
    if before:
        before.child = accepted
    account.entries.append(accepted)
    account.by_cid[accepted.cid] = accepted
    return accepted


def judge_log(log):
    """An audit log, as /log/audit gives it: of each entry (reason, or None; the index of the entry that nullified it)."""
    account, of, verdicts = None, {}, []
    for n, entry in enumerate(log):
        try:
            if account is None:
                check_entry(entry)
                account = Account(entry["did"])
            accepted = judge(account, entry)
            of[id(accepted)] = n
            verdicts.append([None, accepted])
        except Wrong as wrong:
            verdicts.append([str(wrong), None])
    return [
        [reason, of[id(accepted.nullified_by)] if accepted and accepted.nullified_by else None]
        for reason, accepted in verdicts
    ]
