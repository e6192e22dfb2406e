/*
 * free_disk.h
 *		Is there room on the disks?  A server whose volume of WAL is full ends, and a full tablespace makes
 *		every statement fail, also statements of other programs.  So the processes of the extension stop
 *		writing before, at the setting atproto.min_free_disk.
 */
#ifndef ATP_FREE_DISK_H
#define ATP_FREE_DISK_H

#include "postgres.h"

#include "common/clock.h"

/* Defines the setting; called by _PG_init(). */
extern void atp_free_disk_init(void);

/*
 * From now on this process watches the volumes of the data directory, of WAL, of the database, and of the tablespaces in which the
 * extension, or this target, has tables or indexes; target NULL: the targets of all subscriptions.  Call in a transaction with SPI, at
 * the begin and now and then, because tables move.
 */
extern void atp_free_disk_watch(const char *target);

/* Is it time to call atp_free_disk_watch() again?  Never while the setting is 0. */
extern bool atp_free_disk_watch_due(AtpTime now);

/*
 * NULL: there is room, or the setting is 0.  Otherwise the reason to stop, for people; lives until the next call.  Asks the system at most once a second, so a
 * call costs nearly nothing.
 */
extern const char *atp_free_disk_fault(AtpTime now);

/* The setting, in bytes; 0: nothing stops. */
extern int64 atp_free_disk_kept(void);

/* A volume, for the view atproto.limits. */
typedef struct AtpVolume
{
	char	   *what;			/* for people: what is on the volume */
	int64		size;			/* bytes */
	int64		free;			/* bytes that the server may still use */
} AtpVolume;

/* The volumes that the fetcher watches, palloc'd; SPI is connected. */
extern AtpVolume *atp_free_disk_volumes(int *n);

#endif							/* ATP_FREE_DISK_H */
