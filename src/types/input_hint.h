/*
 * input_hint.h
 *		The HINT of an invalid value of a type, for values that people often give in place of the right value.
 */
#ifndef ATP_INPUT_HINT_H
#define ATP_INPUT_HINT_H

#include "postgres.h"

#include "core/atp.h"

/* To be called as an argument of ereport(): errhint(), or 0 without a hint. */
extern int	atp_input_hint(const char *type, const char *s, size_t n, AtpErr err);

#endif							/* ATP_INPUT_HINT_H */
