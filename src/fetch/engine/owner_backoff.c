/*
 * owner_backoff.c
 *		Backoff for owners of tables that keep the fetcher waiting.
 *
 * A single process writes the tables of all owners.  Seconds spent waiting in vain for an owner's table
 * are lost to all owners, and meanwhile no running transfer or look-up is served.  So an owner whose
 * tables block again and again gets a small share of the process's time.
 */
#include "postgres.h"

#include "common/clock.h"
#include "fetch/engine/owner_backoff.h"

#define BACKOFF_MS		1000	/* after the first wait in vain; doubled with each */
#define BACKOFF_MAX_MS	64000
#define FORGET_MS	300000		/* without a wait for so long, the count starts again */

typedef struct Owner
{
	Oid			owner;			/* InvalidOid: a free entry */
	int			times;
	AtpTime		until;
} Owner;

static Owner owners[ATP_OWNER_BACKOFF_MAX];

/* The owner's entry, or NULL. */
static Owner *
find_owner(Oid owner)
{
	for (int i = 0; i < ATP_OWNER_BACKOFF_MAX; i++)
		if (owners[i].owner == owner)
			return &owners[i];
	return NULL;
}

/* A free entry, or else the entry whose backoff ends first. */
static Owner *
make_place(Oid owner)
{
	Owner	   *place = &owners[0];

	for (int i = 1; i < ATP_OWNER_BACKOFF_MAX; i++)
		if (owners[i].until < place->until)
			place = &owners[i];
	*place = (Owner) {.owner = owner};
	return place;
}

void
atp_owner_backoff_begin(Oid owner)
{
	Owner	   *o = find_owner(owner);
	AtpTime		now = atp_now();

	if (o == NULL)
		o = make_place(owner);
	if (now - o->until > (AtpTime) FORGET_MS * 1000)
		o->times = 0;
	o->until = now + (AtpTime) Min((int64) BACKOFF_MS << o->times, BACKOFF_MAX_MS) * 1000;
	o->times = Min(o->times + 1, 16);
}

long
atp_owner_backoff_ms(Oid owner)
{
	const Owner *o = find_owner(owner);
	AtpTime		now = atp_now();

	return o == NULL || o->until <= now ? 0 : (long) ((o->until - now + 999) / 1000);
}

int
atp_owners_in_backoff(Oid *found)
{
	AtpTime		now = atp_now();
	int			n = 0;

	for (int i = 0; i < ATP_OWNER_BACKOFF_MAX; i++)
		if (owners[i].until > now)
			found[n++] = owners[i].owner;
	return n;
}
