/*
 * task_identity.h
 *		The fetcher's task that reads DID documents.
 */
#ifndef ATP_TASK_IDENTITY_H
#define ATP_TASK_IDENTITY_H

/* Called by _PG_init(): define the settings. */
extern void atp_identity_task_init(void);

#endif							/* ATP_TASK_IDENTITY_H */
