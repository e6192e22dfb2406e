/*
 * shared.h
 *		The extension's part of shared memory, which exists when the library is
 *		preloaded, and the one LWLock for all of it.
 *
 * Each file with data in shared memory registers a part in its atp_..._init(), before the memory is
 * allocated.  A part holds plain data: no pointer and no descriptor, since processes map or open these
 * differently.  All bytes are zero when the server starts.
 */
#ifndef ATP_SHARED_H
#define ATP_SHARED_H

#include "postgres.h"

#include "storage/lwlock.h"

/*
 * Register a part of size() bytes.  *where points to the part after allocation, and is NULL before, and when
 * the library is not preloaded.
 */
extern void atp_shared_part(Size (*size) (void), void **where);

/* Called by _PG_init() after all atp_shared_part() calls. */
extern void atp_shared_init(void);

/* Lock and unlock all parts; no operation when the library is not preloaded. */
extern void atp_shared_lock(LWLockMode mode);
extern void atp_shared_unlock(void);

/* Copy a text for display into a fixed-size field in shared memory, cut at a character boundary. */
extern void atp_shared_text(char *place, Size size, const char *text);

#endif							/* ATP_SHARED_H */
