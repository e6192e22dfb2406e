/*
 * shared.c
 *		The extension's part of shared memory: see shared.h.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "common/shared.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#define PARTS_MAX	6

static struct
{
	Size		(*size) (void);
	void	  **where;
}			parts[PARTS_MAX];
static int	nparts = 0;

static LWLock *lock = NULL;		/* NULL when the library is not preloaded */

static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static shmem_request_hook_type prev_shmem_request_hook = NULL;

void
atp_shared_part(Size (*size) (void), void **where)
{
	Assert(nparts < PARTS_MAX);
	parts[nparts].size = size;
	parts[nparts++].where = where;
}

static Size
size_of_all(void)
{
	Size		size = 0;

	for (int i = 0; i < nparts; i++)
		size = add_size(size, MAXALIGN(parts[i].size()));
	return size;
}

static void
request_shared(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(size_of_all());
	RequestNamedLWLockTranche("atproto", 1);
}

static void
create_segment(void)
{
	bool		found;
	char	   *p;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	p = ShmemInitStruct("atproto", size_of_all(), &found);
	if (!found)
		memset(p, 0, size_of_all());
	lock = &GetNamedLWLockTranche("atproto")->lock;
	for (int i = 0; i < nparts; i++)
	{
		*parts[i].where = p;
		p += MAXALIGN(parts[i].size());
	}
	LWLockRelease(AddinShmemInitLock);
}

void
atp_shared_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = create_segment;
}

void
atp_shared_lock(LWLockMode mode)
{
	if (lock != NULL)
		LWLockAcquire(lock, mode);
}

void
atp_shared_unlock(void)
{
	if (lock != NULL)
		LWLockRelease(lock);
}

void
atp_shared_text(char *place, Size size, const char *text)
{
	strlcpy(place, text, size);
	place[pg_mbcliplen(place, strlen(place), size - 1)] = '\0';
}
