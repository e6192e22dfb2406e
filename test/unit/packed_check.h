/*
 * packed_check.h
 *		The strict check of a stored value of the packed form, in memory of exactly the needed size.
 */
#ifndef PACKED_CHECK_H
#define PACKED_CHECK_H

#include <stdlib.h>

#include "core/packed/packed.h"

/* Also tries a room that is too small, which the check must refuse. */
static inline AtpErr
check_packed(AtpBytes stored)
{
	size_t		n;
	size_t		room;
	AtpErr		err = atp_packed_unpack(stored, NULL, 0, &n);
	uint8_t    *scratch;

	if (err != ATP_OK)
		return err;
	room = ATP_PACKED_CHECK_ROOM(stored.len, n);
	scratch = malloc(room);
	err = atp_packed_check(stored, scratch, room);
	if (err == ATP_OK && atp_packed_check(stored, scratch, room - 1) != ATP_E_PACKED)
		abort();
	free(scratch);
	return err;
}

#endif							/* PACKED_CHECK_H */
