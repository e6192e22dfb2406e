/*
 * injection.h
 *		Places where a test can stop a process, and let a second process run in between.
 *
 * Injection points exist only in a build with ATP_INJECTION_POINTS, as test/tools/check makes; in
 * other builds the macro expands to nothing. doc/develop/races.md lists the points.
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
