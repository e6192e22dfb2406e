/*
 * task_handle.h
 *		The errand that verifies handles (W-20 to W-25).
 */
#ifndef ATP_TASK_HANDLE_H
#define ATP_TASK_HANDLE_H

/* From _PG_init(): the setting. */
extern void atp_handle_errand_init(void);

#endif							/* ATP_TASK_HANDLE_H */
