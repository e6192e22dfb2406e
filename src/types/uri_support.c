/*
 * uri_support.c
 *		Planner support for "a <@ b" and "b @> a": the URIs inside a URI are one
 *		range of the order.  So a btree (or BRIN minmax) index on a finds them,
 *		and the column's histogram tells their number.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_language.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/optimizer.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/selfuncs.h"
#include "utils/syscache.h"

#include "types/type_uri.h"
#include "types/uri_analyze.h"

/* The selectivity when the URI or the column's statistics are unknown. */
#define DEFAULT_INSIDE_SEL	0.005

/*
 * The upper bound of the URIs inside a stored URI.  *exact: exactly the URIs
 * from the given one to the bound, without the bound, are inside.  Otherwise (a
 * URI with a query or fragment, or too long to be continued) the range, with
 * the bound, contains all URIs inside and also others: rows must be checked
 * again.
 */
static struct varlena *
upper_bound(AtpScheme scheme, AtpBytes base, bool *exact)
{
	uint8_t		bound[ATP_URI_MAX];
	uint8_t		repo[ATP_URI_MAX];
	size_t		n;
	char	   *text;
	AtpUri		uri;
	size_t		at;

	atp_uri_require_fit(scheme, base);
	*exact = atp_uri_upper_bound(scheme, base.ptr, base.len, bound, &n);
	if (*exact)
		return atp_varlena(bound, n);

	text = palloc(ATP_URI_TEXT_BOUND(base.len));
	n = atp_uri_text(scheme, base.ptr, base.len, text);
	if (atp_uri_parse(scheme, text, n, &uri, &at) != ATP_OK)
		atp_damaged_error("aturi");

	/* The bound of its repository; failing this, a bound above all authorities. */
	n = atp_uri_store(scheme, text, uri.authority.ptr + uri.authority.len - text, repo);
	if (!atp_uri_upper_bound(scheme, repo, n, bound, &n))
	{
		n = ATP_URI_MAX - (uri.authority.ptr - text);
		memset(bound, '~', n);
	}
	return atp_varlena(bound, n);
}

static Datum
upper_bound_fn(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	bool		exact;

	PG_RETURN_POINTER(upper_bound(scheme, atp_arg_bytes(fcinfo, 0), &exact));
}

PG_FUNCTION_INFO_V1(atp_pg_aturi_upper_bound);
Datum
atp_pg_aturi_upper_bound(PG_FUNCTION_ARGS)
{
	return upper_bound_fn(fcinfo, ATP_SCHEME_AT);
}

PG_FUNCTION_INFO_V1(atp_pg_noshuri_upper_bound);
Datum
atp_pg_noshuri_upper_bound(PG_FUNCTION_ARGS)
{
	return upper_bound_fn(fcinfo, ATP_SCHEME_NOSH);
}

/*
 * The argument of the function that is the contained URI: 0 for <@, 1 for @>.
 * -1 for any other function: users can define an operator of their own types
 * with this module's estimator.
 */
static int
searched_arg(Oid funcid)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	int			arg = -1;

	if (!HeapTupleIsValid(tuple))
		return -1;
	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId)
	{
		bool		isnull;
		char	   *symbol = TextDatumGetCString(SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull));

		if (strcmp(symbol, "atp_pg_uri_inside") == 0)
			arg = 0;
		else if (strcmp(symbol, "atp_pg_uri_contains") == 0)
			arg = 1;
	}
	ReleaseSysCache(tuple);
	return arg;
}

static AtpBytes
datum_bytes(Datum datum)
{
	struct varlena *v = PG_DETOAST_DATUM_PACKED(datum);

	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
}

/* A Const of the URI's type. */
static Const *
make_uri_const(Oid type, struct varlena *value)
{
	return makeConst(type, -1, InvalidOid, -1, PointerGetDatum(value), false, false);
}

/* --- the index condition --- */

/*
 * The base of a range must be of the indexed type.  A DID's stored form is that
 * of its repository's URI, so that relabeling the type is enough.
 */
static Node *
as_uri(Node *base, Oid type)
{
	if (exprType(base) == type)
		return base;
	if (IsA(base, Const))
	{
		Const	   *c = (Const *) copyObject(base);

		c->consttype = type;
		c->consttypmod = -1;	/* a modifier such as did(blessed) has no meaning for a URI */
		return (Node *) c;
	}
	return (Node *) makeRelabelType((Expr *) base, type, -1, InvalidOid, COERCE_IMPLICIT_CAST);
}

/* Does an index with this operator family support ranges? */
static bool
family_has_order(Oid opfamily)
{
	HeapTuple	tuple = SearchSysCache1(OPFAMILYOID, ObjectIdGetDatum(opfamily));
	bool		result;
	Oid			am;

	if (!HeapTupleIsValid(tuple))
		return false;
	am = ((Form_pg_opfamily) GETSTRUCT(tuple))->opfmethod;
	result = am == BTREE_AM_OID || am == BRIN_AM_OID;
	ReleaseSysCache(tuple);
	return result;
}

