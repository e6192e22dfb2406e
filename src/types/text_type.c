/*
 * text_type.c
 *		Input, output and type modifiers of the types that are a text with a syntax: see text_type.h.
 */
#include "postgres.h"

#include "types/text_type.h"

/* Does the modifier allow a valid text?  The typmod is -1 without a modifier. */
static bool
check_typmod(const AtpTextType *type, const AtpInputContext *source,
			 const char *s, size_t n, int32 typmod)
{
	size_t		at = 0;
	AtpErr		err = typmod < 0 ? ATP_OK : type->check_typmod(s, n, typmod, &at);

	if (err != ATP_OK)
		atp_type_error(source, s, n, err, at);
	return err == ATP_OK;
}

/* The check behind both input and receive. */
static struct varlena *
make_checked(const AtpTextType *type, const AtpInputContext *source,
			 const char *s, size_t n, int32 typmod)
{
	size_t		at;
	AtpErr		err = type->check(s, n, &at);

	if (err != ATP_OK)
	{
		atp_type_error(source, s, n, err, at);
		return NULL;
	}
	if (!check_typmod(type, source, s, n, typmod))
		return NULL;
	return type->make(s, n);
}

/* The typmod argument of the input functions; -1 for a type without modifiers. */
static int32
typmod_of_arg(FunctionCallInfo fcinfo, const AtpTextType *type)
{
	return type->typmods != NULL ? atp_arg_typmod(fcinfo, 2, type->name, type->typmods) : -1;
}

AtpSpan
atp_text_type_arg(FunctionCallInfo fcinfo, int i, const AtpTextType *type)
{
	AtpBytes	stored = atp_arg_bytes(fcinfo, i);
	size_t		n = stored.len;
	char	   *text;

	if (!type->fits(stored.ptr, n))
		atp_damaged_error(type->name);
	text = palloc(n + type->text_growth + 1);
	if (type->text != NULL)
		n = type->text(stored.ptr, stored.len, text);
	else
		memcpy(text, stored.ptr, n);
	text[n] = '\0';
	return (AtpSpan) {text, n};
}

AtpSpan
atp_text_type_checked_arg(FunctionCallInfo fcinfo, int i, const AtpTextType *type)
{
	AtpSpan		text = atp_text_type_arg(fcinfo, i, type);
	size_t		at;

	if (type->check(text.ptr, text.len, &at) != ATP_OK)
		atp_damaged_error(type->name);
	return text;
}

Datum
atp_text_type_in(FunctionCallInfo fcinfo, const AtpTextType *type)
{
	const char *s = PG_GETARG_CSTRING(0);
	AtpInputContext source = {type->name, false, fcinfo->context};

	PG_RETURN_POINTER(make_checked(type, &source, s, strlen(s), typmod_of_arg(fcinfo, type)));
}

Datum
atp_text_type_recv(FunctionCallInfo fcinfo, const AtpTextType *type)
{
	size_t		n;
	const char *s = atp_recv_bytes(fcinfo, &n);
	AtpInputContext source = {type->name, true, NULL};

	PG_RETURN_POINTER(make_checked(type, &source, s, n, typmod_of_arg(fcinfo, type)));
}

Datum
atp_text_type_out(FunctionCallInfo fcinfo, const AtpTextType *type)
{
	PG_RETURN_CSTRING(unconstify(char *, atp_text_type_arg(fcinfo, 0, type).ptr));
}

Datum
atp_text_type_send(FunctionCallInfo fcinfo, const AtpTextType *type)
{
	ATP_RETURN_SPAN_TEXT(atp_text_type_arg(fcinfo, 0, type));
}

Datum
atp_text_type_typmod_in(FunctionCallInfo fcinfo, const AtpTextType *type)
{
	PG_RETURN_INT32(atp_typmod_in(PG_GETARG_ARRAYTYPE_P(0), type->name, type->typmods));
}

Datum
atp_text_type_typmod_out(FunctionCallInfo fcinfo, const AtpTextType *type)
{
	PG_RETURN_CSTRING(atp_typmod_out(PG_GETARG_INT32(0), type->typmods));
}

/* The cast that applies a modifier, such as did(did, typmod). */
Datum
atp_text_type_cast(FunctionCallInfo fcinfo, const AtpTextType *type)
{
	AtpInputContext source = {type->name, false, NULL};
	AtpSpan		text = atp_text_type_arg(fcinfo, 0, type);
	int32		typmod = atp_arg_typmod(fcinfo, 1, type->name, type->typmods);

	(void) check_typmod(type, &source, text.ptr, text.len, typmod);
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}
