/*
 * owner_turn.c
 *		The order in which the fetcher served the owners: see owner_turn.h.
 */
#include "postgres.h"

#include "fetch/engine/owner_turn.h"

static Oid	served[ATP_OWNERS_SERVED_MAX];	/* the owner served last at the end */
static int	nserved;

void
atp_owner_served(Oid owner)
{
	int			place = 0;

	while (place < nserved && served[place] != owner)
		place++;
	/* without an entry of this owner and without a free one, the oldest entry goes */
	if (place == nserved)
		place = nserved < lengthof(served) ? nserved++ : 0;
	memmove(&served[place], &served[place + 1], sizeof(Oid) * (nserved - 1 - place));
	served[nserved - 1] = owner;
}

int
atp_owners_served(Oid *owners)
{
	memcpy(owners, served, sizeof(Oid) * nserved);
	return nserved;
}
