"""Honest logs of accounts at the did:plc directory, from a seed.

Account grows a log operation by operation, by its own account of what may follow, which shares nothing with
plc_chain.py; world() puts many logs into the order of a directory.  plc_forge.py puts wrong operations among them.
"""

import base64
import hashlib
from dataclasses import dataclass

import curves
import plc_op
from plc_chain import WINDOW, text_of_time, time_of
from plc_op import Wrong

START = 1_668_600_000_000  # 16 November 2022
HOUR = 3_600_000
SERVERS = [f"https://pds{n}.example.com" for n in range(12)]
# did:key of a curve that may not rotate (ed25519), and texts that are no key
OTHER_KEYS = [
    "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
    "did:key:zAbC",
    "did:web:example.com",
    "",
]


class Signer:
    """A key pair that follows from a name."""

    def __init__(self, name, curve):
        self.curve = curve
        prefix = next(prefix for prefix, of in curves.CURVES.items() if of is curve)
        number = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big") % (curve.n - 1) + 1
        self.secret = number.to_bytes(32, "big")
        x, y = curve.affine(curve.product(number, curve.base_windows))
        self.text = plc_op.text_of_key(prefix + bytes([2 + y % 2]) + x.to_bytes(32, "big"))

    def sign(self, message, high=False):
        return curves.sign(self.curve, self.secret, message, high)


class Keys:
    """The signers of a world: few enough that the verifier's tables for a key are worth their making."""

    def __init__(self, seed):
        self.seed, self.by_text, self.made = seed, {}, {}

    def get(self, group, n, p256=False):
        name = f"{self.seed} {group} {n}"
        if name not in self.made:
            signer = self.made[name] = Signer(name, curves.P256 if p256 else curves.K256)
            self.by_text[signer.text] = signer
        return self.made[name]

    def server(self, server):
        return self.get("server", SERVERS.index(server))

    def draw(self, rng):
        n = rng.randrange(48)
        return self.get("account", n, p256=n % 3 == 0)

    def stranger(self, p256=False):
        return self.get("stranger", int(p256), p256)


