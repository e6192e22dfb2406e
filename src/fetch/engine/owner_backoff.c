/*
 * owner_backoff.c
 *		Owners whose tables keep the fetcher waiting, and how long they rest for it.
 *
 * One process writes for all owners: the seconds that it waits in vain for one are lost
 * to the others, and their transfers and look-ups go on running meanwhile.  Who does so
 * again and again has a small part of its time.
 */
#include "postgres.h"

#include "common/clock.h"
#include "fetch/engine/owner_backoff.h"

#define REST_MS		1000		/* after the first time, doubled with each ... */
#define REST_MAX_MS	64000
#define FORGET_MS	300000		/* ... until there was none for so long */

typedef struct Owner
{
	Oid			owner;			/* InvalidOid: a free place */
	int			times;
	AtpTime		until;
} Owner;

static Owner owners[ATP_IMPATIENT_MAX];

/* His place; NULL: nothing is known of him. */
static Owner *
find(Oid owner)
{
	for (int i = 0; i < ATP_IMPATIENT_MAX; i++)
		if (owners[i].owner == owner)
			return &owners[i];
	return NULL;
}

/* A place that nobody has, or the one of who has rested longest. */
static Owner *
make_place(Oid owner)
{
	Owner	   *place = &owners[0];

	for (int i = 1; i < ATP_IMPATIENT_MAX; i++)
		if (owners[i].until < place->until)
			place = &owners[i];
	*place = (Owner) {.owner = owner};
	return place;
}

void
atp_owner_kept_waiting(Oid owner)
{
	Owner	   *o = find(owner);
	AtpTime		now = atp_now();

	if (o == NULL)
		o = make_place(owner);
	if (now - o->until > (AtpTime) FORGET_MS * 1000)
		o->times = 0;
	o->until = now + (AtpTime) Min((int64) REST_MS << o->times, REST_MAX_MS) * 1000;
	o->times = Min(o->times + 1, 16);
}

long
atp_owner_rests(Oid owner)
{
	const Owner *o = find(owner);
	AtpTime		now = atp_now();

	return o == NULL || o->until <= now ? 0 : (long) ((o->until - now + 999) / 1000);
}

int
atp_owners_resting(Oid *resting)
{
	AtpTime		now = atp_now();
	int			n = 0;

	for (int i = 0; i < ATP_IMPATIENT_MAX; i++)
		if (owners[i].until > now)
			resting[n++] = owners[i].owner;
	return n;
}
