/*
 * proof.h
 *		What all harnesses use: values of which nothing is known, laws, and proof that a place is reached.
 *
 * CBMC follows all runs of main() within the bounds of a harness.
 */
#ifndef PROOF_H
#define PROOF_H

#include "core/atp.h"

/* CBMC gives functions with such names, which have no body, any result. */
extern bool nondet_any_bool(void);
extern uint8_t nondet_any_byte(void);
extern uint64_t nondet_any_u64(void);

#define any_bool()	nondet_any_bool()
#define any_byte()	nondet_any_byte()
#define any_u64()	nondet_any_u64()

/* Runs in which the condition is false are not considered: an assumption, which README.md lists. */
#define ASSUME(condition)	__CPROVER_assume(condition)

#define LAW(condition)		__CPROVER_assert(condition, "law: " #condition)

/* Must fail: some run gets here.  Without such a place a harness could prove nothing, e.g. with a wrong ASSUME(). */
#define REACHED(what)		__CPROVER_assert(false, "reached: " what)

static inline size_t
any_size(size_t most)
{
	size_t		n = any_u64();

	ASSUME(n <= most);
	return n;
}

/*
 * name: n bytes of any value, where n is at most "most" and a constant.  In some runs the memory ends behind
 * the last byte, in others it begins with the first: so no byte before or behind may be read.  (Memory of
 * exactly n bytes would say the same, but costs the solver ten times as much.)
 */
#define ANY_BYTES(type, name, n, most) \
	type		name##_memory[(most) > 0 ? (most) : 1]; \
	size_t		n = any_size(most); \
	type	   *name = name##_memory + (any_bool() ? 0 : sizeof(name##_memory) - n)

#define ANY_TEXT(name, n, most)		ANY_BYTES(char, name, n, most)
#define ANY_BUFFER(name, n, most)	ANY_BYTES(uint8_t, name, n, most)

/* An error has an offset in the input or at its end, and a code with a sentence. */
#define LAW_OF_ERRORS(err, at, n) \
	do { \
		LAW((err) >= ATP_OK && (err) < ATP_ERR_COUNT); \
		LAW((err) == ATP_OK || (at) <= (n)); \
	} while (0)

static inline bool
same_bytes(const void *a, size_t an, const void *b, size_t bn)
{
	return an == bn && memcmp(a, b, an) == 0;
}

static inline int
sign(int c)
{
	return (c > 0) - (c < 0);
}

#endif							/* PROOF_H */
