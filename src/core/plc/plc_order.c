/*
 * plc_order.c
 *		Operations of an account in the order of their references: see plc_order.h.
 */
#include "core/plc/plc_log.h"
#include "core/plc/plc_order.h"

#define NONE	UINT32_MAX

/* States of an operation. */
enum
{
	OPEN, PUT, REPEATED
};

typedef struct Ordering
{
	const AtpPlcUnordered *operations;
	uint32_t   *by_time;		/* indexes, sorted */
	uint32_t   *chain;			/* operations whose predecessor has no place yet */
	uint32_t   *slots;			/* indexes by CID */
	uint32_t	mask;
	uint8_t    *states;
	uint32_t   *order;
	uint32_t	n;				/* in order */
} Ordering;

size_t
atp_plc_order_room(uint32_t n)
{
	return ((size_t) n * 2 + atp_plc_slots(n)) * sizeof(uint32_t) + n;
}

/* The slot of the CID, or the empty slot for it.  A CID is a hash: many CIDs with one slot cost an attacker more work than us. */
static uint32_t
slot_of_cid(const Ordering *o, const uint8_t *cid)
{
	uint32_t	slot;

	memcpy(&slot, cid + ATP_CID_BLESSED_LEN - sizeof(slot), sizeof(slot));
	for (slot &= o->mask; o->slots[slot] != NONE; slot = (slot + 1) & o->mask)
		if (memcmp(o->operations[o->slots[slot]].cid, cid, ATP_CID_BLESSED_LEN) == 0)
			break;
	return slot;
}

/* Is operation a later than operation b?  Of operations with equal times, the first received operation is earlier. */
static bool
is_later(const Ordering *o, uint32_t a, uint32_t b)
{
	int64_t		time = o->operations[a].created_at;
	int64_t		other = o->operations[b].created_at;

	return time != other ? time > other : a > b;
}

/* Moves the entry at "at" of the heap down to its place: the latest operation is the root. */
static void
sift_down(const Ordering *o, uint32_t at, uint32_t n)
{
	uint32_t   *heap = o->by_time;
	uint32_t	moved = heap[at];

	for (uint32_t child; (child = at * 2 + 1) < n; at = child)
	{
		child += child + 1 < n && is_later(o, heap[child + 1], heap[child]);
		if (!is_later(o, heap[child], moved))
			break;
		heap[at] = heap[child];
	}
	heap[at] = moved;
}

static void
sort_by_time(const Ordering *o, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		o->by_time[i] = i;
	for (uint32_t i = n / 2; i > 0; i--)
		sift_down(o, i - 1, n);
	for (uint32_t end = n; end > 1; end--)
	{
		uint32_t	last = o->by_time[end - 1];

		o->by_time[end - 1] = o->by_time[0];
		o->by_time[0] = last;
		sift_down(o, 0, end - 1);
	}
}

/* The operation that "prev" names, if the named operation has no place yet; otherwise NONE. */
static uint32_t
open_before(const Ordering *o, uint32_t i)
{
	uint32_t	prev = o->operations[i].prev == NULL ? NONE : o->slots[slot_of_cid(o, o->operations[i].prev)];

	return prev != NONE && o->states[prev] == OPEN ? prev : NONE;
}

/*
 * Puts the operation behind its predecessors.  A CID is a hash that covers "prev", so there is no circle; for a caller with other
 * CIDs, the length of the chain is bounded.
 */
static void
put_with_chain(Ordering *o, uint32_t i, uint32_t n)
{
	uint32_t	length = 0;

	for (; i != NONE && length < n; i = open_before(o, i))
		o->chain[length++] = i;
	while (length > 0)
	{
		i = o->chain[--length];
		if (o->states[i] == OPEN)
			o->order[o->n++] = i;
		o->states[i] = PUT;
	}
}

uint32_t
atp_plc_order(const AtpPlcUnordered *operations, uint32_t n, void *memory, uint32_t *order)
{
	uint32_t	slots = atp_plc_slots(n);
	Ordering	o = {.operations = operations, .by_time = memory, .mask = slots - 1, .order = order};

	o.chain = o.by_time + n;
	o.slots = o.chain + n;
	o.states = (uint8_t *) (o.slots + slots);
	for (uint32_t i = 0; i < slots; i++)
		o.slots[i] = NONE;
	for (uint32_t i = 0; i < n; i++)
	{
		uint32_t	slot;

		o.states[i] = OPEN;
		if (operations[i].cid == NULL)
			continue;
		slot = slot_of_cid(&o, operations[i].cid);
		if (o.slots[slot] == NONE)
			o.slots[slot] = i;
		else
			o.states[i] = REPEATED;
	}
	sort_by_time(&o, n);
	for (uint32_t i = 0; i < n; i++)
		if (operations[o.by_time[i]].cid != NULL && o.states[o.by_time[i]] == OPEN)
			put_with_chain(&o, o.by_time[i], n);
	for (uint32_t i = 0; i < n; i++)
		if (operations[i].cid == NULL)
			order[o.n++] = i;
	return o.n;
}
