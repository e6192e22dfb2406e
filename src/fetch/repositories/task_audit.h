/*
 * task_audit.h
 *		The fetcher's task that audits unproven repositories.
 */
#ifndef ATP_TASK_AUDIT_H
#define ATP_TASK_AUDIT_H

/* Called by _PG_init(): define the setting. */
extern void atp_audit_task_init(void);

#endif							/* ATP_TASK_AUDIT_H */
