/*
 * dns_txt.h
 *		The TXT records of a name in a name server's answer (RFC 1035), and of nothing else in it.
 *
 * An answer may have records of other names and classes: these verify nobody's handle (W-20).
 */
#ifndef ATP_DNS_TXT_H
#define ATP_DNS_TXT_H

#include "core/atp.h"

/* One string of a record; first: the record begins with it. */
typedef void (*AtpDnsTxtFn) (void *arg, const char *s, size_t n, bool first);

/*
 * Hand over the strings of the TXT records, of class IN, that belong to the name, or to the name that its
 * aliases (CNAME) lead to; *records says how many records.  False, and nothing is handed over: this is no
 * answer that can be read.
 */
extern bool atp_dns_txt_read(const uint8_t *message, size_t n, const char *name, AtpDnsTxtFn take, void *arg, unsigned *records);

#endif							/* ATP_DNS_TXT_H */
