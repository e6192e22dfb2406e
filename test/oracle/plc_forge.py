"""Forged logs of the did:plc directory: an honest log with one operation that is wrong for one reason.

KINDS has each kind of forgery: name -> (reason, function).  The function gets a Forger, which knows an honest log up to
some place, and gives the entry that comes next; None: this log has no such place.  Where reason is None, the entry is
odd, but valid.
"""

import copy

import plc_make
import plc_op
from plc_chain import REASONS, text_of_time
from plc_make import HOUR, seal
from plc_op import Wrong

KINDS = {}  # filled by plc_forged_forms.py and plc_forged_chains.py
ONLY_IN_LOGS = {"did_of_another_account"}  # in a directory's export, the entry would be the other account's
ONLY_IN_EXPORTS = {"nul", "half_a_surrogate_pair"}  # jsonb cannot hold them


def kind(name, reason, **args):
    def put(function):
        assert name not in KINDS, name
        KINDS[name] = (reason, (lambda forger: function(forger, **args)) if args else function)
        return function

    return put


class Forger:
    """An honest account, which has grown for some steps, and can be led on to where the forgery needs it."""

    def __init__(self, rng, account):
        self.rng, self.account, self.keys = rng, account, account.keys

    @property
    def head(self):
        return self.account.chain[-1]

    def later(self):
        return self.account.newest() + self.account.pause()

    def revive(self):
        """The last operation is one that a known key can follow; else it is taken away."""
        account = self.account
        while True:
            index, signer = account.choose(self.head.data["rotationKeys"]) if self.head.data else (None, None)
            if signer is not None:
                return index, signer
            if len(account.steps) == 1:
                return None, None
            self.account = account = account.again(len(account.steps) - 1)

    def lead(self, rotation_keys, **members):
        """A valid operation that sets these rotation keys."""
        index, signer = self.revive()
        if signer is None:
            return None
        account, head = self.account, self.head
        operation = account.next_operation(head, signer, rotationKeys=rotation_keys, **members)
        return account.add(operation, account.newest() + self.rng.randrange(1, HOUR), head, index)

    def fresh(self, n, p256=False):
        """Signers of which no log knows."""
        return [self.keys.get("forger", self.rng.randrange(8) * 8 + i * 2 + int(p256), p256) for i in range(n)]

    def unsigned(self, before=None, **members):
        before = before or self.head
        operation = {"type": "plc_operation", **self.account.change(before.data), "prev": before.cid, **members}
        return {name: value for name, value in operation.items() if value is not ...}

    def next(self, change=lambda operation: operation, **members):
        """A signed operation that may follow, changed before the signature; and its signer."""
        _, signer = self.revive()
        return signer and seal(change(self.unsigned(**members)), signer)

    def entry(self, operation, created=None, **members):
        try:
            cid = plc_op.cid_of(plc_op.encode(operation))
        except (Wrong, AttributeError, TypeError):
            cid = self.head.cid
        created = self.later() if created is None else created
        return {
            "did": self.account.did,
            "operation": operation,
            "cid": cid,
            "nullified": False,
            "createdAt": text_of_time(created),
            **members,
        }


# --- chains ---


def forged(rng, base, name):
    """The log of a base account with a forgery of this kind, and the place of the forged entry; None: it has no such place."""
    reason, function = KINDS[name]
    forger = Forger(rng, base.again(rng.randrange(1, len(base.steps) + 1)))
    entry = function(forger)
    if not entry:
        return None
    log = forger.account.log()
    return log + [entry] + behind(rng, forger, entry, reason), len(log)


def behind(rng, forger, entry, reason):
    """What comes after a refused operation: one that follows it, which is refused with it, and a valid one."""
    account, out = forger.account, []
    if reason is None or not account.steps:
        return out
    created = account.newest() + rng.choice([1, 200 * 24 * HOUR])  # a refused operation's time counts for nothing
    if rng.random() < 0.5 and plc_op.PREV.match(entry["cid"]) and entry["cid"] not in {step.cid for step in account.steps}:
        signer = rng.choice(list(forger.keys.by_text.values()))
        out.append(forger.entry(seal({"type": "plc_tombstone", "prev": entry["cid"]}, signer), created))
    index, signer = account.choose(forger.head.data["rotationKeys"]) if forger.head.data else (None, None)
    if signer is not None and rng.random() < 0.5:
        step = account.add(account.next_operation(forger.head, signer), created + 1, forger.head, index)
        out.append(step.entry(account.did))
    return out


