"""What the fake network answers when nothing is wrong: the PLC directory, did:web and handle servers, PDSs, relays.

The path says which of them is asked, the name in the request's Host header which server.
"""

import json
import os
import threading
import urllib.parse

import archive
import directory
import parts

XRPC = "/xrpc/com.atproto.sync."


class Answer:
    """A status, headers, and a body: bytes, or the path of a file."""

    def __init__(self, status, body=b"", kind="application/json", headers=None, file=None):
        self.status = status
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.file = file
        self.headers = {"Content-Type": kind, **(headers or {})}

    def load(self):
        if self.file:
            with open(self.file, "rb") as f:
                self.body = f.read()
            self.file = None
        return self.body

    def size(self):
        return os.path.getsize(self.file) if self.file else len(self.body)

    def pieces(self, n=65536):
        if self.file:
            with open(self.file, "rb") as f:
                while piece := f.read(n):
                    yield piece
        else:
            for at in range(0, len(self.body), n):
                yield self.body[at : at + n]


def error(status, name, message=""):
    return Answer(status, {"error": name, "message": message or name})


def page(entries, query, key, name, most=1000):
    """One page of a list; the cursor is the number of entries before the next."""
    first = int(query.get("cursor", "0") or "0")
    limit = min(int(query.get("limit", "500")), most)
    body = {name: entries[first : first + limit]}
    if first + limit < len(entries):
        body["cursor"] = str(first + limit)
    return Answer(200, body)


