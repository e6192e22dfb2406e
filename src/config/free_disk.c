/*
 * free_disk.c
 *		Is there room on the disks: see free_disk.h.
 *
 * Two paths may be on the same volume; each path is asked, because only the paths are known.  Volumes of
 * other servers (nodes of Citus) and of temporary files (temp_tablespaces) are not watched.
 */
#include "postgres.h"

#include <sys/statvfs.h>

#include "catalog/pg_tablespace_d.h"
#include "config/free_disk.h"
#include "config/spi.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define ASK_MS		1000		/* between two questions to the system */
#define WATCH_MS	60000		/* between two looks for the tablespaces of the tables */

/*
 * After a stop, so much more than the setting must be free, as a share of the setting: a checkpoint frees a little WAL, and the
 * processes would stop and go on again and again.
 */
#define MORE_SHARE	10

static int	min_free_mb;

/* A directory of the server, relative to the data directory, in which processes of the server work. */
typedef struct Path
{
	char	   *path;
	char	   *what;			/* for people */
} Path;

static MemoryContext cxt;
static Path *paths;
static int	npaths;

static AtpTime watched;			/* the last call of atp_free_disk_watch() */
static AtpTime asked;			/* the last question to the system ... */
static int	asked_mb;			/* ... with this setting ... */
static bool low;				/* ... and its result */
static char fault[300];

void
atp_free_disk_init(void)
{
	DefineCustomIntVariable("atproto.min_free_disk",
							"Free space on a volume of the server below which nothing more is received.",
							"Zero: never. Experimental.", &min_free_mb, 1024, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
}

int64
atp_free_disk_kept(void)
{
	return (int64) min_free_mb * 1024 * 1024;
}

static void
add_path(char *path, char *what)
{
	paths = npaths == 0 ? palloc(sizeof(Path)) : repalloc(paths, sizeof(Path) * (npaths + 1));
	paths[npaths++] = (Path) {path, what};
}

/* TOAST tables are where their tables are, and indexes are in the schemas of their tables. */
static AtpResult
used_tablespaces(const char *target)
{
	return atp_query("SELECT t.oid::text AS oid, t.spcname AS name FROM pg_tablespace t WHERE t.oid = (SELECT dattablespace FROM pg_database"
					 "  WHERE datname = current_database()) OR t.oid IN (SELECT c.reltablespace FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
					 "  WHERE c.reltablespace <> 0 AND (n.nspname IN ('atproto', $1) OR $1 IS NULL AND n.nspname IN (SELECT target FROM atproto.subscription)))"
					 " ORDER BY t.oid", ATP_ARGS(atp_text_arg(target)));
}

void
atp_free_disk_watch(const char *target)
{
	AtpResult	found = used_tablespaces(target);
	MemoryContext old;

	if (cxt == NULL)
		cxt = AllocSetContextCreate(TopMemoryContext, "atproto volumes", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(cxt);
	npaths = 0;
	old = MemoryContextSwitchTo(cxt);
	add_path(".", "the data directory");
	add_path("pg_wal", "WAL (pg_wal)");
	for (uint64 i = 0; i < found.n; i++)
	{
		const char *oid = atp_get_text(atp_result_row(found, i), "oid");

		/* the two built-in tablespaces are in the data directory */
		if (atooid(oid) != DEFAULTTABLESPACE_OID && atooid(oid) != GLOBALTABLESPACE_OID)
			add_path(psprintf("pg_tblspc/%s", oid), psprintf("the tablespace \"%s\"", atp_get_text(atp_result_row(found, i), "name")));
	}
	MemoryContextSwitchTo(old);
	atp_result_free(found);
	watched = atp_now();
	asked = 0;
}

bool
atp_free_disk_watch_due(AtpTime now)
{
	return min_free_mb > 0 && (npaths == 0 || atp_remaining(now, watched, WATCH_MS) == 0);
}

/* False: the system does not answer for this path, for example because the tablespace was dropped. */
static bool
ask_path(const char *path, int64 *size, int64 *left)
{
	struct statvfs stat;

	if (statvfs(path, &stat) != 0)
		return false;
	*size = (int64) stat.f_blocks * (int64) stat.f_frsize;
	*left = (int64) stat.f_bavail * (int64) stat.f_frsize;
	return true;
}

/* Ask the system about each path; write the reason if a volume is too full. */
static void
ask_all(void)
{
	int64		needed = atp_free_disk_kept();

	if (low)
		needed += needed / MORE_SHARE;
	low = false;
	for (int i = 0; i < npaths && !low; i++)
	{
		int64		size;
		int64		left;

		low = ask_path(paths[i].path, &size, &left) && left < needed;
		if (low)
			snprintf(fault, sizeof(fault), "only " INT64_FORMAT " MB are free on the volume of %s: \"%s\" is %d MB",
					 left / (1024 * 1024), paths[i].what, "atproto.min_free_disk", min_free_mb);
	}
}

const char *
atp_free_disk_fault(AtpTime now)
{
	if (min_free_mb == 0)
		low = false;
	else if (asked_mb != min_free_mb || atp_remaining(now, asked, ASK_MS) == 0)
	{
		asked = now;
		asked_mb = min_free_mb;
		ask_all();
	}
	return low ? fault : NULL;
}

AtpVolume *
atp_free_disk_volumes(int *n)
{
	AtpVolume  *volumes;

	atp_free_disk_watch(NULL);
	volumes = palloc(sizeof(AtpVolume) * npaths);
	*n = 0;
	for (int i = 0; i < npaths; i++)
	{
		AtpVolume  *volume = &volumes[*n];

		if (!ask_path(paths[i].path, &volume->size, &volume->free))
			continue;
		volume->what = pstrdup(paths[i].what);
		(*n)++;
	}
	return volumes;
}
