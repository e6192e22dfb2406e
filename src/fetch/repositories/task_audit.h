/*
 * task_audit.h
 *		The errand that audits what is unproven.
 */
#ifndef ATP_TASK_AUDIT_H
#define ATP_TASK_AUDIT_H

/* From _PG_init(): its setting. */
extern void atp_audit_errand_init(void);

#endif							/* ATP_TASK_AUDIT_H */
