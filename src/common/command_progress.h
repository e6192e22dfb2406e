/*
 * command_progress.h
 *		How far long commands are, in shared memory, for the view atproto.stat_progress:
 *		audit_all(), partition(), maintain_partitions(), rebuild_links(), count_links(), revalidate(), erase().
 *
 * A process has one command at a time: a command that a trigger calls meanwhile is not shown.  An error ends the
 * command's entry, also in a subtransaction that catches the error.  Without preloading, all functions do nothing.
 */
#ifndef ATP_COMMAND_PROGRESS_H
#define ATP_COMMAND_PROGRESS_H

#include "postgres.h"

/* From _PG_init(): registers the shared memory. */
extern void atp_progress_init(void);

/* Begin a command on the tables of a target. */
extern void atp_progress_begin(const char *command, const char *target);

/* A new phase of the command, of total units of work, rows or repositories; -1: not known. */
extern void atp_progress_phase(const char *phase, int64 total);

/*
 * A new phase: statements that read a table, with its partitions.  The view shows how many rows the statements have read,
 * and about how many the table has.  Ends with the next phase.
 */
extern void atp_progress_reads(const char *phase, Oid relid);

/* So many units of the phase are done. */
extern void atp_progress_to(int64 done);

extern void atp_progress_end(void);

/* About how many rows a table has, with its partitions; -1: not known. */
extern int64 atp_progress_rows_of(Oid relid);

#endif							/* ATP_COMMAND_PROGRESS_H */
