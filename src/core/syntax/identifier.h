/*
 * identifier.h
 *		At-identifiers (rule I-30): a DID or a handle.
 */
#ifndef ATP_IDENTIFIER_H
#define ATP_IDENTIFIER_H

#include "core/atp.h"

extern AtpErr atp_identifier_check(const char *s, size_t n, size_t *at);

#endif							/* ATP_IDENTIFIER_H */
