/*
 * compat.h
 *		What differs between PostgreSQL 15 and 18, so that no function body needs
 *		a PG_VERSION_NUM test of its own.  Include after postgres.h.
 */
#ifndef ATP_COMPAT_H
#define ATP_COMPAT_H

#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#include "varatt.h"
#else
/* Soft errors came with 16: before, an input error is always hard. */
#define ereturn(context_, dummy_, ...) \
	do { \
		(void) (context_); \
		ereport(ERROR, __VA_ARGS__); \
		return dummy_; \
	} while (0)
#endif

/* From 18 on it stands before a declaration; until then an attribute after it. */
#ifndef pg_noreturn
#define pg_noreturn	_Noreturn
#endif

/* This process's number among the server's processes. */
#if PG_VERSION_NUM >= 170000
#define ATP_MY_PROC_NUMBER	MyProcNumber
#else
#define ATP_MY_PROC_NUMBER	MyProc->pgprocno
#endif

/* CreateWaitEventSet() takes a resource owner since 17, a memory context before. */
#if PG_VERSION_NUM >= 170000
#define atp_create_wait_event_set(n) CreateWaitEventSet(NULL, (n))
#else
#define atp_create_wait_event_set(n) CreateWaitEventSet(CurrentMemoryContext, (n))
#endif

/* How an index scan can skip over a leading column: since 18. */
#if PG_VERSION_NUM >= 180000
#include "utils/skipsupport.h"
#define ATP_HAS_SKIP_SUPPORT
#endif

/* Custom wait events have names since 17. */
#if PG_VERSION_NUM >= 170000
#define atp_new_wait_event(name) WaitEventExtensionNew(name)
#else
#define atp_new_wait_event(name) PG_WAIT_EXTENSION
#endif

#endif							/* ATP_COMPAT_H */
