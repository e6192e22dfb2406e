/*
 * text_type.h
 *		Input, output and type modifiers of the types that are a text with a
 *		syntax: did, handle, nsid, recordkey.
 *
 * Each type describes itself in an AtpTextType.  ATP_TEXT_TYPE_DEFINE defines
 * the functions that SQL calls.
 */
#ifndef ATP_TEXT_TYPE_H
#define ATP_TEXT_TYPE_H

#include "types/glue.h"

typedef struct AtpTextType
{
	const char *name;			/* in SQL */
	AtpErr		(*check) (const char *s, size_t n, size_t *at);
	struct varlena *(*make) (const char *s, size_t n);	/* makes a value from a checked text */

	bool		(*fits) (const uint8_t *stored, size_t n);	/* false: the stored value is damaged */

	/* Only for a type with modifiers: */
	const char *const *typmods;
	AtpErr		(*check_typmod) (const char *s, size_t n, int32 typmod, size_t *at);

	/* Only for a type with a packed form; else values are stored as their texts: */
	size_t		(*text) (const uint8_t *stored, size_t n, char *text);
	size_t		text_growth;	/* most characters by which a text can be longer than its packed form */
} AtpTextType;

/* An argument as text, followed by a NUL. */
extern AtpSpan atp_text_type_arg(FunctionCallInfo fcinfo, int i, const AtpTextType *type);

/* As atp_text_type_arg(), for a function that reads parts of the text: a damaged value may lack parts. */
extern AtpSpan atp_text_type_checked_arg(FunctionCallInfo fcinfo, int i, const AtpTextType *type);

extern Datum atp_text_type_in(FunctionCallInfo fcinfo, const AtpTextType *type);
extern Datum atp_text_type_recv(FunctionCallInfo fcinfo, const AtpTextType *type);
extern Datum atp_text_type_out(FunctionCallInfo fcinfo, const AtpTextType *type);
extern Datum atp_text_type_send(FunctionCallInfo fcinfo, const AtpTextType *type);
extern Datum atp_text_type_typmod_in(FunctionCallInfo fcinfo, const AtpTextType *type);
extern Datum atp_text_type_typmod_out(FunctionCallInfo fcinfo, const AtpTextType *type);
extern Datum atp_text_type_cast(FunctionCallInfo fcinfo, const AtpTextType *type);

/* Defines a SQL function of one type, such as atp_pg_did_in. */
#define ATP_TEXT_TYPE_DEFINE(sqlname, type, function) \
	PG_FUNCTION_INFO_V1(atp_pg_##sqlname##_##function); \
	Datum \
	atp_pg_##sqlname##_##function(PG_FUNCTION_ARGS) \
	{ \
		return atp_text_type_##function(fcinfo, type); \
	}

#endif							/* ATP_TEXT_TYPE_H */
