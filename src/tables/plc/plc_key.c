/*
 * plc_key.c
 *		SQL function atproto.plc_key(): the signing key that an account of did:plc had at a time.
 */
#include "postgres.h"

#include "common/signature.h"
#include "config/extension.h"
#include "config/spi.h"
#include "core/plc/plc_op.h"
#include "fmgr.h"
#include "tables/plc/plc_tables.h"
#include "types/types.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_plc_key);

/* W-11: a key is a point of its curve. */
static bool
is_key(const char *text)
{
	uint8_t		key[ATP_MULTIKEY_LEN];
	size_t		at;

	return strncmp(text, "did:key:", 8) == 0 && atp_multikey_parse(text, strlen(text), key, &at) == ATP_OK &&
		atp_signature_key(NULL, key) != ATP_E_KEY_POINT;
}

/* SQL: atproto.plc_key(did, at, target); caller's rights */
Datum
atp_plc_key(PG_FUNCTION_ARGS)
{
	MemoryContext cxt = CurrentMemoryContext;
	AtpResult	rows;
	char	   *key = NULL;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	SPI_connect();
	rows = atp_query(atp_expand_sql("SELECT s.key FROM (SELECT o.packed FROM #.plc_operation o"
									"  WHERE o.did OPERATOR(@.=) $1 AND o.nullified_by IS NULL AND ($2 IS NULL OR o.created_at <= $2)"
									"  ORDER BY o.n DESC LIMIT 1) o, LATERAL atproto.plc_state(" ATP_PLC_UNPACKED("o.packed", "NULL") ") s",
									NameStr(*PG_GETARG_NAME(2))),
					 ATP_ARGS(ATP_FUNCTION_ARG(0, atp_type("did")), ATP_FUNCTION_ARG(1, TIMESTAMPTZOID)));
	if (rows.n > 0)
	{
		key = atp_get_text_or_null(atp_result_row(rows, 0), "key");
		if (key != NULL)
			key = MemoryContextStrdup(cxt, key);
	}
	SPI_finish();
	if (key == NULL || !is_key(key))
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(key));
}
