/*
 * shared.h
 *		What the extension has in shared memory, when the library is preloaded, and
 *		the one lock of it.
 *
 * Each file that has something there says so from its atp_..._init(), before the
 * memory is there.  Plain data only, no pointer, no descriptor; all zeros when the
 * server starts.
 */
#ifndef ATP_SHARED_H
#define ATP_SHARED_H

#include "postgres.h"

#include "storage/lwlock.h"

/* size() bytes, at *where once they are there; NULL until then, and when not preloaded. */
extern void atp_shared_part(Size (*size) (void), void **where);

/* From _PG_init(), after all of these. */
extern void atp_shared_init(void);

/* Of all parts; nothing when not preloaded. */
extern void atp_shared_lock(LWLockMode mode);
extern void atp_shared_unlock(void);

/* A text for people into its place there, cut between two characters. */
extern void atp_shared_text(char *place, Size size, const char *text);

#endif							/* ATP_SHARED_H */
