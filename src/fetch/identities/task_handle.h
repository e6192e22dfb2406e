/*
 * task_handle.h
 *		The fetcher's task that verifies handles (W-20 to W-25).
 */
#ifndef ATP_TASK_HANDLE_H
#define ATP_TASK_HANDLE_H

/* Called by _PG_init(): define the setting. */
extern void atp_handle_task_init(void);

#endif							/* ATP_TASK_HANDLE_H */