/* The function aturi_upper_bound (or noshuri_upper_bound), in the schema of the supported function. */
static Oid
upper_bound_oid(AtpScheme scheme, Oid funcid, Oid type)
{
	char	   *schema = get_namespace_name(get_func_namespace(funcid));
	const char *name = scheme == ATP_SCHEME_AT ? "aturi_upper_bound" : "noshuri_upper_bound";

	return LookupFuncName(list_make2(makeString(schema), makeString(pstrdup(name))), 1, &type, true);
}

static List *
index_condition(SupportRequestIndexCondition *req, AtpScheme scheme)
{
	List	   *args;
	Node	   *indexed;
	Node	   *base;
	Node	   *bound;
	Oid			type;
	Oid			ge;
	Oid			lt;
	bool		exact = false;

	if (is_opclause(req->node))
		args = ((OpExpr *) req->node)->args;
	else if (is_funcclause(req->node))
		args = ((FuncExpr *) req->node)->args;
	else
		return NIL;
	if (list_length(args) != 2)
		return NIL;

	/* uri <@ base, or base @> uri: the indexed argument must be the contained URI. */
	if (req->indexarg != searched_arg(req->funcid))
		return NIL;
	indexed = (Node *) list_nth(args, req->indexarg);
	base = (Node *) list_nth(args, 1 - req->indexarg);
	type = exprType(indexed);

	if (!family_has_order(req->opfamily))
		return NIL;
	ge = get_opfamily_member(req->opfamily, type, type, BTGreaterEqualStrategyNumber);

	if (IsA(base, Const))
	{
		Const	   *c = (Const *) base;

		if (c->constisnull)
			return NIL;
		base = as_uri(base, type);
		bound = (Node *) make_uri_const(type, upper_bound(scheme, datum_bytes(c->constvalue), &exact));
	}
	else
	{
		Oid			bound_fn = upper_bound_oid(scheme, req->funcid, type);

		/* Not a constant: a parameter, or a column of another table in a join. */
		if (!OidIsValid(bound_fn) || !is_pseudo_constant_for_index(req->root, base, req->index))
			return NIL;
		base = as_uri(base, type);
		bound = (Node *) makeFuncExpr(bound_fn, type, list_make1(copyObject(base)),
									  InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	}

	lt = get_opfamily_member(req->opfamily, type, type,
							 exact ? BTLessStrategyNumber : BTLessEqualStrategyNumber);
	if (!OidIsValid(ge) || !OidIsValid(lt))
		return NIL;

	/* BRIN always rechecks rows. */
	req->lossy = !exact;
	return list_make2(make_opclause(ge, BOOLOID, false, (Expr *) indexed, (Expr *) base,
									InvalidOid, InvalidOid),
					  make_opclause(lt, BOOLOID, false, (Expr *) copyObject(indexed), (Expr *) bound,
									InvalidOid, InvalidOid));
}

/* --- selectivity --- */

/* The number of values in the histogram that are less than a stored URI. */
static int
histogram_rank(const AttStatsSlot *histogram, AtpBytes uri)
{
	int			low = 0;
	int			high = histogram->nvalues;

	while (low < high)
	{
		int			middle = (low + high) / 2;
		AtpBytes	value = datum_bytes(histogram->values[middle]);

		if (atp_uri_cmp(value.ptr, value.len, uri.ptr, uri.len) < 0)
			low = middle + 1;
		else
			high = middle;
	}

	return low;
}

/* The position of a rank: 0 before all values, 1 after all, else the middle of a bin. */
static double
histogram_position(const AttStatsSlot *histogram, int rank)
{
	if (rank == 0 || rank == histogram->nvalues)
		return rank == 0 ? 0.0 : 1.0;
	return (rank - 0.5) / (histogram->nvalues - 1);
}

/*
 * The share of a repository or collection that has at most one value of the
 * histogram (has_value: exactly one), so that the histogram cannot tell its
 * size; 0 for a single record.
 */
static double
small_share(VariableStatData *vardata, AtpBytes uri, bool has_value)
{
	AttStatsSlot shares;
	double		share = 0.0;
	int			which;

	if (uri.len == atp_uri_repo_len(uri.ptr, uri.len))
		which = has_value ? ATP_STATISTIC_URI_REPO_OF_ROW : ATP_STATISTIC_URI_REPO;
	else if (uri.len == atp_uri_collection_len(uri.ptr, uri.len))
		which = has_value ? ATP_STATISTIC_URI_COLLECTION_OF_ROW : ATP_STATISTIC_URI_COLLECTION;
	else
		return 0.0;
	if (get_attstatsslot(&shares, vardata->statsTuple, ATP_STATISTIC_KIND_URI, InvalidOid,
						 ATTSTATSSLOT_NUMBERS))
	{
		if (shares.nnumbers == ATP_STATISTIC_URI_NUMBERS)
			share = shares.numbers[which];
		free_attstatsslot(&shares);
	}
	return share;
}

/*
 * The share of the column that is inside a constant: the part of the histogram
 * between the two bounds, plus the most common values that match.  PostgreSQL
 * estimates LIKE 'prefix%' in this way.  Here the histogram is read only once,
 * because reading it takes most of the planning time of a simple query.
 */
static Selectivity
inside_selectivity(AtpScheme scheme, Oid funcid, bool var_on_left,
				   VariableStatData *vardata, Const *base)
{
	AtpBytes	uri = datum_bytes(base->constvalue);
	AttStatsSlot histogram;
	FmgrInfo	proc;
	double		nullfrac;
	double		mcv_sel;
	double		mcv_sum;
	double		sel = DEFAULT_INSIDE_SEL;

	if (!HeapTupleIsValid(vardata->statsTuple))
		return sel;
	nullfrac = ((Form_pg_statistic) GETSTRUCT(vardata->statsTuple))->stanullfrac;

	fmgr_info(funcid, &proc);
	mcv_sel = mcv_selectivity(vardata, &proc, InvalidOid, base->constvalue, var_on_left, &mcv_sum);

	if (statistic_proc_security_check(vardata, funcid) &&
		get_attstatsslot(&histogram, vardata->statsTuple, STATISTIC_KIND_HISTOGRAM, InvalidOid,
						 ATTSTATSSLOT_VALUES))
	{
		bool		exact;
		Datum		bound = PointerGetDatum(upper_bound(scheme, uri, &exact));
		double		rows = Max(vardata->rel->tuples, 1.0);

		int			first = histogram_rank(&histogram, uri);
		int			last = histogram_rank(&histogram, datum_bytes(bound));

		/* Within a bin or two the histogram says little: use the average share, but at most these bins. */
		if (last - first > 1)
			sel = histogram_position(&histogram, last) - histogram_position(&histogram, first);
		else
			sel = Min(small_share(vardata, uri, last > first),
					  (last - first + 1.0) / (histogram.nvalues - 1));
		sel = Max(sel, 1.0 / rows);
		free_attstatsslot(&histogram);
	}

	sel = mcv_sel + sel * Max(1.0 - nullfrac - mcv_sum, 0.0);
	CLAMP_PROBABILITY(sel);
	return sel;
}

/* Selectivity of a clause with these arguments, for the operator and for the function. */
static Selectivity
inside_clause_selectivity(PlannerInfo *root, AtpScheme scheme, Oid funcid, List *args, int varRelid)
{
	VariableStatData vardata;
	Node	   *other;
	bool		var_on_left;
	int			searched = searched_arg(funcid);
	Selectivity sel = DEFAULT_INSIDE_SEL;

	if (searched < 0 || !get_restriction_variable(root, args, varRelid, &vardata, &other, &var_on_left))
		return sel;

	/* Only "column inside constant" is a range of the histogram. */
	if (IsA(other, Const) && var_on_left == (searched == 0))
	{
		if (((Const *) other)->constisnull)
			sel = 0.0;
		else
			sel = inside_selectivity(scheme, funcid, var_on_left, &vardata, (Const *) other);
	}
	ReleaseVariableStats(vardata);
	return sel;
}

static Datum
inside_sel(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	PlannerInfo *root = (PlannerInfo *) PG_GETARG_POINTER(0);
	Oid			operator = PG_GETARG_OID(1);
	List	   *args = (List *) PG_GETARG_POINTER(2);
	int			varRelid = PG_GETARG_INT32(3);

	PG_RETURN_FLOAT8(inside_clause_selectivity(root, scheme, get_opcode(operator), args, varRelid));
}

PG_FUNCTION_INFO_V1(atp_pg_aturi_inside_sel);
Datum
atp_pg_aturi_inside_sel(PG_FUNCTION_ARGS)
{
	return inside_sel(fcinfo, ATP_SCHEME_AT);
}

PG_FUNCTION_INFO_V1(atp_pg_noshuri_inside_sel);
Datum
atp_pg_noshuri_inside_sel(PG_FUNCTION_ARGS)
{
	return inside_sel(fcinfo, ATP_SCHEME_NOSH);
}

/* --- the planner's requests --- */

static Datum
inside_support(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	if (IsA(request, SupportRequestIndexCondition))
		PG_RETURN_POINTER(index_condition((SupportRequestIndexCondition *) request, scheme));
	if (IsA(request, SupportRequestSelectivity))
	{
		SupportRequestSelectivity *req = (SupportRequestSelectivity *) request;

		if (!req->is_join)
		{
			req->selectivity = inside_clause_selectivity(req->root, scheme, req->funcid,
														 req->args, req->varRelid);
			PG_RETURN_POINTER(req);
		}
	}
	PG_RETURN_POINTER(NULL);
}

PG_FUNCTION_INFO_V1(atp_pg_aturi_inside_support);
Datum
atp_pg_aturi_inside_support(PG_FUNCTION_ARGS)
{
	return inside_support(fcinfo, ATP_SCHEME_AT);
}

PG_FUNCTION_INFO_V1(atp_pg_noshuri_inside_support);
Datum
atp_pg_noshuri_inside_support(PG_FUNCTION_ARGS)
{
	return inside_support(fcinfo, ATP_SCHEME_NOSH);
}
