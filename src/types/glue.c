/*
 * glue.c
 *		Shared by the SQL types: error reports, type modifiers, varlenas.
 *
 * No other file turns an AtpErr of a type's syntax into an error of PostgreSQL.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "libpq/pqformat.h"
#include "common/quotable.h"
#include "utils/builtins.h"

#include "types/glue.h"
#include "types/input_hint.h"

/* Length of an error's sentence without its full stop, so that the place of the fault can follow. */
static int
sentence_length(const char *sentence)
{
	size_t		n = strlen(sentence);

	return (int) (n > 0 && sentence[n - 1] == '.' ? n - 1 : n);
}

void
atp_type_error(const AtpInputContext *source, const char *s, size_t n, AtpErr err, size_t at)
{
	const char *sentence = atp_err_text(err);

	/* A binary value may not be valid text in the server's encoding: do not quote it. */
	if (source->binary)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_BINARY_REPRESENTATION),
				 errmsg("invalid binary representation of type %s", source->type),
				 errdetail("%.*s (byte %zu).", sentence_length(sentence), sentence, atp_byte_number(at))));

	ereturn(source->escontext,,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("invalid input syntax for type %s: \"%s\"",
					source->type, atp_quotable_span(s, n)),
			 errdetail("%.*s (byte %zu).", sentence_length(sentence), sentence, atp_byte_number(at)),
			 atp_input_hint(source->type, s, n, err)));
}

void
atp_argument_error(const char *what, const char *s, size_t n, AtpErr err, size_t at)
{
	const char *sentence = atp_err_text(err);

	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid %s: \"%s\"", what, atp_quotable_span(s, n)),
			 errdetail("%.*s (byte %zu).", sentence_length(sentence), sentence, atp_byte_number(at))));
}

void
atp_damaged_error(const char *type)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("a stored value of type %s is damaged", type),
			 errdetail("No input function of the type makes such a value. A damaged page has it, or a cast without a check has made it.")));
}

const char *
atp_recv_bytes(FunctionCallInfo fcinfo, size_t *n)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);

	*n = buf->len - buf->cursor;
	return pq_getmsgbytes(buf, (int) *n);
}

/* The modifier is not one of the words. */
pg_noreturn static void
typmod_error(const char *type, const char *const *words)
{
	StringInfoData known;

	initStringInfo(&known);
	for (int i = 0; words[i] != NULL; i++)
		appendStringInfo(&known, "%s%s", i > 0 ? ", " : "", words[i]);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid type modifier for type %s", type),
			 errdetail("The modifier is one of: %s.", known.data)));
}

int32
atp_typmod_in(ArrayType *array, const char *type, const char *const *words)
{
	Datum	   *elems;
	int			n;

	deconstruct_array(array, CSTRINGOID, -2, false, TYPALIGN_CHAR, &elems, NULL, &n);
	if (n == 1)
	{
		const char *word = DatumGetCString(elems[0]);

		for (int32 i = 0; words[i] != NULL; i++)
			if (strcmp(word, words[i]) == 0)
				return i;
	}
	typmod_error(type, words);
}

int32
atp_arg_typmod(FunctionCallInfo fcinfo, int i, const char *type, const char *const *words)
{
	int32		typmod = PG_GETARG_INT32(i);

	if (typmod < 0)
		return -1;
	for (int32 known = 0; words[known] != NULL; known++)
		if (known == typmod)
			return typmod;
	typmod_error(type, words);
}

char *
atp_typmod_out(int32 typmod, const char *const *words)
{
	const char *word = NULL;

	for (int32 i = 0; words[i] != NULL; i++)
		if (i == typmod)
			word = words[i];
	if (word == NULL)
		return pstrdup("");

	/* A word that is no plain identifier needs quotes, or it could not be read again. */
	if (quote_identifier(word) == word)
		return psprintf("(%s)", word);
	return psprintf("('%s')", word);
}

struct varlena *
atp_varlena(const void *bytes, size_t n)
{
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + n);
	memcpy(VARDATA(v), bytes, n);
	return v;
}