def sig_text(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def seal(operation, signer, **how):
    """The operation with its signature."""
    operation = {key: value for key, value in operation.items() if key != "sig"}
    return {**operation, "sig": sig_text(signer.sign(plc_op.encode(operation), **how))}


@dataclass
class Step:
    """An operation of the log, with what its maker knows."""

    cid: str
    created: int
    operation: dict
    data: dict
    index: int  # place of its signer among the keys of the operation before; of a genesis, among its own
    nullified: bool = False

    def entry(self, did):
        return {
            "did": did,
            "operation": self.operation,
            "cid": self.cid,
            "nullified": self.nullified,
            "createdAt": text_of_time(self.created),
        }


class Account:
    """One account's log, always valid."""

    def __init__(self, rng, keys, number, created):
        self.rng, self.keys, self.number, self.did = rng, keys, number, None
        self.steps, self.chain = [], []
        self.add(self.genesis(), created)

    # --- what the account sets ---

    def handle(self):
        return f"u{self.number}-{self.rng.randrange(1000)}.{self.rng.choice(['example.com', 'Example.ORG', 'test.example.net'])}"

    def rotation_keys(self, server):
        """One to four keys, the server's last.  At times a key stands twice, or stands behind one that is none."""
        rng = self.rng
        keys = [self.keys.draw(rng).text for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))] + [self.keys.server(server).text]
        if rng.random() < 0.1:
            keys.insert(rng.randrange(len(keys) + 1), rng.choice(keys))
        if rng.random() < 0.08:
            keys.append(rng.choice(OTHER_KEYS))
        return keys

    def data(self):
        rng, server = self.rng, self.rng.choice(SERVERS)
        return {
            "rotationKeys": self.rotation_keys(server),
            "verificationMethods": {"atproto": self.keys.draw(rng).text},
            "alsoKnownAs": ["at://" + self.handle()],
            "services": {"atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": server}},
        }

    def genesis(self):
        """Either form; in both, any of its own keys signs."""
        rng, data = self.rng, self.data()
        if rng.random() < 0.3:
            signing, recovery = self.keys.draw(rng), self.keys.draw(rng)
            server = data["services"]["atproto_pds"]["endpoint"]
            operation = {
                "type": "create",
                "signingKey": signing.text,
                "recoveryKey": recovery.text,
                "handle": rng.choice(["", "", "", "at://", "https://", "http://"]) + self.handle(),
                "service": rng.choice([server, server[8:], "http://" + server[8:]]),
                "prev": None,
            }
        else:
            operation = {"type": "plc_operation", **data, "prev": None}
        return seal(operation, self.choose(plc_op.meaning(operation)["rotationKeys"])[1])

    def choose(self, keys, below=None):
        """(place, signer) of a key of the list that can sign: no unreadable key stands before it; None, None: there is
        none.  The place of a key that stands twice is its first."""
        usable = []
        for n, text in enumerate(keys[:below]):
            if text not in self.keys.by_text:
                break
            usable.append(keys.index(text))
        if not usable:
            return None, None
        # the server signs nearly all; so that others can recover
        n = usable[-1] if self.rng.random() < 0.6 else self.rng.choice(usable)
        return n, self.keys.by_text[keys[n]]

    def change(self, data):
        """What the next operation sets, after this."""
        rng = self.rng
        out = {key: value.copy() for key, value in data.items()}
        what = rng.choice(["key", "handle", "server", "keys", "names", "services", "methods", "nothing"])
        if what == "key":
            out["verificationMethods"]["atproto"] = self.keys.draw(rng).text
        elif what == "handle":
            out["alsoKnownAs"] = ["at://" + self.handle()] + out["alsoKnownAs"][1:]
        elif what == "server":
            out |= {name: of for name, of in self.data().items() if name != "alsoKnownAs"}
        elif what == "keys":
            out["rotationKeys"] = self.rotation_keys(rng.choice(SERVERS))
        elif what == "names":
            more = ["https://example.com/ö", "at://", "at://no handle", "dns:x", "\U0001f600", "\ue000 'quoted' \"\\", "\x7f\t"]
            out["alsoKnownAs"] = [rng.choice(more)] + out["alsoKnownAs"][:5]
        elif what == "services":
            name = rng.choice(["atproto_labeler", "bsky_fg", "\ue000a", "\U0001f600", "atproto_pds"])
            kind = rng.choice(["AtprotoLabeler", "BskyFeedGenerator", ""])
            out["services"][name] = {"type": kind, "endpoint": rng.choice(["https://x.example.com", "", "nonsense"])}
        elif what == "methods":
            name = rng.choice(["atproto_label", "other", "atproto"])
            out["verificationMethods"][name] = rng.choice(OTHER_KEYS + [self.keys.draw(rng).text] * 3)
        if rng.random() < 0.02:
            for name in rng.sample(["rotationKeys", "verificationMethods", "alsoKnownAs", "services"], 2):
                out[name] = type(out[name])()
        return out

    # --- the log ---

    def add(self, operation, created, before=None, index=0):
        """Puts a valid operation behind one of the chain; what stands behind that one already is nullified."""
        encoded = plc_op.encode(operation)
        self.did = self.did or plc_op.did_of(encoded)
        step = Step(plc_op.cid_of(encoded), created, operation, plc_op.meaning(operation), index)
        if before is not None:
            at = self.chain.index(before) + 1
            for of in self.chain[at:]:
                of.nullified = True
            del self.chain[at:]
        self.chain.append(step)
        self.steps.append(step)
        return step

    def newest(self):
        return self.steps[-1].created

    def pause(self):
        """Milliseconds until the next operation: from one to months."""
        return int(10 ** self.rng.uniform(0, 9.5)) + (self.rng.random() < 0.3) * HOUR

    def next_operation(self, before, signer, tombstone=False, **members):
        if tombstone:
            operation = {"type": "plc_tombstone", "prev": before.cid}
        else:
            operation = {"type": "plc_operation", **self.change(before.data), "prev": before.cid, **members}
        return seal(operation, signer)

    def recoveries(self):
        """(operation to follow, the first that is nullified) of all that could be recovered a millisecond from now."""
        for before, child in zip(self.chain, self.chain[1:]):
            if child.index > 0 and self.newest() < child.created + WINDOW:
                yield before, child

    def recover(self):
        found = list(self.recoveries())
        if not found:
            return False
        before, child = self.rng.choice(found)
        index, signer = self.choose(before.data["rotationKeys"], child.index)
        if signer is None:
            return False
        last = child.created + WINDOW
        created = last if self.rng.random() < 0.3 else self.rng.randint(self.newest() + 1, last)
        self.add(self.next_operation(before, signer, self.rng.random() < 0.1), created, before, index)
        return True

    def update(self, tombstones=0.06):
        before = self.chain[-1]
        index, signer = self.choose(before.data["rotationKeys"]) if before.data else (None, None)
        if signer is None:
            return False
        self.add(self.next_operation(before, signer, self.rng.random() < tombstones), self.newest() + self.pause(), before, index)
        return True

    def grow(self, n):
        """Up to n operations in all; an account that nobody can change any more stays shorter."""
        while len(self.steps) < n:
            if not (self.rng.random() < 0.35 and self.recover() or self.update() or self.recover()):
                break
        return self

    def again(self, n):
        """The account as it was after its first n operations."""
        again = object.__new__(Account)
        again.__dict__.update(self.__dict__, steps=[], chain=[])
        by_cid = {}
        for step in self.steps[:n]:
            by_cid[step.cid] = again.add(step.operation, step.created, by_cid.get(step.operation["prev"]), step.index)
        return again

    def log(self):
        return [step.entry(self.did) for step in self.steps]


def accounts(rng, seed, n):
    """Accounts without end; n: how many there may be, for the time of their beginning."""
    keys, number = Keys(seed), 0
    while True:
        length = rng.choice([1, 1, 2, 2, 3, 4, 6, 9, 14])
        yield Account(rng, keys, number, START + rng.randrange(n * HOUR)).grow(length)
        number += 1


def in_order(rng, logs):
    """The entries of many accounts in the order of a directory's seq, which has gaps: nearly that of createdAt."""
    lines = []
    for log in logs:
        last = 0
        for place, entry in enumerate(log):
            try:
                last = max(last + 1, time_of(entry["createdAt"]) + rng.randrange(3000))
            except (Wrong, KeyError, TypeError):
                last += 1
            lines.append((last, str(log[0].get("did")), place, entry))
    seq = 0
    for _, _, _, entry in sorted(lines, key=lambda line: line[:3]):
        seq += 1 if rng.random() < 0.9 else rng.randrange(1, 50)
        yield {"seq": seq, **entry}