class World:
    """Documents, handles, repositories and hosts, as the test told them."""

    def __init__(self, cars=None):
        self.lock = threading.RLock()
        self.cars = cars
        self.parts = parts.Parts()
        self.reset()

    def reset(self):
        with self.lock:
            self.documents, self.handles, self.repos, self.hosts, self.archives, self.directories = {}, {}, {}, {}, {}, {}

    def tell(self, what, value):
        """Takes what a test tells: of each name the last counts, null forgets it."""
        with self.lock:
            known = getattr(self, what)
            for name, of in value.items():
                if what in ("repos", "hosts") and isinstance(of, dict):
                    known.setdefault(name, {}).update(of)
                elif of is None:
                    known.pop(name, None)
                else:
                    known[name] = of

    # --- archives and directories ---

    def tell_things(self, things, make, value):
        """A new thing at a host, with these options; or what happens to the one that is there; null forgets it."""
        for host, of in value.items():
            with self.lock:
                known = things.get(host)
                if of is None:
                    things.pop(host, None)
                elif "do" not in of:
                    things[host] = make(**of)
            if of is not None and "do" in of:
                known.do(of["do"])
        with self.lock:
            return {host: things[host].state() for host in value if host in things}

    def tell_archives(self, value):
        return self.tell_things(self.archives, archive.Archive, value)

    def tell_directories(self, value):
        return self.tell_things(self.directories, directory.Directory, value)

    def directory(self, host, path):
        """The directory of a host that answers this path; None."""
        with self.lock:
            known = self.directories.get(host)
        return known if known and known.is_for(path) and path[1:] not in self.documents else None

    def answer_archive(self, host, what, query, request):
        with self.lock:
            known = self.archives.get(host)
        if known is None:
            return error(404, "MethodNotImplemented")
        status, headers, body = known.answer(request["method"], what, query, request["headers"], request["body"])
        return Answer(status, body, headers=headers)

    # --- documents ---

    def document(self, did, kind):
        document = self.documents.get(did)
        if document is None:
            return Answer(404, {"message": f"DID not registered: {did}"})
        if isinstance(document, int):
            return Answer(document, {"message": f"DID not available: {did}"})
        if isinstance(document, str):
            return Answer(200, document.encode(), kind)
        return Answer(200, document, kind)

    # --- repositories ---

    def repo(self, host, did):
        """What is known of a repository at a host: told, or of the files DIR/HOST/DID.car and .json."""
        known = self.repos.get(host, {}).get(did, {})
        if known is None:
            return None
        path = os.path.join(self.cars, host, did) if self.cars else None
        if path and os.path.exists(path + ".json"):
            with open(path + ".json", encoding="utf-8") as f:
                known = {**json.load(f), **known}
        if path and os.path.exists(path + ".car"):
            known = {"car": path + ".car", **known}
        return known or None

    def stream(self, host):
        """The port of the stream server that is this host's; None: it has none."""
        return self.hosts.get(host, {}).get("stream")

    def dids(self, host):
        told = self.repos.get(host, {})
        folder = os.path.join(self.cars, host) if self.cars else None
        files = os.listdir(folder) if folder and os.path.isdir(folder) else []
        found = {name[:-4] for name in files if name.endswith(".car")} | set(told)
        return sorted(did for did in found if told.get(did, {}) is not None)

    def get_repo(self, host, query):
        did = query.get("did", "")
        elsewhere = self.hosts.get(host, {}).get("pds", {}).get(did)
        if elsewhere:
            base = elsewhere if "://" in elsewhere else "https://" + elsewhere
            return Answer(302, b"", headers={"Location": f"{base}{XRPC}getRepo?did={did}"})
        known = self.repo(host, did)
        if known is None or not ("car" in known or known.get("active") is False):
            return error(400, "RepoNotFound", f"Could not find repo for DID: {did}")
        if known.get("active") is False:
            return error(400, "Repo" + known.get("status", "deactivated").capitalize())
        return Answer(200, kind="application/vnd.ipld.car", file=known["car"])

    def get_status(self, host, query):
        did = query.get("did", "")
        known = self.repo(host, did)
        if known is None:
            return error(400, "RepoNotFound", f"Could not find repo for DID: {did}")
        body = {"did": did, "active": known.get("active", True)}
        body.update({k: known[k] for k in ("status", "rev") if k in known})
        return Answer(200, body)

    def get_latest(self, host, query):
        known = self.repo(host, query.get("did", ""))
        if known is not None and "head" in known:
            return Answer(200, {"cid": known["head"], "rev": known["rev"]})
        return self.of_parts(host, query, lambda known: Answer(200, self.parts.latest(known)))

    # --- parts of repositories ---

    def of_parts(self, host, query, answer):
        """What is told of the repository is changed by its moves."""
        did = query.get("did", "")
        known = self.repo(host, did)
        if known is None or ("car" not in known and known.get("active") is not False):
            return error(400, "RepoNotFound", f"Could not find repo for DID: {did}")
        if known.get("active") is False:
            return error(400, "Repo" + known.get("status", "deactivated").capitalize())
        told = self.repos.get(host, {}).get(did)
        return answer(told if told is not None and "car" in told else known)

    def get_record(self, host, query):
        def answer(known):
            body = self.parts.get_record(known, query)
            if isinstance(body, str):
                return error(400, body, f"Could not locate record: {query}")
            return Answer(200, body, "application/vnd.ipld.car")

        return self.of_parts(host, query, answer)

    def get_blocks(self, host, query):
        def answer(known):
            body, missing = self.parts.get_blocks(known, query["cids"])
            if missing:
                return error(400, "InvalidRequest", f"Could not find cids: {missing}")
            return Answer(200, body, "application/vnd.ipld.car")

        return self.of_parts(host, query, answer)

    # --- lists ---

    def list_repos(self, host, query):
        of = self.hosts.get(host, {})
        entries = of.get("list")
        if entries is None:
            entries = []
            for did in self.dids(host):
                known = self.repo(host, did) or {}
                entry = {"did": did, "active": known.get("active", True)}
                entry.update({k: known[k] for k in ("head", "rev", "status") if k in known})
                entries.append(entry)
        return page(entries, query, "did", "repos", of.get("page", 1000))

    def list_by_collection(self, host, query):
        of = self.hosts.get(host, {})
        entries = of.get("collections", {}).get(query.get("collection", ""))
        if entries is None:
            wanted = query.get("collection")
            entries = [d for d in self.dids(host) if wanted in (self.repo(host, d) or {}).get("collections", [])]
        return page([{"did": did} for did in entries], query, "did", "repos", of.get("page", 1000))

    def list_hosts(self, host, query):
        of = self.hosts.get(host, {})
        entries = [e if isinstance(e, dict) else {"hostname": e} for e in of.get("hosts", [])]
        return page(entries, query, "hostname", "hosts", of.get("page", 1000))

    # --- which of them ---

    def answer(self, host, path, request):
        where, _, rest = path.partition("?")
        where = urllib.parse.unquote(where)
        pairs = urllib.parse.parse_qsl(rest, keep_blank_values=True)
        query = {**dict(pairs), "cids": [value for name, value in pairs if name == "cids"]}
        xrpc = {
            "getRepo": self.get_repo,
            "getRepoStatus": self.get_status,
            "getLatestCommit": self.get_latest,
            "getRecord": self.get_record,
            "getBlocks": self.get_blocks,
            "listRepos": self.list_repos,
            "listReposByCollection": self.list_by_collection,
            "listHosts": self.list_hosts,
        }
        known = self.directory(host, where)
        if known:
            status, headers, body = known.answer(where, query)
            return Answer(status, body, headers=headers)
        if where.startswith(archive.XRPC):
            return self.answer_archive(host, where[len(archive.XRPC) :], query, request)
        with self.lock:
            if where.startswith("/did:"):
                return self.document(where[1:], "application/did+ld+json; charset=utf-8")
            if where == "/.well-known/did.json":
                return self.document("did:web:" + host, "application/json")
            if where == "/.well-known/atproto-did":
                if host not in self.handles:
                    return Answer(404, b"no such user\n", "text/plain")
                return Answer(200, self.handles[host].encode(), "text/plain")
            if where.startswith(XRPC) and where[len(XRPC) :] in xrpc:
                return xrpc[where[len(XRPC) :]](host, query)
        return error(404, "NotFound", where)
