#!/usr/bin/python3
"""Logs of the did:plc directory for tests, and what must become of them.

plc.py export FILE --seed S --operations N [--wrong N]
    a directory's log of about so many operations, a JSON object a line: seq, did, operation, cid, createdAt, and
    nullifies, the CIDs that the directory marks from then on; with so many accounts that have a forged operation
plc.py honest FILE --seed S --operations N
plc.py forged FILE --seed S --chains N
plc.py mutated FILE --seed S --chains N
    audit logs, a JSON object a line: kind, at (the place of the forged entry), log (as /log/audit has it), expect (for
    each entry: the reason or null, the place of the entry that nullified it or null); mutated ones are changed by chance
plc.py rows FILE [--last SEQ]
    what a directory's log must leave, line by line, of all kinds of rows (COLUMNS)
"""

import argparse
import itertools
import json
import os
import random
import sys

import plc_chain
import plc_forge
import plc_forged_chains  # noqa: F401  these two register the kinds
import plc_forged_forms  # noqa: F401
import plc_make
import plc_op

COLUMNS = {
    "operation": "did, place in the log from 1, cid, created at, nullified by, operation",
    "refused": "seq, did, cid, reason",
    "state": "did, from, key, label key, server, handle, gone: of each operation of the chain that holds",
    "now": "did, key, label key, server, handle, gone",
}


def text(value):
    """A column: as COPY writes it, but for tabs and line feeds, which no value has."""
    if value is None:
        return "\\N"
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    return str(value)


# --- to make logs ---


def accounts(seed, n):
    return plc_make.accounts(random.Random(f"{seed} accounts"), seed, n)


def until(logs, n):
    """So many of the logs that they have n entries."""
    for log in logs:
        yield log
        n -= len(log)
        if n <= 0:
            return


def export(seed, operations, wrong):
    rng = random.Random(f"{seed} export")
    found = accounts(seed, operations // 4 + 1)
    kinds = set(plc_forge.KINDS) - plc_forge.ONLY_IN_LOGS
    logs = [log for _, log, _ in itertools.islice(plc_forge.chains(rng, found, kinds), wrong)]
    dids = {log[0].get("did") for log in logs}
    rest = (account.log() for account in found if account.did not in dids)
    logs += until(rest, operations - sum(map(len, logs)))
    judge = Judge()
    for line in plc_make.in_order(rng, logs):
        line.pop("nullified", None)
        judge.read(line)
        yield {**line, "nullifies": judge.nullifies()}


def forged(seed, n):
    """Each fifth log has two faults in the forged entry."""
    rng = random.Random(f"{seed} forged")
    kinds = set(plc_forge.KINDS) - plc_forge.ONLY_IN_EXPORTS
    base = list(itertools.islice(accounts(seed, 100), 100))
    found = plc_forge.chains(rng, (rng.choice(base) for _ in itertools.count()), kinds)
    for i, (name, log, at) in enumerate(itertools.islice(found, n)):
        want = plc_forge.KINDS[name][0]
        more = plc_forge.doubled(rng, base[0].keys, log, at, want) if want and i % 5 == 4 else None
        if more:
            name, want = f"{name} and {more}", plc_forge.first_of(want, more)
        expect = plc_chain.judge_log(log)
        for entry, (_, by) in zip(log, expect):
            entry["nullified"] = by is not None
        if expect[at][0] != want:
            raise SystemExit(f"{name}: the verifier says {expect[at][0]}: {json.dumps(log)}")
        yield {"kind": name, "at": at, "log": log, "expect": expect}


def is_odd_time(value):
    """Text that begins like a time, and is not in the directory's form: nothing says whether it is one."""
    return isinstance(value, str) and value[:4].isdigit() and plc_chain.TIME.match(value) is None


def mutated(seed, n):
    """Only the verifier knows what becomes of these."""
    rng = random.Random(f"{seed} mutated")
    logs = [chain["log"] for chain in itertools.chain(honest(seed, n // 2), forged(seed, n // 10))]
    while n:
        log = plc_forge.mutated(rng, rng.choice(logs))
        if any(isinstance(entry, dict) and is_odd_time(entry.get("createdAt")) for entry in log):
            continue
        n -= 1
        for entry in log:
            if isinstance(entry, dict):
                entry.pop("nullified", None)
        yield {"kind": "mutated", "at": None, "log": log, "expect": plc_chain.judge_log(log)}


def honest(seed, operations):
    for log in until((account.log() for account in accounts(seed, operations)), operations):
        expect = plc_chain.judge_log(log)
        if any(reason for reason, _ in expect) or [by is not None for _, by in expect] != [e["nullified"] for e in log]:
            raise SystemExit(f"the verifier disagrees with the maker: {expect}: {json.dumps(log)}")
        yield {"kind": "honest", "at": None, "log": log, "expect": expect}


# --- what they leave ---


class Judge:
    """Reads a directory's log line by line."""

    def __init__(self):
        self.accounts, self.refused, self.account, self.last = {}, [], None, None

    def read(self, line):
        did = line.get("did")
        account = self.account = self.accounts.get(did) or plc_chain.Account(did)
        self.last = None
        known = account.by_cid.get(line.get("cid"))
        if known and known.operation == line.get("operation"):  # stored once, however often it is served
            return
        try:
            self.last = plc_chain.judge(account, line)
            self.accounts[did] = account
        except plc_op.Wrong as wrong:
            self.refused.append((line["seq"], did, line.get("cid"), str(wrong)))

    def nullifies(self):
        """What the last operation that was read has nullified."""
        return [of.cid for of in self.account.entries if of.nullified_by is self.last] if self.last else []

    # --- rows ---

    def operation(self):
        for did, account in self.accounts.items():
            for n, of in enumerate(account.entries, 1):
                by = of.nullified_by and of.nullified_by.cid
                yield did, n, of.cid, plc_chain.text_of_time(of.created), by, of.operation

    def state(self):
        for did, account in self.accounts.items():
            for of in account.chain():
                yield did, plc_chain.text_of_time(of.created), *plc_op.identity(of.data)

    def now(self):
        for did, account in self.accounts.items():
            yield did, *plc_op.identity(account.chain()[-1].data)

    def rows(self):
        for what in COLUMNS:
            rows = self.refused if what == "refused" else getattr(self, what)()
            yield what, sorted("\t".join(map(text, row)) for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["export", "honest", "forged", "mutated", "rows"])
    parser.add_argument("file")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--operations", type=int, default=1000)
    parser.add_argument("--wrong", type=int, default=0)
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--last", type=int)
    args = parser.parse_args()
    if args.what == "rows":
        judge = Judge()
        with open(args.file, encoding="utf-8") as f:
            for line in map(json.loads, f):
                if args.last is None or line["seq"] <= args.last:
                    judge.read(line)
        for what, rows in judge.rows():
            sys.stdout.writelines(f"{what}\t{row}\n" for row in rows)
        return
    lines = {
        "export": lambda: export(args.seed, args.operations, args.wrong),
        "honest": lambda: honest(args.seed, args.operations),
        "forged": lambda: forged(args.seed, args.chains),
        "mutated": lambda: mutated(args.seed, args.chains),
    }[args.what]()
    with open(args.file + ".new", "w", encoding="ascii") as f:
        f.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    os.rename(args.file + ".new", args.file)


if __name__ == "__main__":
    main()
