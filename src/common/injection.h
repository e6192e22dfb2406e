/*
 * injection.h
 *		Places where a test can stop a process, to let another one come in between.
 *
 * Only with ATP_INJECTION_POINTS defined, as test/tools/check does it; otherwise
 * they are nothing.  doc/races.md lists them.
 */
#ifndef ATP_INJECTION_H
#define ATP_INJECTION_H

#ifdef ATP_INJECTION_POINTS
extern void atp_injection_point(const char *name);

#define ATP_INJECTION_POINT(name)	atp_injection_point(name)
#else
#define ATP_INJECTION_POINT(name)	((void) 0)
#endif

#endif							/* ATP_INJECTION_H */
