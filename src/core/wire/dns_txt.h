/*
 * dns_txt.h
 *		The TXT records of one name in a DNS answer (RFC 1035).
 *
 * An answer may also have records of other names and classes.  These are ignored: they must not verify a
 * handle (W-20).
 */
#ifndef ATP_DNS_TXT_H
#define ATP_DNS_TXT_H

#include "core/atp.h"

/* Receives one string of a record; first: the string begins the record. */
typedef void (*AtpDnsTxtFn) (void *arg, const char *s, size_t n, bool first);

/*
 * Hands over the strings of the TXT records, of class IN, of the name, or of the name that its aliases
 * (CNAME) lead to; *records is the number of records.  False if the answer is malformed; then no string was
 * handed over.
 */
extern bool atp_dns_txt_read(const uint8_t *message, size_t n, const char *name, AtpDnsTxtFn take, void *arg, unsigned *records);

#endif							/* ATP_DNS_TXT_H */
