/*
 * crash.c
 *		Who may have crashed the server does not come back at once.
 *
 * A process that crashes takes the whole server along, which then starts it
 * again, to meet the same event: so fast that nobody could log in to end it.
 * What must survive is one number, and shared memory does not.  So each
 * consumer has a file while it runs, which any end but a crash removes.
 */
#include "postgres.h"

#include <unistd.h>

#include "config/claim.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "process/crash.h"
#include "storage/fd.h"
#include "storage/ipc.h"

#define FIRST_DELAY_MS	1000
#define MAX_DELAY_MS	60000

/* Not copied by a base backup, as what is in this directory. */
static char path[MAXPGPATH];
static int	written;			/* what the file says: crashes, if the server crashes now */

static int
read_file(void)
{
	FILE	   *file = AllocateFile(path, PG_BINARY_R);
	int			crashes = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%d", &crashes) != 1 || crashes < 1)
		crashes = 1;
	FreeFile(file);
	return crashes;
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
	write_file(Min(written, 1000) + 1);
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
