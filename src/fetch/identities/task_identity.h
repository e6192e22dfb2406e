/*
 * task_identity.h
 *		The errand that reads DID documents.
 */
#ifndef ATP_TASK_IDENTITY_H
#define ATP_TASK_IDENTITY_H

/* From _PG_init(): the settings. */
extern void atp_identity_errand_init(void);

#endif							/* ATP_TASK_IDENTITY_H */