def chains(rng, accounts, names):
    """Forged logs of these kinds in turn, without end: (kind, log, place of the forged entry).  accounts: an iterator; each
    serves once."""
    names, n = sorted(names), 0
    while True:
        if n % len(names) == 0:
            rng.shuffle(names)
        name, found = names[n % len(names)], None
        while not found:
            found = forged(rng, next(accounts), name)
        yield name, *found
        n += 1


# --- two faults ---


def first_of(*reasons):
    """M-01: if several hold, the first in the list of reasons."""
    return min((reason for reason in reasons if reason), key=REASONS.index)


def doubled(rng, keys, log, at, reason):
    """One more fault in the forged entry: (its reason, what is done); None: the entry has no place for it."""
    entry = log[at]
    operation, name = entry["operation"], rng.choice(["cid", "encoding", "did", "order", "signature"])
    if not isinstance(operation, dict) or not isinstance(operation.get("sig"), str) or not isinstance(entry["createdAt"], str):
        return None
    if name == "signature" and (reason == "encoding" or at == 0):  # the new one would be right, or the DID another
        return None
    if name == "cid":
        entry["cid"] = plc_op.cid_of(entry["cid"].encode())
    elif name == "did" and at > 0:
        entry["did"] = "did:plc:" + plc_op.base32(rng.randbytes(15))
    elif name == "order" and at > 0 and reason != "form":  # it may be the form of the time
        entry["createdAt"] = max(of["createdAt"] for of in log[:at])
    elif name in ("encoding", "signature"):
        was = plc_op.cid_of(plc_op.encode(operation))
        sealed = seal(operation, keys.stranger()) if name == "signature" else {**operation, "sig": operation["sig"] + "="}
        entry["operation"] = sealed
        if entry["cid"] == was:
            entry["cid"] = plc_op.cid_of(plc_op.encode(sealed))
    else:
        return None
    return name


# --- by chance ---


def places(value, path=()):
    """The paths of all values in a JSON value."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def another(rng, value, values):
    """A value near this one, or any other of the log."""
    if isinstance(value, str) and value and rng.random() < 0.5:
        at = rng.randrange(len(value))
        return rng.choice([value[:at] + rng.choice("aZ0-_=.:~ \n") + value[at + 1 :], value[:at], value[:at] + value[at + 1 :], value + value[at]])
    if isinstance(value, list) and value and rng.random() < 0.5:
        return rng.choice([value[::-1], value + value[:1], value[1:], rng.sample(value, len(value))])
    return rng.choice([*values, None, True, False, 0, -1, 1.5, 2**64, "", [], {}, [[]], {"": {}}])


def mutated(rng, log):
    """A few changes of a log that know nothing of its meaning."""
    log = copy.deepcopy(log)
    for _ in range(rng.choice([1, 1, 2, 3])):
        found = list(places(log))
        path = rng.choice(found[1:] or [()])
        if not path or rng.random() < 0.2:  # whole entries
            at, other = rng.randrange(len(log) or 1), rng.randrange(len(log) or 1)
            part = log[at : at + 1]
            log = rng.choice([log[:at] + log[at + 1 :], log[:other] + part + log[other:], log[:at] + log[at + 1 :] + part])
            continue
        holder = log
        for key in path[:-1]:
            holder = holder[key]
        values = []
        for other in rng.sample(found, min(3, len(found))):
            value = log
            for key in other:
                value = value[key]
            values.append(copy.deepcopy(value))
        if isinstance(holder, dict) and rng.random() < 0.25:
            del holder[path[-1]]
        elif isinstance(holder, dict) and rng.random() < 0.1:
            holder[rng.choice(["note", "prev", "sig", "type", "nullified"])] = rng.choice(values)
        else:
            holder[path[-1]] = another(rng, holder[path[-1]], values)
    for entry in log:
        # half of the changed operations get the CID that is theirs
        if isinstance(entry, dict) and rng.random() < 0.5:
            try:
                entry["cid"] = plc_op.cid_of(plc_op.encode(entry["operation"]))
            except (Wrong, KeyError):
                pass
    return log
