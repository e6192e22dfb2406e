/*
 * plc_log.c
 *		The rules of an account's log: see plc_log.h.
 */
#include "core/plc/plc_log.h"

uint32_t
atp_plc_slots(uint32_t n)
{
	uint32_t	slots = 4;

	while (slots / 2 < n)
		slots *= 2;
	return slots;
}

size_t
atp_plc_log_room(uint32_t n)
{
	return (size_t) n * sizeof(AtpPlcPlace) + (size_t) atp_plc_slots(n) * sizeof(uint32_t);
}

void
atp_plc_log_init(AtpPlcLog *log, AtpSpan did, uint32_t n, void *memory)
{
	uint32_t	slots = atp_plc_slots(n);

	*log = (AtpPlcLog) {.did = did, .room = n, .places = memory, .mask = slots - 1};
	log->slots = (uint32_t *) (log->places + n);
	for (uint32_t i = 0; i < slots; i++)
		log->slots[i] = ATP_PLC_NONE;
}

/*
 * The slot of the CID, or the empty slot for the CID.  A CID is a hash: to find many CIDs with one slot takes an attacker
 * more work than their comparison takes us.
 */
static uint32_t
slot_of(const AtpPlcLog *log, const uint8_t cid[ATP_CID_BLESSED_LEN])
{
	uint32_t	slot;

	memcpy(&slot, cid + ATP_CID_BLESSED_LEN - sizeof(slot), sizeof(slot));
	for (slot &= log->mask; log->slots[slot] != ATP_PLC_NONE; slot = (slot + 1) & log->mask)
		if (memcmp(log->places[log->slots[slot]].cid, cid, ATP_CID_BLESSED_LEN) == 0)
			break;
	return slot;
}

uint32_t
atp_plc_log_find(const AtpPlcLog *log, const uint8_t cid[ATP_CID_BLESSED_LEN])
{
	return log->slots[slot_of(log, cid)];
}

/* M-08: the place in the log. */
static AtpErr
find_prev(const AtpPlcLog *log, const AtpPlcOp *op, uint32_t *prev)
{
	*prev = ATP_PLC_NONE;
	if (!op->has_prev)
		return log->n > 0 ? ATP_E_PLC_GENESIS : ATP_OK;
	*prev = atp_plc_log_find(log, op->prev);
	if (*prev == ATP_PLC_NONE)
		return ATP_E_PLC_PREV;
	if (log->places[*prev].nullified_by != ATP_PLC_NONE)
		return ATP_E_PLC_NULLIFIED;
	return log->places[*prev].kind == ATP_PLC_TOMBSTONE ? ATP_E_PLC_TOMBSTONE : ATP_OK;
}

/* M-02: does the operation belong to the log's account, by the directory's word, and by the genesis? */
static bool
is_of_account(const AtpPlcLog *log, const AtpPlcOp *op, AtpSpan did)
{
	char		own[ATP_DID_PLC_TEXT];

	if (did.len != log->did.len || memcmp(did.ptr, log->did.ptr, did.len) != 0)
		return false;
	if (op->has_prev)
		return true;
	atp_plc_op_did(op, own);
	return did.len == sizeof(own) && memcmp(did.ptr, own, sizeof(own)) == 0;
}

/* The result of try_key() without a verification, for a key that has not signed the operation. */
static AtpErr
look_at_key(const AtpPlcKey key, const AtpVerifier *v)
{
	AtpErr		err = key[0] == 0 ? ATP_E_KEY_POINT : v->read(v->ctx, key);

	return err == ATP_OK ? ATP_E_SIG_WRONG : err;
}

/* A signature's numbers can be too large for P-256 and right for k256, so a key of P-256 is read in any case. */
static AtpErr
try_key(const AtpPlcOp *op, const AtpPlcKey key, const AtpVerifier *v)
{
	if (key[0] == 0 || atp_sig_check(atp_multikey_curve(key), (AtpBytes) {op->sig, sizeof(op->sig)}) != ATP_OK)
		return look_at_key(key, v);
	return v->verify(v->ctx, key, op->digest, op->sig);
}

/*
 * M-07: the first of the keys that verifies the signature is the signer.  A key before the signer that cannot be read makes
 * the operation wrong: so do both public implementations.
 *
 * The key at guess is tried first.  If the key at guess verifies the signature, no other key does, and the other keys are
 * only read: two keys verify one signature only if a key was computed from signature and digest (or if the digest is 0), and
 * the digest covers the keys: a genesis names the keys, any other operation names the CID of prev, which names the keys.  A
 * key that stands twice counts by its first place.
 */
static AtpErr
find_signer(const AtpPlcOp *op, const AtpPlcKey *keys, unsigned nkeys, unsigned guess, const AtpVerifier *v, uint8_t *signer)
{
	AtpErr		guessed;

	if (!op->has_sig || nkeys == 0)
		return ATP_E_PLC_SIGNATURE;
	guess = guess < nkeys ? guess : 0;
	guessed = try_key(op, keys[guess], v);
	for (unsigned i = 0; i < nkeys; i++)
	{
		bool		is_guess = memcmp(keys[i], keys[guess], sizeof(AtpPlcKey)) == 0;
		AtpErr		err = is_guess ? guessed : guessed == ATP_OK ? look_at_key(keys[i], v) : try_key(op, keys[i], v);

		if (err == ATP_E_KEY_POINT)
			return ATP_E_PLC_KEY_TEXT;
		*signer = (uint8_t) i;
		if (err == ATP_OK || err == ATP_E_KEY_BUILD)
			return err;
	}
	return ATP_E_PLC_SIGNATURE;
}

