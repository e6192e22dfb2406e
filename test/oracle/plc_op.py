"""An operation of the did:plc directory in its forms: is it one, its DAG-CBOR, CID and DID, what it means (M-02, M-03, M-06).

Shares nothing with the extension, and needs Python's standard library only.
"""

import base64
import hashlib
import re

import curves

SIZE_MAX = 65_536  # bytes of DAG-CBOR (M-06)
KEYS_MAX = 64  # rotation keys (M-06)
PREV = re.compile(r"bafyrei[a-z2-7]{52}\Z")
SIG = re.compile(r"[A-Za-z0-9_-]*\Z")


class Wrong(Exception):
    """The operation breaks a rule; str() is the reason."""


def cbor_head(major, n):
    if n < 24:
        return bytes([major << 5 | n])
    for size, code in ((1, 24), (2, 25), (4, 26), (8, 27)):
        if n < 1 << 8 * size:
            return bytes([major << 5 | code]) + n.to_bytes(size, "big")
    raise Wrong("encoding")


def cbor_text(text):
    if "\0" in text:
        raise Wrong("encoding")
    try:
        raw = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        raise Wrong("encoding") from None
    return cbor_head(3, len(raw)) + raw


def encode(value):
    """DAG-CBOR of a JSON value.  Keys are ordered by length in UTF-8, then by bytes; "$link" is a key like others."""
    if isinstance(value, str):
        return cbor_text(value)
    if isinstance(value, dict):
        pairs = sorted((cbor_text(key), encode(member)) for key, member in value.items())
        return cbor_head(5, len(pairs)) + b"".join(key + member for key, member in pairs)
    if isinstance(value, list):
        return cbor_head(4, len(value)) + b"".join(map(encode, value))
    if value is None:
        return b"\xf6"
    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, float) and not value.is_integer():
        raise Wrong("encoding")  # M-03
    number = int(value)  # JavaScript has one kind of number
    return cbor_head(0, number) if number >= 0 else cbor_head(1, -1 - number)


def base32(raw):
    return base64.b32encode(raw).decode().lower().rstrip("=")


def cid_of(encoded):
    return "b" + base32(b"\x01\x71\x12\x20" + hashlib.sha256(encoded).digest())


def did_of(encoded):
    return "did:plc:" + base32(hashlib.sha256(encoded).digest())[:24]


def unsigned(operation):
    """The bytes that are signed: without the member sig."""
    return encode({key: value for key, value in operation.items() if key != "sig"})


# --- form ---


def is_text(value):
    return isinstance(value, str)


def is_texts(value):
    return isinstance(value, list) and all(map(is_text, value))


def is_map(value):
    return isinstance(value, dict) and all(map(is_text, value.values()))


def is_services(value):
    return isinstance(value, dict) and all(
        isinstance(of, dict) and is_text(of.get("type")) and is_text(of.get("endpoint")) for of in value.values()
    )


def is_null(value):
    return value is None


def is_null_or_text(value):
    return value is None or is_text(value)


MEMBERS = {
    "plc_operation": {
        "rotationKeys": is_texts,
        "verificationMethods": is_map,
        "alsoKnownAs": is_texts,
        "services": is_services,
        "prev": is_null_or_text,
        "sig": is_text,
    },
    "plc_tombstone": {"prev": is_text, "sig": is_text},
    "create": {
        "signingKey": is_text,
        "recoveryKey": is_text,
        "handle": is_text,
        "service": is_text,
        "prev": is_null,
        "sig": is_text,
    },
}


def check_form(operation):
    """Every member is there and has its type; members that the specification does not have are allowed."""
    if not isinstance(operation, dict):
        raise Wrong("form")
    kind = operation.get("type")
    members = MEMBERS.get(kind) if is_text(kind) else None
    if members is None or not all(name in operation and fits(operation[name]) for name, fits in members.items()):
        raise Wrong("form")
    if kind == "plc_operation" and len(operation["rotationKeys"]) > KEYS_MAX:
        raise Wrong("form")


def signature(operation):
    """The bytes of sig.  Strict base64url: no padding, nothing else between, unused bits zero."""
    text = operation["sig"]
    if not SIG.match(text) or len(text) % 4 == 1:
        raise Wrong("encoding")
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if base64.urlsafe_b64encode(raw).decode().rstrip("=") != text:
        raise Wrong("encoding")
    return raw


def check_prev(operation):
    """prev is null, or the text of a CID of DAG-CBOR with SHA-256 in base32."""
    prev = operation["prev"]
    if prev is None:
        return
    if not PREV.match(prev):
        raise Wrong("encoding")
    raw = base64.b32decode(prev[1:].upper() + "=" * (-len(prev[1:]) % 8))
    if "b" + base32(raw) != prev:
        raise Wrong("encoding")


# --- meaning ---


def with_scheme(service):
    return service if service.startswith(("http://", "https://")) else "https://" + service


def as_alias(handle):
    if handle.startswith("at://"):
        return handle
    return "at://" + handle.replace("http://", "", 1).replace("https://", "", 1)


def meaning(operation):
    """The data that the operation sets, in the form of the present specification; None: a tombstone."""
    if operation["type"] == "plc_tombstone":
        return None
    if operation["type"] == "plc_operation":
        return {name: operation[name] for name in ("rotationKeys", "verificationMethods", "alsoKnownAs", "services")}
    return {
        "rotationKeys": [operation["recoveryKey"], operation["signingKey"]],
        "verificationMethods": {"atproto": operation["signingKey"]},
        "alsoKnownAs": [as_alias(operation["handle"])],
        "services": {
            "atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": with_scheme(operation["service"])}
        },
    }


def text_of_key(multikey):
    """did:key of the 35 bytes of a Multikey."""
    number, digits = int.from_bytes(multikey, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        digits = curves.BASE58[digit] + digits
    return "did:key:z" + digits


known_keys = {}


def key_of_text(text):
    """The key of a did:key; None: not one of k256 or p256."""
    if text not in known_keys:
        known_keys[text] = None
        try:
            key = curves.Key(curves.multikey(text.removeprefix("did:key:")))
            if text_of_key(key.bytes) == text:
                known_keys[text] = key
        except (KeyError, ValueError, OverflowError):
            pass
    return known_keys[text]


HANDLE = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?\Z")


def identity(data):
    """(key, label key, server, handle, gone) of what an operation means, each None where there is none."""
    if data is None:
        return None, None, None, None, True
    methods = data["verificationMethods"]
    keys = [name in methods and key_of_text(methods[name]) and methods[name] or None for name in ("atproto", "atproto_label")]
    service = data["services"].get("atproto_pds", {})
    server = service["endpoint"] if service.get("type") == "AtprotoPersonalDataServer" else None
    names = [alias[5:].lower() for alias in data["alsoKnownAs"] if alias.startswith("at://")]
    handle = next((name for name in names if len(name) <= 253 and HANDLE.match(name)), None)
    return keys[0], keys[1], server, handle, False
