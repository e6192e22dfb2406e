/*
 * crash_backoff.c
 *		Delays the restart of a process whose work may have crashed the server.
 *
 * When a process crashes, the postmaster restarts all processes, and the consumer would meet the same
 * event again: so fast that no operator could log in.  To wait longer after each crash, the number of
 * crashes must survive the crash, and shared memory does not.  So each consumer has a file while it
 * runs, removed at any exit except a crash.
 */
#include "postgres.h"

#include <unistd.h>

#include "config/claim.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "process/status/crash_backoff.h"
#include "storage/fd.h"
#include "storage/ipc.h"

#define FIRST_DELAY_MS	1000
#define MAX_DELAY_MS	60000
#define CRASHES_MAX		1000	/* more are not counted: the delay is MAX_DELAY_MS long before */

/* path of the file; base backups leave out the files of its directory */
static char path[MAXPGPATH];
static int	written;			/* the number in the file: crashes in a row, should the server crash now */

static int
read_file(void)
{
	FILE	   *file = AllocateFile(path, PG_BINARY_R);
	char		line[16];
	long		crashes = 0;

	if (file == NULL)
		return 0;
	if (fgets(line, sizeof(line), file) != NULL)
		crashes = strtol(line, NULL, 10);
	FreeFile(file);
	/* the file exists, so there was a crash, whatever the file says */
	return (int) Min(Max(crashes, 1), CRASHES_MAX);
}

static void
write_file(int crashes)
{
	FILE	   *file = AllocateFile(path, PG_BINARY_W);

	if (file == NULL || fprintf(file, "%d\n", crashes) < 0 || FreeFile(file) != 0)
		ereport(LOG,
				(errcode_for_file_access(), errmsg("could not write file \"%s\": %m", path)));
	written = crashes;
}

static void
orderly_end(int code, Datum arg)
{
	(void) unlink(path);
}

int
atp_crash_begin(const char *subscription)
{
	int			crashes;

	snprintf(path, sizeof(path), "%s/atproto.%u.%016llx", PG_STAT_TMP_DIR, MyDatabaseId,
			 (unsigned long long) atp_claim_number(subscription));
	crashes = written = read_file();
	on_proc_exit(orderly_end, (Datum) 0);
	return crashes;
}

void
atp_crash_run(void)
{
	write_file(Min(written + 1, CRASHES_MAX));
}

int
atp_crash_delay(int crashes)
{
	int			delay = crashes > 0 ? FIRST_DELAY_MS : 0;

	for (int i = 1; i < crashes && delay < MAX_DELAY_MS; i++)
		delay *= 2;
	return Min(delay, MAX_DELAY_MS);
}

void
atp_crash_progress(void)
{
	if (written != 1)
		write_file(1);
}