AtpErr
atp_plc_judge(const AtpPlcLog *log, const AtpPlcOp *op, AtpSpan did, int64_t created_at,
			  const AtpVerifier *v, AtpPlcVerdict *verdict)
{
	const AtpPlcPlace *prev;
	const AtpPlcPlace *replaced;
	AtpErr		err = find_prev(log, op, &verdict->prev);

	if (err != ATP_OK)
		return err;
	if (log->n == log->room)
		return ATP_E_PLC_FULL;
	if (!is_of_account(log, op, did))
		return ATP_E_PLC_DID;
	/* a server puts its key behind the owner's keys, and signs the genesis */
	if (verdict->prev == ATP_PLC_NONE)
		return find_signer(op, op->keys, op->nkeys, op->nkeys - 1, v, &verdict->signer);

	prev = &log->places[verdict->prev];
	if ((err = find_signer(op, prev->keys, prev->nkeys, prev->signer, v, &verdict->signer)) != ATP_OK)
		return err;
	/* M-09: a recovery replaces what came after prev in the present chain. */
	replaced = prev->next != ATP_PLC_NONE ? &log->places[prev->next] : NULL;
	if (replaced != NULL && verdict->signer >= replaced->signer)
		return ATP_E_PLC_KEY;
	if (created_at <= log->places[log->n - 1].created_at)
		return ATP_E_PLC_ORDER; /* M-04 */
	if (replaced != NULL && created_at - replaced->created_at > ATP_PLC_WINDOW)
		return ATP_E_PLC_LATE;
	return ATP_OK;
}

void
atp_plc_log_add(AtpPlcLog *log, const AtpPlcOp *op, int64_t created_at, const AtpPlcKey *keys,
				const AtpPlcVerdict *verdict)
{
	uint32_t	index = log->n++;
	AtpPlcPlace *place = &log->places[index];

	*place = (AtpPlcPlace) {
		.kind = (uint8_t) op->kind, .signer = verdict->signer, .nkeys = (uint8_t) op->nkeys, .keys = keys,
		.created_at = created_at, .prev = verdict->prev, .next = ATP_PLC_NONE, .nullified_by = ATP_PLC_NONE
	};
	memcpy(place->cid, op->cid, sizeof(place->cid));
	log->slots[slot_of(log, op->cid)] = index;
	if (verdict->prev == ATP_PLC_NONE)
		return;

	/* M-05: each operation is nullified at most once, so all recoveries together walk over the log once. */
	for (uint32_t i = log->places[verdict->prev].next; i != ATP_PLC_NONE;)
	{
		AtpPlcPlace *nullified = &log->places[i];

		i = nullified->next;
		nullified->next = ATP_PLC_NONE;
		nullified->nullified_by = index;
	}
	log->places[verdict->prev].next = index;
}

void
atp_plc_log_restore(AtpPlcLog *log, const AtpPlcPlace *place)
{
	uint32_t	index = log->n++;

	log->places[index] = *place;
	log->places[index].next = ATP_PLC_NONE;
	log->slots[slot_of(log, place->cid)] = index;
	if (place->prev != ATP_PLC_NONE && place->nullified_by == ATP_PLC_NONE)
		log->places[place->prev].next = index;
}

const char *
atp_plc_reason(AtpErr err)
{
	switch (err)
	{
		case ATP_E_PLC_ENTRY:
		case ATP_E_PLC_ENTRY_DID:
		case ATP_E_PLC_ENTRY_TIME:
		case ATP_E_PLC_ENTRY_MARK:
		case ATP_E_PLC_OBJECT:
		case ATP_E_PLC_SIZE:
		case ATP_E_JSON_LARGE:
		case ATP_E_PLC_TYPE:
		case ATP_E_PLC_MEMBER:
		case ATP_E_PLC_SIG_TYPE:
		case ATP_E_PLC_PREV_TYPE:
		case ATP_E_PLC_ROTATION_KEYS:
		case ATP_E_PLC_KEYS:
		case ATP_E_PLC_METHODS:
		case ATP_E_PLC_ALIASES:
		case ATP_E_PLC_SERVICES:
		case ATP_E_PLC_CREATE:
		case ATP_E_PLC_FULL:
			return "form";
		case ATP_E_PLC_CID:
			return "cid";
		case ATP_E_PLC_PREV:
			return "prev";
		case ATP_E_PLC_GENESIS:
			return "genesis";
		case ATP_E_PLC_NULLIFIED:
		case ATP_E_PLC_MARK:
			return "nullified";
		case ATP_E_PLC_TOMBSTONE:
			return "tombstone";
		case ATP_E_PLC_DID:
			return "did";
		case ATP_E_PLC_SIGNATURE:
		case ATP_E_PLC_KEY_TEXT:
			return "signature";
		case ATP_E_PLC_KEY:
			return "key";
		case ATP_E_PLC_ORDER:
			return "order";
		case ATP_E_PLC_LATE:
			return "late";
		case ATP_OK:
		case ATP_E_KEY_BUILD:
			return NULL;
		default:				/* faults of the JSON and of its texts */
			return "encoding";
	}
}
