"""The faults that `run` plants: each is a mistake that somebody could make, and that the tests
named with it must find.  The old text occurs exactly once in its file; so anchor on short,
telling pieces of code.  Cheap tests first.
"""
import collections

Fault = collections.namedtuple("Fault", "name file old new tests short")

FAULTS = []


def fault(name, file, old, new, *tests, short=False):
    FAULTS.append(Fault(name, "src/" + file, old, new, tests, short))


# --- src/core: syntax ---

fault("tid-first", "core/tid.c", "(uint8_t) s[0]] > 15", "(uint8_t) s[0]] > 16", "unit/test_tid", short=True)
fault("tid-length", "core/tid.c", "if (n != ATP_TID_TEXT)", "if (n < ATP_TID_TEXT)", "unit/test_tid")
fault("rkey-long", "core/recordkey.c", "if (n > ATP_RKEY_MAX)", "if (n >= ATP_RKEY_MAX)", "unit/test_recordkey")
fault("rkey-dot", "core/recordkey.c", "(n == 1 || (n == 2 && s[1] == '.'))", "(n == 2 && s[1] == '.')", "unit/test_recordkey")
fault("rkey-order", "core/recordkey.c", "c : (an > bn) - (an < bn)", "c : (an < bn) - (an > bn)", "unit/test_recordkey")
fault("did-end", "core/did.c", "if (end[-1] == ':')", "if (end[-1] == '%')", "unit/test_did")
fault("did-long", "core/did.c", "if (n > ATP_DID_MAX)", "if (n >= ATP_DID_MAX)", "unit/test_did")
fault("did-order", "core/did.c", "c : (an > bn) - (an < bn)", "c : (an < bn) - (an > bn)", "unit/test_did")
fault("did-collapse-first", "core/did.c", "atp_char_is(out[-2], ATP_C_HEX) && atp_char_is(out[-1], ATP_C_HEX))", "atp_char_is(out[-1], ATP_C_HEX))", "unit/test_did")
fault("did-collapse-last", "core/did.c", "atp_char_is(out[-2], ATP_C_HEX) && atp_char_is(out[-1], ATP_C_HEX))", "atp_char_is(out[-2], ATP_C_HEX))", "unit/test_did")
fault("did-abbreviated", "core/did.c", "if (v > 31 && s[i] < '2')", "if (v > 31 && s[i] < 'a')", "unit/test_did", "unit/test_uri_order")
fault("nsid-segments", "core/nsid.c", "if (segments < 3)", "if (segments < 2)", "unit/test_nsid")
fault("nsid-pattern", "core/nsid.c", "return n >= pn && memcmp", "return n > pn && memcmp", "unit/test_nsid", "t/220_filters")
fault("handle-labels", "core/handle.c", "if (labels < 2)", "if (labels < 1)", "unit/test_handle")
fault("handle-tld", "core/handle.c", "if (atp_char_is(s[last], ATP_C_DIGIT))", "if (atp_char_is(s[0], ATP_C_DIGIT))", "unit/test_handle")
fault("datetime-leap", "core/datetime.c", "year % 400 == 0)", "year % 400 != 0)", "unit/test_datetime", short=True)
fault("datetime-leap-second", "core/datetime.c", "second > 60)", "second > 59)", "unit/test_datetime")
fault("datetime-zone", "core/datetime.c", "offset = -offset;", "offset = +offset;", "unit/test_datetime")
fault("utf8-surrogate", "core/utf8.c", "(b == 0xed && s[1] > 0x9f)", "(b == 0xed && s[1] > 0xa0)", "unit/test_dagcbor", "unit/test_record")
fault("utf8-last", "core/utf8.c", "(b == 0xf4 && s[1] > 0x8f)", "(b == 0xf4 && s[1] > 0x90)", "unit/test_dagcbor", "unit/test_record")
fault("uri-agent", "core/uri_parse.c", "memcmp(a.ptr, limit, digits) <= 0", "memcmp(a.ptr, limit, digits) < 0", "unit/test_uri")
fault("uri-inside-query", "core/uri_order.c", "return last_part(b, bn) != '?';", "return last_part(b, bn) == '/';", "unit/test_uri_order")
fault("uri-tid-bytes", "core/uri_order.c", "a + common - tag < ATP_URI_TID_STORED", "a + common - tag <= ATP_URI_TID_STORED", "unit/test_uri_order")
fault("uri-plc-bytes", "core/uri_order.c", "if (common < ATP_DID_PLC_STORED)", "if (common < ATP_DID_PLC_STORED - 1)", "unit/test_uri_order")
fault("uri-collection-end", "core/uri_order.c", "return repo < n && weight(stored[repo]) == 3", "return repo <= n && weight(stored[repo]) == 3", "unit/test_uri_order")

# --- src/core: DAG-CBOR, CIDs, CAR files ---

fault("cbor-long-form", "core/dagcbor.c", "head->u < least[info - 24]", "head->u < least[info - 24] - 1", "unit/test_dagcbor", short=True)
fault("cbor-key-order", "core/dagcbor.c", "		if (cmp > 0)\n", "		if (cmp > 1)\n", "unit/test_dagcbor")
fault("cbor-map-count", "core/dagcbor.c", "if (head.u > (r->len - r->pos) / 2)", "if (head.u > r->len - r->pos)", "unit/test_dagcbor")
fault("cbor-depth", "core/dagcbor.c", "if (r->depth >= r->max_depth)", "if (r->depth > r->max_depth)", "unit/test_dagcbor")
fault("cbor-minus-zero", "core/dagcbor.c", "!isfinite(head.d) || (head.d == 0 && signbit(head.d))", "!isfinite(head.d)", "unit/test_dagcbor")
fault("cbor-tag", "core/dagcbor.c", "if (head->u != TAG_LINK)", "if (head->u < TAG_LINK)", "unit/test_dagcbor")
fault("cid-spare-bits", "core/cid.c", "if (nbits >= 5 || ", "if (nbits > 5 || ", "unit/test_cid")
fault("cid-truncated", "core/cid.c", "if (digest_len > n - pos)", "if (digest_len > n)", "unit/test_cid")
fault("car-truncated", "core/car.c", "if (len > car->len - pos)", "if (len > car->len)", "unit/test_car", short=True)
fault("car-hash", "core/car.c", "cid.len - sizeof(digest), sizeof(digest)) == 0", "cid.len - sizeof(digest), sizeof(digest) - 1) == 0", "unit/test_car")
fault("car-hash-function", "core/car.c", "cid.hash == ATP_CID_SHA2_256", "cid.hash > 0", "unit/test_car")
fault("car-index-full", "core/car.c", "if (index->n >= index->cap)", "if (index->n > index->cap)", "unit/test_car")
fault("car-push-limit", "core/car_push.c", "return len > ATP_CAR_PUSH_ROOM", "return len >= ATP_CAR_PUSH_ROOM", "unit/test_car_push")
fault("car-push-end", "core/car_push.c", "if (push->counted)\n", "if (push->counted && push->have > 0)\n", "unit/test_car_push")
fault("car-push-root", "core/car_push.c", "if (!atp_cid_is_node(car.root))", "if (car.root.len != ATP_CID_BLESSED_LEN)", "unit/test_car_push")
fault("car-push-codec", "core/car_push.c", "if (!atp_cid_is_blessed(block.cid.ptr, block.cid.len))", "if (block.cid.len < ATP_CID_BLESSED_LEN)", "unit/test_car_push")
fault("car-push-piece", "core/car_push.c", "if (taken == push->len)", "if (taken > 0 && push->have == 0)", "unit/test_car_push", short=True)
fault("export-record", "core/export_walk.c", "if (walk->source.has != NULL && !walk->source.has(walk->source.ctx, leaf.value))", "if (leaf.value.ptr == NULL)", "unit/test_export_walk", short=True)
fault("export-records", "core/export_walk.c", "if (walk->records >= walk->source.max_records)", "if (walk->records > walk->source.max_records)", "unit/test_export_walk")
fault("export-path", "core/export_walk.c", "above + node->len > ATP_EXPORT_PATH_MAX", "node->len > ATP_EXPORT_PATH_MAX", "unit/test_export_walk")
fault("export-did", "core/export_walk.c", "if (commit->did.len != did.len || ", "if (commit->did.len < did.len || ", "unit/test_export_walk")
fault("mst-source-blocks", "core/mst.c", "walk->source != NULL ? walk->source->blocks : walk->tree.index->n)", "walk->source != NULL ? UINT64_MAX : walk->tree.index->n)", "unit/test_export_walk")
fault("frame-op", "core/frame.c", "item.u == 1 ? ATP_FRAME_MESSAGE", "item.u >= 1 ? ATP_FRAME_MESSAGE", "unit/test_frame")
fault("frame-t", "core/frame.c", "frame->kind == ATP_FRAME_MESSAGE && frame->t.ptr == NULL", "frame->kind == ATP_FRAME_ERROR && frame->t.ptr == NULL",
      "unit/test_frame")

# --- src/core: the tree before a commit, keys, signatures, DID documents ---

fault("root-beside", "core/mst_root.c", "height <= below.layer", "height < below.layer", "unit/test_invert")
fault("root-two-stubs", "core/mst_root.c", "if (b->stub.present || (", "if ((", "unit/test_invert")
fault("root-below-stub", "core/mst_root.c", "b->open[b->depth - 1].layer <= layer", "b->open[b->depth - 1].layer < layer", "unit/test_invert")
fault("root-lift", "core/mst_root.c", "subtree->layer + 1 < layer", "subtree->layer + 2 < layer", "unit/test_invert")
fault("root-prefix", "core/mst_root.c", "memcpy(node->key + p, key.ptr + p, key.len - p);", "memcpy(node->key + p, key.ptr + p, 1);", "unit/test_invert")
fault("undo-gap", "core/mst.c", "		atp_mst_root_unknown(before);\n", "		;\n", "unit/test_invert")
fault("undo-create", "core/mst.c", "leaf.value = list[i++].before;", "leaf.value = list[i].before.ptr != NULL ? list[i].before : leaf.value, i++;",
      "unit/test_invert")
fault("invert-mismatch", "core/invert.c", "? ATP_PROVEN : ATP_MISMATCH", "? ATP_PROVEN : ATP_INCOMPLETE", "unit/test_invert", short=True)
fault("invert-prev-data", "core/invert.c", "is_root(inversion, prev_data) ? ATP_PROVEN", "prev_data.len > 0 ? ATP_PROVEN", "unit/test_invert")
fault("invert-alone", "core/invert.c", "else if (prev_data.ptr != NULL && is_root(inversion, prev_data))", "else if (prev_data.ptr != NULL)", "unit/test_invert")
fault("invert-first", "core/invert.c", "memcmp(inversion->root, atp_mst_empty, sizeof(atp_mst_empty)) == 0", "false", "unit/test_capture")
fault("invert-prev-missing", "core/commit_check.c", "(op->action == ATP_CREATE || op->prev.ptr != NULL)", "(op->action != ATP_UPDATE || op->prev.ptr != NULL)",
      "sql/data_verify")
fault("sig-high-s", "core/sig.c", "return memcmp(sig.ptr + 32, orders[curve].half, 32) <= 0", "return curve == ATP_P256 || memcmp(sig.ptr + 32, orders[curve].half, 32) <= 0",
      "unit/test_sig", "sql/data_verify", short=True)
fault("sig-range", "core/sig.c", "memcmp(sig.ptr, orders[curve].n, 32) >= 0", "memcmp(sig.ptr, orders[curve].n, 32) > 0", "unit/test_sig")
fault("sig-kept", "core/sig.c", "if (is_sig || (is_label", "if ((is_label", "unit/test_sig")
fault("sig-null", "core/sig.c", "				left_out += round == 0;\n",
      "			{\n				if (is_sig && round == 1)\n					atp_cbor_put_raw(w, (const uint8_t *) \"\\x63sig\\xf6\", 5);\n				left_out += round == 0 && !is_sig;\n			}\n", "unit/test_sig")
fault("sig-type", "core/sig.c", "(is_label && atp_span_is", "(!is_label && atp_span_is", "unit/test_sig")
fault("sig-trailing", "core/sig.c", "if (r.pos != n)", "if (r.pos > n)", "unit/test_sig")
fault("key-long", "core/multikey.c", "if (n > ATP_BASE58_MAX)", "if (n > 2 * ATP_BASE58_MAX)", "unit/test_sig")
fault("key-point", "core/multikey.c", "return key[2] == 2 || key[2] == 3 ?", "return key[2] != 0 ?", "unit/test_sig")
fault("key-parity", "core/multikey.c", "point[ATP_POINT_LONG_LEN - 1] & 1", "point[ATP_POINT_LEN - 1] & 1", "unit/test_diddoc")
fault("list-twice", "core/list_page.c", "(is_list && page->has_list) || ", "", "unit/test_list_page")
fault("list-repeated", "core/list_page.c", "*valid = !repeated && read_name", "*valid = read_name", "unit/test_list_page")
fault("list-active", "core/list_page.c", "field[ACTIVE].kind != ATP_JSON_FALSE", "field[ACTIVE].kind == ATP_JSON_TRUE", "unit/test_list_page", short=True)
fault("list-end", "core/list_page.c", "	return atp_json_next(&page->r, &item, at);\n}", "	return ATP_E_JSON_END;\n}", "unit/test_list_page")
fault("list-skipped", "core/list_page.c", "if (err != ATP_OK || valid)", "if (err != ATP_OK || item.kind == ATP_JSON_OBJECT)", "unit/test_list_page")
fault("status-did", "core/repo_status.c", "len != did.len || memcmp", "len < did.len || memcmp", "unit/test_list_page")
fault("status-end", "core/repo_status.c", "if ((err = atp_json_next(&r, &item, at)) != ATP_E_JSON_END)", "if ((err = atp_json_next(&r, &item, at)) > ATP_E_JSON_SYNTAX)", "unit/test_list_page")
fault("doc-id", "core/diddoc.c", "return is_its ? ATP_OK :", "return is_its || seen[0] ? ATP_OK :", "unit/test_diddoc")
fault("doc-twice", "core/diddoc.c", "if (which < 4 && seen[which])", "if (which < 4 && seen[which] && which > 0)", "unit/test_diddoc")
fault("doc-controller", "core/diddoc.c", " &&\n			is_did(d, &entry->field[CONTROLLER], \"\"))", ")", "unit/test_diddoc")
fault("doc-first-pds", "core/diddoc.c", "	d->pds_seen = true;\n", "", "unit/test_diddoc")
fault("doc-address", "core/host_port.c", " || atp_char_is(s[last], ATP_C_DIGIT))", ")", "unit/test_diddoc")
fault("doc-entries", "core/diddoc.c", "if (i < ATP_DIDDOC_ENTRIES && take != NULL", "if (i <= ATP_DIDDOC_ENTRIES && take != NULL", "unit/test_diddoc")
fault("json-control", "core/json.c", "if ((uint8_t) *p < ' ')", "if (*p == '\\0')", "unit/test_diddoc")
fault("json-depth", "core/json.c", "if (r->depth == ATP_JSON_DEPTH_MAX)", "if (r->depth == ATP_JSON_DEPTH_MAX - 1)", "unit/test_diddoc")
fault("json-surrogates", "core/json.c", "return *c < 0xd800 || *c > 0xdfff;", "return true;", "unit/test_diddoc")
fault("verify-cached-key", "signature.c", "if (slot->ctx == NULL || memcmp(slot->key, key, sizeof(slot->key)) != 0)", "if (slot->ctx == NULL)", "sql/data_verify")

# --- src/core: records, commits, trees, messages ---

fault("record-size", "core/record.c", "if (n > ATP_RECORD_MAX)", "if (n >= ATP_RECORD_MAX)", "unit/test_record")
fault("record-integer", "core/record.c", "item->u > INT64_MAX)", "item->u > (uint64_t) INT64_MAX + 1)", "unit/test_record")
fault("record-blob-mime", "core/record.c", "if (!map->mime)", "if (!map->mime && !map->size)", "unit/test_record")
fault("record-type", "core/record.c", "				if (!is_text)\n", "				if (!is_text && value->kind != ATP_CBOR_NULL)\n", "unit/test_record")
fault("commit-hashes", "core/car.c", "atp_car_verify(&block, sha256, ctx)) != ATP_OK", "atp_car_verify(&block, sha256, ctx)) == ATP_E_CAR_HASH_FUNCTION",
      "unit/test_repos", short=True)
fault("commit-root", "core/commit_check.c", "else if (!bytes_equal(root.ptr, root.len, msg->commit.ptr, msg->commit.len))",
      "else if (root.len != msg->commit.len)", "unit/test_repos")
fault("commit-did", "core/commit_check.c", "if (!bytes_equal(commit.did.ptr, commit.did.len, msg->did.ptr, msg->did.len))",
      "if (commit.did.len != msg->did.len)", "unit/test_repos")
fault("commit-rev", "core/commit_check.c", "if (commit.rev != msg->rev)", "if (commit.rev < msg->rev)", "unit/test_repos")
fault("commit-value", "core/commit_check.c", "if (!bytes_equal(value.ptr, value.len, op->cid.ptr, op->cid.len))", "if (value.len != op->cid.len)",
      "unit/test_repos")
fault("commit-prev", "core/commit.c", "!has_version || !has_rev || !has_prev)", "!has_version || !has_rev)", "unit/test_repos", "unit/test_car")
fault("commit-version", "core/commit.c", "value->u != 3", "value->u > 3", "unit/test_repos", "unit/test_car")
fault("mst-height", "core/mst.c", "return bits / 2;", "return (bits + 1) / 2;", "unit/test_mst")
fault("mst-order", "core/mst.c", "walk->last_len}) <= 0)", "walk->last_len}) == 0)", "unit/test_mst", "unit/test_proofs")
fault("commit-ops-order", "core/commit_check.c", "				lo = mid + 1;", "				lo = mid + 2;", "unit/test_proofs")
fault("mst-gap-before", "core/mst.c", "	walk->gap = 0;\n	walk->visits = 0;", "	walk->visits = 0;", "unit/test_mst")
fault("mst-key-prefix", "core/mst.c", "cmp : (a.len > b.len) - (a.len < b.len)", "cmp : (a.len > b.len)", "unit/test_mst")
fault("mst-gap", "core/mst.c", "walk->gap = layer + 1;", "walk->gap = layer;", "unit/test_mst", "unit/test_proofs")
fault("mst-empty", "core/mst.c", "(level->subtree.ptr == NULL) != (walk->depth == 0)", "(level->subtree.ptr != NULL && walk->depth == 0)", "unit/test_mst", "unit/test_proofs")
fault("mst-prefix", "core/mst.c", "if (entry->prefix > *len)", "if (entry->prefix > *len + 1)", "unit/test_mst")
fault("mst-layer", "core/mst.c", "walk->tree.ctx) != level->layer)", "walk->tree.ctx) < level->layer)", "unit/test_mst", "unit/test_proofs")
fault("repos-ops", "core/repos_message.c", "if (head->u > ATP_OPS_MAX)", "if (head->u >= ATP_OPS_MAX)", "unit/test_repos")
fault("repos-op-twice", "core/repos_message.c", "for (unsigned i = 0; i < msg->nops; i++)\n		{\n			if", "for (unsigned i = 1; i < msg->nops; i++)\n		{\n			if",
      "unit/test_repos")
fault("repos-update-prev", "core/repos_message.c", "op->prev.ptr == NULL && msg->prev_data.ptr != NULL", "op->prev.ptr == NULL && msg->prev_data.ptr == NULL",
      "unit/test_repos")
fault("repos-blocks", "core/repos_message.c", "if (item->str.len > limit)", "if (item->str.len >= limit)", "unit/test_repos")
fault("repos-null", "core/repos_message.c", "item.kind != ATP_CBOR_NULL || (field & required)", "item.kind != ATP_CBOR_NULL", "unit/test_repos")
fault("labels-required", "core/labels_message.c", "fault == ATP_OK && seen != L_ALL", "fault == ATP_OK && seen == 0", "unit/test_labels")
fault("labels-val", "core/labels_message.c", "label->val.len > ATP_LABEL_VAL_MAX", "label->val.len >= ATP_LABEL_VAL_MAX", "unit/test_labels")
fault("http-status", "core/http_head.c", "if (head->status < 100)", "if (head->status < 0)", "unit/test_http_head")
fault("http-last-header", "core/http_head.c", "		last = value;", "		return value;", "unit/test_http_head")
fault("retry-after", "core/http_head.c", "value.len > 9)", "value.len > 10)", "unit/test_http_head")

# --- src/net: what needs no socket ---

fault("ws-limit", "net/websocket.c", "ws->msg_len + frame->payload_length > ATP_FRAME_MAX)", "ws->msg_len + frame->payload_length > ATP_FRAME_MAX + 1)",
      "unit/test_websocket", short=True)
fault("ws-limit-fragments", "net/websocket.c", "ws->msg_len + frame->payload_length > ATP_FRAME_MAX)", "frame->payload_length > ATP_FRAME_MAX)", "unit/test_websocket")
fault("ws-control-inside", "net/websocket.c", "if (!ws->in_data_frame || chunk->data_length == 0", "if (chunk->data_length == 0", "unit/test_websocket")
fault("ws-message-again", "net/websocket.c", "	ws->msg_len = 0;\n", "	ws->msg_len = ws->msg_len > 0 ? 1 : 0;\n", "unit/test_websocket")
fault("ws-room", "net/websocket.c", "while (cap < ws->msg_len + more)", "while (cap < more)", "unit/test_websocket")
fault("ws-text", "net/websocket.c", "(is_text ? ws->receiver.text : ws->receiver.binary)", "(ws->receiver.text || ws->receiver.binary)", "unit/test_websocket")
fault("ws-close-code", "net/websocket.c", "ws->end->close_code = msg->status_code;", "", "unit/test_websocket")
fault("ws-want", "net/websocket.c", " && ws->receiver.want(ws->receiver.arg)", "", "unit/test_websocket")
fault("ws-choked", "net/websocket.c", "(ws->wslay) > REPLIES_MAX", "(ws->wslay) > 1000 * REPLIES_MAX", "unit/test_websocket")
fault("ws-after-end", "net/websocket.c", "if (ws->end->drop == ATP_DROP_NONE && (is_text ?", "if ((is_text ?", "unit/test_websocket")
fault("ws-sent", "net/websocket.c", "ws->out_pos += len;", "ws->out_pos = ws->out_len;", "unit/test_websocket")
fault("ws-ping-again", "net/websocket.c", "if (ws->out_pos == ws->out_len && !wslay_event_want_write(ws->wslay))", "if (!wslay_event_want_write(ws->wslay))", "unit/test_websocket")
fault("ws-mask", "net/websocket.c", "->random(buf, len) ? 0 : -1;", "->random(buf, len) ? 0 : 0;", "unit/test_websocket")
fault("end-first", "net/drop.c", "	if (end->drop != ATP_DROP_NONE)\n		return;\n", "", "unit/test_websocket")
fault("end-printable", "net/drop.c", "	atp_make_printable(end->why, strlen(end->why));\n", "", "unit/test_handshake", "unit/test_websocket")
fault("handshake-proof", "net/handshake.c", "return atp_http_is_websocket(answer, hs->accept) ? ATP_HANDSHAKE_DONE", "return answer->len > 0 ? ATP_HANDSHAKE_DONE", "unit/test_handshake")
fault("handshake-key", "net/handshake.c", "nonce, 16);", "nonce, 15);", "unit/test_handshake")
fault("handshake-body", "net/handshake.c", "(int) body, buf + answer->len);", "(int) body, buf);", "unit/test_handshake")
fault("handshake-reason", "net/handshake.c", "answer->reason.len < REASON_MAX ? answer->reason.len : REASON_MAX;", "answer->reason.len;", "unit/test_handshake")

# --- the clocks ---

fault("clock-of-day", "clock.c", "return (AtpTime) INSTR_TIME_GET_MICROSEC(now) +", "return 0 * (AtpTime) INSTR_TIME_GET_MICROSEC(now) + GetCurrentTimestamp() +",
      "t/146_clock")
fault("not-listened", "process/consumer_loop.c", "	c->last_data = Min(now, c->last_data + (now - c->listened));\n", "", "t/180_slow")

# --- src/types ---

fault("tid-le", "types/tid.c", "COMPARISON(le, <=)", "COMPARISON(le, <)", "sql/types_order")
fault("tid-cmp", "types/tid.c", "PG_RETURN_INT32((a > b) - (a < b));", "PG_RETURN_INT32((int64) a > (int64) b ? 1 : -(a != b));", "sql/types_order")
fault("tid-range", "types/tid.c", "less ? val <= bound : val >= bound", "less ? val < bound : val > bound", "sql/types_order", "sql/types_parts", "t/011_types_tid")
fault("tid-ceil", "types/tid.c", "PG_RETURN_TID(bound_of(PG_GETARG_TIMESTAMPTZ(0), ATP_TID_MAX_CLOCK))", "PG_RETURN_TID(bound_of(PG_GETARG_TIMESTAMPTZ(0), 0))",
      "sql/types_parts", "t/011_types_tid")
fault("tid-again", "types/tid_generate.c", "micros = Max(now, last + 1);", "micros = Max(now, last);", "t/011_types_tid")
fault("tid-restart", "types/tid_generate.c", "pg_atomic_write_u64(&shared->last, before);", "pg_atomic_write_u64(&shared->last, reserved);", "t/011_types_tid")
fault("min", "types/compare.c", "compare_args(fcinfo, compare) <= 0 ? 0 : 1", "compare_args(fcinfo, compare) >= 0 ? 0 : 1", "sql/types_order")

# --- src/data ---

fault("jsonb-stride", "data/jsonb_image.c", "entries->n % ATP_JB_STRIDE == 0", "entries->n % ATP_JB_STRIDE == 1", "sql/data_dagcbor")
fault("jsonb-minus", "data/jsonb_image.c", "while (++digits[i] == 10000)", "while (++digits[i] > 10000)", "sql/data_dagcbor")
fault("jsonb-base64", "data/jsonb_image.c", "*out++ = digits[(p[1] & 15) << 2];", "*out++ = digits[(p[1] & 7) << 2];", "sql/data_dagcbor")
fault("jsonb-nul", "data/jsonb_image.c", "if (memchr(item->str.ptr, 0, item->str.len) != NULL)", "if (item->is_key && memchr(item->str.ptr, 0, item->str.len) != NULL)",
      "sql/data_dagcbor")
fault("dagcbor-integer", "data/jsonb_read.c", "digit > UINT64_MAX % 10 + minus_one", "digit > UINT64_MAX % 10", "sql/data_dagcbor")
fault("dagcbor-link-alone", "data/jsonb_read.c", "if (pairs != 1)", "if (pairs == 0)", "sql/data_dagcbor")
fault("car-record-missing", "data/car_sql.c", "atp_car_index_find(&repo->index, leaf.value)) == NULL", "atp_car_index_find(&repo->index, repo->commit.data)) == NULL",
      "sql/data_car", "t/200_data_capture")

# --- src/net, src/config, src/stream, src/tables, src/process ---

fault("seq-order", "stream/position.c", "if (seq <= position->last && !again)", "if (seq < position->last && !again)", "unit/test_position", "t/160_seq")
fault("seq-overlap", "stream/position.c", "	position->overlap = false;\n", "	position->overlap = again;\n", "unit/test_position", "t/160_seq")
fault("gap-oldest", "stream/position.c", "if (position->outdated && position->last > 0)", "if (position->outdated && position->last >= 0)", "unit/test_position", "t/160_seq")
fault("filter-did", "stream/repos.c", "if (!atp_wants_did(decoder->settings, event->did))", "if (msg->nops > 0 && !atp_wants_did(decoder->settings, event->did))",
      "t/220_filters")
fault("filter-action", "stream/repos.c", "if (!decoder->settings->actions[op->action] ||", "if (!decoder->settings->actions[ATP_CREATE] ||", "t/220_filters")
fault("rev-equal", "tables/repo_state.c", "event->rev <= repo->rev", "event->rev < repo->rev", "t/280_two_sources")
fault("rev-newer", "tables/repo_state.c", "event->rev <= repo->rev", "event->rev >= repo->rev", "t/285_races")
fault("inactive", "tables/repo_state.c", "F-03 */\n	if (!repo->active)\n", "F-03 */\n	if (!repo->active && repo->data == NULL)\n", "t/250_accounts")
fault("status-order", "tables/repo_state.c", "return event->seq <= repo->status_seq;", "return event->seq < repo->status_seq;", "t/251_account_order")
fault("status-time", "tables/repo_state.c", "repo->has_status && status_at < repo->status_at", "repo->has_status && status_at > repo->status_at", "t/251_account_order")
fault("prev-data", "tables/repo_state.c", "bool		data_fits = known && same_bytes(event->prev_data, repo->data);", "bool		data_fits = known;", "t/280_two_sources", "t/281_chain")
fault("first-rev", "tables/repo_state.c", "event->rev < repo->first_rev && !repo->deleted", "event->rev < repo->first_rev && repo->deleted", "t/280_two_sources")
fault("first-sync", "tables/repo_state.c", "event->rev + (event->kind == ATP_REPOS_SYNC)", "event->rev", "t/280_two_sources")
fault("refill-position", "tables/repo_state.c", "if (repo->refilled && event->rev <= repo->refill_rev)", "if (repo->refilled && event->rev > repo->refill_rev)", "t/255_derived")
fault("null-believed", "tables/repo.c", "	if (isnull)\n", "	if (isnull && column == columns)\n", "t/286_foreign_shapes")
fault("type-believed", "tables/statements.c", "if (att->atttypid != expected && ", "if (att->atttypid == expected && ", "t/286_foreign_shapes")
fault("purge-newer", "tables/record.c", " AND r.rev OPERATOR(@.<=) u.purge_rev\"", "\"", "t/256_purge")
fault("erase-newer", "tables/record.c", " AND r.rev OPERATOR(@.<=) $3\"", "\"", "t/256_purge")
fault("idle-event", "tables/derived.c", "change->old_rev >= change->row->rev", "change->old_rev > change->row->rev", "t/255_derived")
fault("deleted", "tables/repo_state.c", "!event->active && is_deleted(event->status);", "!event->active && !is_deleted(event->status);", "t/250_accounts")
fault("same-data", "tables/repo_state.c", "repo->data != NULL && !same_bytes(repo->data, event->data)", "repo->data != NULL && same_bytes(repo->data, event->data)",
      "t/250_accounts")
fault("mismatch-applied", "stream/repos.c", "if (inversion->verdict == ATP_MISMATCH)", "if (inversion->verdict == ATP_MISMATCH && !inversion->known)", "t/281_chain")
fault("refuted-forgotten", "stream/repos.c", "msg->kind == ATP_REPOS_COMMIT && msg->data.ptr != NULL)", "msg->kind == ATP_REPOS_COMMIT && msg->data.ptr == NULL)", "t/281_chain")
fault("refuted-old", "tables/repo_state.c", "if (repo->active && (!repo->has_rev || event->rev > repo->rev))", "if (repo->active)", "t/281_chain")
fault("first-unseen", "tables/repo_state.c", "event->proven == ATP_OPS_PROVEN_FIRST && is_empty(repo)", "event->proven != ATP_NOT_ASKED && is_empty(repo)", "t/281_chain")
fault("incomplete-believed", "tables/repo_state.c", "(event->proven == ATP_OPS_INCOMPLETE || event->lacking)", "event->lacking", "t/281_chain")
fault("lacking-believed", "tables/repo_state.c", "(event->proven == ATP_OPS_INCOMPLETE || event->lacking)", "event->proven == ATP_OPS_INCOMPLETE", "t/281_chain")
fault("hash-believed", "tables/repo_state.c", "if (event->proven == ATP_NOT_ASKED && (", "if (event->proven == ATP_NOT_ASKED && !repo->active && (", "t/281_chain")
fault("sync-unseen", "tables/repo_state.c", "return repo->has_rev || event->proven != ATP_NOT_ASKED;", "return repo->has_rev;", "t/281_chain")
fault("audit-order", "tables/audit_rows.c", " ORDER BY r.path COLLATE", " ORDER BY r.collection, r.rkey, r.path COLLATE", "sql/audit")
fault("audit-purged", "tables/audit_rows.c", "($2 IS NULL OR r.rev", "($2 IS NULL OR true OR r.rev", "sql/audit")
fault("audit-index-purged", "tables/audit_index.c", "return isnull || rev <= x->purge_rev;", "return isnull || rev < x->purge_rev;", "sql/audit")
fault("audit-inside", "tables/audit_index.c", "== '-' || x->at.ptr[len] == '.');", "== '.');", "sql/audit")
fault("audit-put-off", "tables/audit_index.c", "		if (x->last)\n			seek(x, x->len, \"/\");\n", "", "sql/audit")
fault("audit-last-only", "tables/audit_index.c", "	while (x->noff == 0 || is_inside(x))", "	while (x->noff <= 1 || is_inside(x))", "sql/audit")
fault("audit-index-part", "tables/audit_index.c", " && RelationGetIndexPredicate(index) == NIL &&", " &&", "sql/audit")
fault("audit-index-descends", "tables/audit_index.c", "x->attnums[i] || index->rd_indoption[i] != 0 ||", "x->attnums[i] ||", "sql/audit")
fault("audit-policies", "tables/audit_index.c", "		check_enable_rls(RelationGetRelid(rel), InvalidOid, true) != RLS_ENABLED;", "		true;", "sql/audit")
fault("audit-filtered", "tables/audit.c", "(collections IS NOT NULL OR ", "(", "sql/audit")
fault("audit-no-value", "tables/audit.c", "return row->has_raw;", "return true;", "sql/audit")
fault("audit-rights", "tables/audit.c", "	found = atp_audit_look(\"SELECT FROM atproto.sub", "	atp_owner_end(caller);\n	caller = atp_owner_begin(caller.user);\n	found = atp_audit_look(\"SELECT FROM atproto.sub", "sql/audit")
fault("audit-hourly", "fetch/audit.c", "#define EVERY		USECS_PER_HOUR", "#define EVERY		0", "t/283_audits")
fault("audit-wish-lost", "fetch/audit.c", " FOR UPDATE SKIP LOCKED)", " FOR NO KEY UPDATE SKIP LOCKED)", "t/283_audits")
fault("audit-moved", "tables/audit_share.c", "p.rev OPERATOR(@.=) u.rev AND p.data", "(p.rev OPERATOR(@.=) u.rev OR true) OR p.data", "t/283_audits")
fault("audit-unkept", "fetch/audit.c", "else if (share->again || share->counts.synchronized", "else if (share->counts.repos > 0 || share->counts.synchronized", "t/283_audits_of_others")
fault("audit-slow", "fetch/audit.c", "slow_at = result == ATP_BOUNDED_DONE ? 0 : share->counts.repos;", "slow_at = share->counts.repos + 1;", "t/283_audits_of_others")
fault("bounded-rights", "fetch/bounded.c", "	caller = atp_owner_begin(owner);", "	caller = atp_owner_begin(GetUserId());", "t/283_audits_of_others")
fault("bounded-time", "fetch/bounded.c", "	enable_timeout_after(STATEMENT_TIMEOUT, ms);\n", "", "t/283_audits_of_others")
fault("bounded-grace", "fetch/bounded.c", "	enable_timeout_after(grace, ms + GRACE_MS);\n", "", "t/283_audits_of_others")
fault("repos-not-locked", "tables/repo.c", "ORDER BY r.did FOR ", "ORDER BY r.did FOR KEY SHARE OF r --", "t/285_races")
fault("cursor-from-anywhere", "tables/stream_progress.c", "AND seq IS NOT DISTINCT FROM $3\"", "AND ($3 IS NULL OR true)\"", "t/285_races")
fault("cursor-of-anybody", "tables/stream_progress.c", "AND s.created_at = $", "AND s.created_at >= '-infinity' OR s.created_at = $", "t/285_races")
fault("stop-anybody", "config/subscription.c", "WHERE name = $1 AND xmin = $3", "WHERE name = $1 AND (xmin = $3 OR true)", "t/285_races")
fault("direct-duplicate", "tables/heap.c", "		if (duplicate)\n			conflict(d);", "		if (duplicate && d->table->keyed)\n			conflict(d);", "t/295_apply_paths")
fault("direct-changed", "tables/heap.c", "&failure, &mode, &indexes) != TM_Ok)", "&failure, &mode, &indexes) == TM_Deleted)", "t/285_races")
fault("direct-triggers", "tables/heap_partitions.c", "		rel->trigdesc == NULL && rel->rd_rules == NULL;\n}\n\n/* The same", "		rel->rd_rules == NULL;\n}\n\n/* The same", "t/295_apply_paths", "t/170_triggers")
fault("partition-layout", "tables/heap_partitions.c", "	if (map != NULL)\n", "	if (map != NULL && p->routing == NULL)\n", "t/295_apply_paths")
fault("partition-routed", "tables/heap.c", "			if (d->leaves[j] == leaf)\n", "			if (d->leaves[j] != NULL)\n", "t/295_apply_paths")
fault("partition-rows", "tables/partition.c", "DELETE FROM %s WHERE %s RETURNING *", "DELETE FROM %s WHERE %s AND false RETURNING *", "t/233_partition")
fault("partition-keep", "tables/partition.c", "+ interval '1 month' <= now()", "<= now()", "t/233_partition")
fault("partition-links", "tables/partition.c", "			drop_links(w, part);\n", "			if (part == NULL)\n				drop_links(w, part);\n", "t/233_partition")
fault("partition-lock-views", "tables/partition.c", "\t\tatp_swap_lock_views(relid_of(w, cut->table));\n", "\t\t(void) cut;\n", "t/233_partition")
fault("partition-formats", "tables/partition.c", "\tset_formats();\n", "\tif (0)\n\t\tset_formats();\n", "t/233_partition")
fault("partition-rights", "tables/partition_swap.c", "a.grantee <> c.relowner", "false", "t/233_partition")
fault("link-rows-raw", "tables/link_rows.c", "change->row, change->old_value, change->old_raw, true);", "change->row, change->old_value, NULL, true);", "t/359_links_hostile")
fault("link-rows-stay", "tables/link_rows.c", "put_link(!is ? gone : was ? kept : come, link);", "put_link(was ? gone : come, link);", "t/359_links_hostile")
fault("link-rows-path", "tables/link_rows.c", "(filter->path == NULL || atp_span_is(path, filter->path))", "(filter->path == NULL || path.len > 0)", "t/358_links")
fault("link-rows-bring", "tables/link_rows.c", "l->nnew == ATP_LINK_SOURCES_NEW)", "l->nnew == 2 * ATP_LINK_SOURCES_NEW)", "t/359_links_hostile")
fault("link-ids-rollback", "tables/link_ids.c", "event == SUBXACT_EVENT_ABORT_SUB", "false", "t/358_links")
fault("link-ids-abort", "tables/link_ids.c", "event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE", "false", "t/358_links")
fault("link-rebuild-early", "config/cursor.c", "digest <> (SELECT settings", "digest <> (SELECT digest", "t/358_links")
fault("temporary-first", "config/owner.h", "\"pg_catalog, pg_temp\"", "\"\"", "t/262_hostile_owner")
fault("partition-views", "tables/partition_swap.c", "\trun_all(swap->views);\n", "", "t/233_partition")
fault("partition-grants", "tables/partition_swap.c", "\trun_all(swap->rest);\n", "", "t/233_partition")
fault("batch-key-twice", "tables/record_queue.c", "	if (!atp_keyset_add(r->keys, key))\n", "	if (!atp_keyset_add(r->keys, key) && row->action == ATP_CREATE)\n", "t/295_apply_paths")
fault("erase-before-rows", "tables/repos_sink.c", "			atp_records_flush(records);\n			erase_repo", "			erase_repo", "t/295_apply_paths")
fault("letters-room", "tables/letter.c", "if (l->all.letters >= settings->max_letters ||", "if (l->all.letters > settings->max_letters ||", "t/240_dead_letters")
fault("label-newer", "tables/label.c", "(excluded.cts, excluded.seq) > (l.cts, l.seq)", "(excluded.cts, excluded.seq) < (l.cts, l.seq)", "t/200_labels")
fault("label-equal-time", "tables/label.c", "(excluded.cts, excluded.seq) > (l.cts, l.seq)", "excluded.cts > l.cts", "t/200_labels")
fault("worker-again", "process/shard_worker.c", "message->seq > w->cursor)", "message->seq >= w->cursor)", "t/122_workers", "t/121_kill_workers")
fault("worker-gaps", "process/shard_worker.c", "	if (w->shard != 0)\n		return;\n", "	if (w->shard < 0)\n		return;\n", "t/122_workers")
fault("ring-place", "process/ring.c", "return &ring->batch[done % ATP_RING_BATCHES];", "return &ring->batch[(done + 1) % ATP_RING_BATCHES];", "t/122_workers")
fault("ring-finished", "process/ring.c", "worker[i].done) <= number)", "worker[i].done) < number)", "t/122_workers", "t/121_kill_workers")
fault("status-of-others", "process/status.c", "if (!all && !has_privs_of_role(GetUserId(), slot->owner))", "if (!all && slot->owner == InvalidOid)", "t/260_permissions")
fault("spi-rewritten", "config/spi.c", "if (rc == SPI_OK_REWRITTEN)", "if (rc == SPI_OK_REWRITTEN && nargs == 0)", "t/286_foreign_shapes")
fault("spi-type", "config/spi.c", "if (!IsBinaryCoercible(given, type))", "if (!OidIsValid(given))", "t/286_foreign_shapes")
fault("spi-null", "config/spi.c", "	if (isnull)\n		unexpected_null", "	if (isnull && type == InvalidOid)\n		unexpected_null", "t/286_foreign_shapes")
fault("spi-null-text", "config/spi.c", "if (text == NULL)", "if (row.tuple == NULL)", "t/286_foreign_shapes")
fault("acting-rights", "config/owner.c", "	SetUserIdAndSecContext(owner, caller.security | SECURITY_RESTRICTED_OPERATION);\n",
      "	SetUserIdAndSecContext(caller.user, caller.security | SECURITY_RESTRICTED_OPERATION);\n", "t/260_permissions")
fault("acting-settings", "config/owner.c", "	AtEOXact_GUC(false, caller.nest);\n", "	AtEOXact_GUC(true, caller.nest);\n", "t/241_retry")
fault("acting-later", "config/owner.c", "	atp_run(\"SET CONSTRAINTS ALL IMMEDIATE\", ATP_NO_ARGS);\n", "", "t/260_permissions")
fault("owner-lent", "config/owner.c", "if (!has_privs_of_role(GetUserId(), role))", "if (!OidIsValid(role))", "t/260_permissions")
fault("gap-not-locked", "process/control.c", "ORDER BY shard FOR NO KEY UPDATE\"", "ORDER BY shard\"", "t/287_races_processes")
fault("letter-newer", "tables/record.c", "rev >= row->rev", "rev > row->rev", "t/286_races_letters")
fault("purged-not-locked", "tables/repo.c", "purge_rev IS NOT NULL ORDER BY did FOR NO KEY UPDATE", "purge_rev IS NOT NULL ORDER BY did", "t/288_races_purge")
fault("gap-of-set-cursor", "process/control.c", "HAVING min(seq) > 0 AND ($2 > min(seq) OR $2 IS NULL)", "HAVING min(seq) > 0 AND $2 > min(seq)", "t/190_close_codes_and_gaps")
fault("letters-share-bytes", "tables/letter.c", "settings->max_letter_bytes / SHARE", "settings->max_letter_bytes", "t/242_letters_room")
fault("again-one-record", "tables/again.c", "if (again->path.len > 0 && !same_path(again->path, name))", "if (again->path.len > 0 && name.len > 0 && !same_path(again->path, name))", "t/241_retry")
fault("again-whole-refused", "tables/again.c", " || letter->path.len == 0)", ")", "t/241_retry")
fault("again-obsolete", "tables/again.c", "== 0 ? ATP_OUTCOME_APPLIED : ATP_OUTCOME_OBSOLETE", ">= 0 ? ATP_OUTCOME_APPLIED : ATP_OUTCOME_OBSOLETE", "t/241_retry")
fault("again-first-error", "tables/again.c", "		if (error == NULL)\n", "		if (refused != NULL)\n", "t/241_retry")
fault("refill-deleted", "tables/refill.c", " AND (active OR status IS DISTINCT FROM 'deleted')", "", "t/255_derived")
fault("refill-not-locked", "tables/refill.c", "LOCK TABLE #.repo IN SHARE ROW EXCLUSIVE MODE", "LOCK TABLE #.repo IN ROW SHARE MODE", "t/255_derived")
fault("refill-labels", "tables/refill.c", "if (!sub->source->by_repo)", "if (sub->source == NULL)", "t/255_derived")
fault("owner-of-others", "config/owner.c", "((Form_pg_shdepend) GETSTRUCT(tuple))->refobjid == role;", "OidIsValid(role);", "t/261_owners")
fault("owner-counted-alone", "config/owner.c", "	LockSharedObject(AuthIdRelationId, role, 0, ShareUpdateExclusiveLock);\n", "", "t/261_owners")
fault("refill-no-events", "tables/refill.c", "!sub->settings.keep_records && sub->settings.events != ATP_EVENTS_NONE", "!sub->settings.keep_records", "t/255_derived")

# --- claims, layouts, crashes ---

fault("claim-of-database", "config/claim.c", "lock->locktag.locktag_field1 != database ||", "(ntags > 0 && lock->locktag.locktag_field1 != database) ||",
      "t/133_managers")
fault("claim-after-abort", "config/claim.c", "(event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)", "event != XACT_EVENT_COMMIT", "t/132_claims")
fault("claim-not-guarded", "config/claim.c", "	if (!is_holder)\n		return;\n", "	if (!in_transaction)\n		return;\n", "t/132_claims")
fault("claim-resumed", "process/consumer.c", "proc_exit(again || wanted_again(c) ? 1 : 0);", "proc_exit(again || (c->managed && wanted_again(c)) ? 1 : 0);", "t/287_races_processes")
fault("claim-running", "process/control.c", "	running = atp_is_running(sub->name);\n", "	if ((running = atp_is_running(sub->name)))\n		return;\n", "t/132_claims")
fault("database-gone", "process/consumer.c", "	if (!start.managed)\n		atp_process_ends", "	if (start.managed)\n		atp_process_ends", "t/132_claims")
fault("layout-not-awaited", "process/consumer.c", "while (atp_has_workers(c->name))", "while (c->sub != NULL && atp_has_workers(c->name))", "t/123_layouts")
fault("layout-of-cursor", "tables/stream_progress.c", "\" AND layout = $10\"", "\" AND $10 IS NOT NULL\"", "t/123_layouts")
fault("layout-too-many", "config/cursor.c", "shards.n > 0 && shards.n <= ATP_WORKERS_MAX;", "shards.n > 0;", "t/123_layouts")
fault("layout-missing", "config/cursor.c", "atp_get_int4(row, \"shard\") == i &&", "atp_get_int4(row, \"shard\") <= i + 1 &&", "t/123_layouts")
fault("layout-mixed", "config/cursor.c", "(i == 0 || layout == cursor.layout);", "layout >= 0;", "t/123_layouts")
fault("claim-memory", "process/manager.c", "		MemoryContextReset(loop_cxt);\n", "", "t/133_managers")
fault("crash-file", "process/crash.c", "if (fscanf(file, \"%d\", &crashes) != 1 || crashes < 1)", "if (fscanf(file, \"%d\", &crashes) == 0)", "t/124_crash_loop")
fault("crash-longest", "process/crash.c", "return Min(delay, MAX_DELAY_MS);", "return delay;", "t/124_crash_loop")

# --- what is said, and to whom ---

fault("fault-text", "tables/fault.c", "pg_mbcliplen(message, strlen(message), TEXT_MAX)", "Min(strlen(message), TEXT_MAX)", "t/241_retry")
fault("manager-fails", "process/control.c", "if (atp_manager_number() >= 0)", "if (atp_manager_number() == 0)", "t/133_managers")
fault("error-at-end", "process/process.c", "	emit_log_hook = report_end;\n", "	if (report == NULL)\n		emit_log_hook = report_end;\n", "t/133_managers")
fault("error-wanted", "process/process.c", "ERRCODE_TO_CATEGORY(edata->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION ||", "", "t/133_managers")
fault("batch-of-none", "process/consumer_batch.c", "else if (batch->nevents > 0 || batch->letters != NIL)", "else if (batch->nevents >= 0)", "t/133_managers")
fault("tables-of-others", "tables/statements.c", "		if ((*table)->use & uses)\n			check_privileges", "		if (uses)\n			check_privileges", "t/171_lifecycle")
fault("column-not-added", "tables/table.c", " || !atp_column_can_be_added(column))", " || atp_column_can_be_added(column))", "sql/tables")
fault("gone-untold", "tables/record.c", "if (atp_derived_uses(a->sub) == 0)", "if (atp_derived_uses(a->sub) >= 0)", "t/255_derived")
fault("gone-without-values", "tables/record.c", ".old_value = null[5] ?", ".old_value = !null[5] ?", "t/255_derived")
fault("hand-updated", "tables/record_event.c", "atp_execute(set, &statements[TAKE_EVENTS], take, NULL) < n)", "atp_execute(set, &statements[TAKE_EVENTS], take, NULL) > n)", "t/255_derived")
fault("hand-moved", "tables/record_event.c", "if (!follow_rows(relids, ctids, n))", "if (!follow_rows(relids, ctids, n) && n == 0)", "t/255_derived")
fault("message-again", "tables/message.c", "\" ON CONFLICT (subscription, endpoint, seq) DO NOTHING\"", "\"\"", "t/210_messages")
fault("repos-lock-keys", "tables/repo.c", "ORDER BY r.did FOR NO KEY UPDATE OF r", "ORDER BY r.did FOR UPDATE OF r", "t/286_foreign_shapes")

# --- owners ---

fault("owner-null", "config/subscription_check.c", "if (owner.isnull)", "if (owner.isnull && owner.value != 0)",
      "t/261_owners")
fault("owner-before", "config/owner.c", "	settle(rel, column, before);\n", "", "t/261_owners")
fault("owner-after", "config/owner.c", "	if (OidIsValid(after) && after > before)\n		settle(rel, column, after);\n", "", "t/261_owners")
fault("owner-truncate", "config/owner.c", "		deleteSharedDependencyRecordsFor(RelationRelationId, RelationGetRelid(rel), column);\n", "", "t/261_owners")
fault("owner-not-noted", "process/consumer_settings.c", "if (changed && OidIsValid(sub->owner))", "if (!changed && OidIsValid(sub->owner))", "t/261_owners")

# --- calls by hand ---

fault("range-modifier", "types/uri_support.c", "		c->consttypmod = -1;	", "		(void) 0;	", "sql/types_inside")
fault("modifier-believed", "types/glue.c", "		if (known == typmod)\n			return typmod;\n", "		if (known <= typmod)\n			return typmod;\n", "t/012_boundary_values", "t/013_sqlsmith")

# --- identities ---

STATES, WISHES = "t/330_identities", "t/334_identity_wishes"
fault("didweb-tld", "core/did_web.c", "if (!atp_handle_tld_allowed(s + skip, n - skip))", "if (n == 0)", "unit/test_did", short=True)
fault("didweb-port", "core/did_web.c", "n > name + 8 || s[name] != '%'", "n > name + 9 || s[name] != '%'", "unit/test_did")
fault("didweb-plc", "core/did_web.c", "return atp_did_is_plc(s, n) ? ATP_OK : ATP_E_DID_PLC;", "return ATP_OK;", "unit/test_did")
fault("multikey-text", "core/multikey.c", "rest = rest << 8 | number[j];", "rest = rest << 8 | key[j];", "sql/identity")
fault("wish-limit", "identity/wish.c", "if (n > atp_queue_limit - there)", "if (there > atp_queue_limit)", WISHES)
fault("wish-stale", "identity/wish.c", "$2 OR COALESCE(i.stale, false)", "$2", "sql/identity")
fault("identity-due", "identity/identity.c", "return identity->stale || identity->next_try <= now ||", "return identity->next_try <= now ||", "sql/identity")
fault("identity-events", "tables/judge.c", "	tell_identities(a);\n", "	(void) tell_identities;\n", WISHES)
fault("identity-minute", "fetch/identity_queue.c", "		until = least;\n", "		until = DT_NOBEGIN;\n", STATES)
fault("identity-window", "fetch/identity_queue.c", "w.next_try <= $2\"", "w.wished_at <= $2\"", WISHES)
fault("identity-failed", "fetch/identity_queue.c", "if (identity->stale || unanswered)", "if (identity->stale)", STATES)
fault("identity-clock", "fetch/identity_queue.c", "if (identity->asked_at > now || wish->wished_at > now + ATP_CLOCK_BACK_US)", "if (false)", WISHES)
fault("identity-clock-soon", "fetch/identity_queue.c", "wish->wished_at > now + ATP_CLOCK_BACK_US)", "wish->wished_at > now)", WISHES)
fault("identity-old", "fetch/identity_queue.c", " AND NOT EXISTS (SELECT FROM atproto.identity_wish w WHERE w.did OPERATOR(@.=) t.did)", "", WISHES)
fault("identity-shares", "fetch/identity_queue.c", "c.failed, w.n * (c.priority + 1), c.priority", "c.failed, c.priority", WISHES)
fault("identity-once", "fetch/identity.c", "list_has(&waiting[k], did) || list_has(&asked[k], did)", "list_has(&waiting[k], did)", STATES)
fault("identity-site", "fetch/identity.c", "#define SITE_PARALLEL	4", "#define SITE_PARALLEL	400", WISHES)
fault("identity-clock-back", "fetch/identity.c", "return before - clock_offset > ATP_CLOCK_BACK_US;", "return before < clock_offset - PG_INT64_MAX;", WISHES)
fault("identity-two-answers", "fetch/identity_answer.c", "if (apart_s > 0 && !atp", "if (apart_s < 0 && !atp", STATES)
fault("identity-hour", "fetch/identity_answer.c", "asked.web ? HOUR_S : minute", "asked.web ? 0 : minute", STATES)
fault("identity-too-new", "fetch/identity_answer.c", "	identity->tries = 0;\n	identity->denied_at = now;\n", "	identity->tries = 0;\n", STATES)
fault("identity-dead", "fetch/identity_answer.c", "identity->state = ATP_IDENTITY_UNREACHABLE;", "(void) 0;", STATES)
fault("identity-busy", "fetch/identity_answer.c", "		case 429:\n", "", "t/289_full_outage")
fault("identity-port", "fetch/identity_answer.c", "if (doc->pds_port == standard)", "if (doc->pds_port >= standard)", STATES)

# --- lists ---

fault("list-cursor", "fetch/list_rows.c", "atp_text_arg(more ? page->cursor : NULL)", "atp_text_arg(more ? page->cursor : listing->cursor)", "t/345_lists")
fault("list-inactive", "fetch/list_entries.c", "if (!entry->active)", "if (entry->name_len == 0)", "t/345_lists")
fault("list-stored", "fetch/list_rows.c", "u.rev OPERATOR(@.>) r.rev))", "u.rev OPERATOR(@.<=) r.rev))", "t/345_lists")
fault("list-same-page", "fetch/list_rows.c", " AND e.cursor IS NOT DISTINCT FROM $3", " AND $3::text IS NOT DISTINCT FROM $3", "t/345_lists")
fault("list-fruitless", "fetch/list_entries.c", "if (rank <= *reg)", "if (rank < *reg)", "t/345_lists")
fault("list-busy", "net/http.c", "ATP_HTTP_SETTINGS || answer->status == 429 || ", "ATP_HTTP_SETTINGS || ", "t/345_lists", "t/346_repos")
fault("list-anew", "fetch/list.c", "? ATP_LIST_ANEW : ATP_LIST_AGAIN", "? ATP_LIST_AGAIN : ATP_LIST_AGAIN", "t/345_lists")
fault("list-owner", "fetch/list_rows.c", "caller = atp_owner_begin(sub->owner);", "caller = atp_as_table_owner(\"subscription\");", "t/345_lists")
fault("list-host-elsewhere", "fetch/list_hosts.c", ", \"here\"))\n			continue;", ", \"here\"))\n			account.has_rev = true;", "t/345_lists_of_hosts")
fault("list-host-newer", "fetch/list_hosts.c", "account.has_rev = false;", "account.has_rev &= true;", "t/345_lists_of_hosts")
fault("list-host-gone", "fetch/list_hosts.c", "named_at IS DISTINCT FROM $2 FOR", "named_at > $2 FOR", "t/345_lists_of_hosts")
fault("list-host-room", "fetch/list_hosts.c", "Max(fetch_hosts - seen, 0)", "fetch_hosts + seen", "t/345_lists_of_hosts")
fault("list-host-banned", "fetch/list_entries.c", "has_status(entry, \"banned\") || ", "", "t/345_lists_of_hosts")
fault("list-host-refused", "fetch/list_entries.c", "return atp_http_refused(url) == NULL ? ", "return url != NULL ? ", "t/345_lists_of_hosts")
fault("list-host-rests", "fetch/list.c", "wait_ms > LOOK_MS && all_places_are_taken()", "wait_ms > LOOK_MS && nreadings > LISTS_MAX", "t/345_lists_of_hosts")
fault("list-turn", "fetch/list.c", "if (!all_places_are_taken() || ", "if (nreadings <= LISTS_MAX || ", "t/345_lists_of_hosts")
fault("list-shares", "fetch/list_rows.c", "PARTITION BY subscription ORDER BY", "PARTITION BY true ORDER BY", "t/345_lists_of_hosts")
fault("list-host-failed", "fetch/await_backfill.c", "e.finished_at IS NOT NULL OR \" HOST_FAILED \") AS ended", "e.finished_at IS NOT NULL) AS ended", "t/345_lists_of_hosts")
fault("list-recheck", "fetch/list_rows.c", "is_recheck ? STORED_OLD : NOT_STORED", "NOT_STORED", "t/345_lists")
fault("list-recheck-once", "fetch/list_rows.c", " AND source <> '\" ATP_LIST_RECHECK \"' END", " END", "t/345_lists")
fault("list-many-failed", "tables/job.c", "are_queued(atp_fetch_queue, \"tries = 0\"", "are_queued(atp_fetch_queue, \"tries < 99\"", "t/345_lists")
fault("list-very-many", "tables/job.c", "(int64) MANY_FAILED * atp_fetch_queue", "(int64) 1000 * atp_fetch_queue", "t/345_lists")
fault("list-host-share", "fetch/list_rows.c", ".listed_by = atp_list_is_of_host(listing) ?", ".listed_by = atp_list_is_of_hosts(listing) ?", "t/345_lists_of_hosts")
fault("list-kept", "fetch/list_rows.c", "FOR KEY SHARE OF s SKIP LOCKED FOR UPDATE", "FOR UPDATE", "t/345_lists")
fault("list-unsure", "fetch/list_rows.c", "r.rev IS NOT NULL AND u.rev IS NULL", "r.rev IS NOT NULL AND u.rev IS NOT NULL", "t/345_lists")
fault("list-revs-many", "fetch/list_rows.c", "if (!many || ", "if (many || !many || ", "t/345_lists")
fault("status-rev-newer", "fetch/status.c", "AND active AND rev OPERATOR(@.<) $2", "AND active AND rev OPERATOR(@.<=) $2", "t/345_lists")
fault("status-rev-active", "fetch/status.c", "if (!asking->active || !asking->has_rev)", "if (!asking->has_rev)", "t/345_lists")
fault("status-rev-replaced", "tables/status_wish.c", "excluded.why = 'deleted' OR w.why = 'rev'", "excluded.why = 'deleted'", "t/289_status")
fault("list-many", "tables/job.c", "bool		many = found.n > 0;", "bool		many = found.n > 1;", "t/345_lists")

# --- how often repositories are fetched ---

fault("limit-hour", "fetch/repo_limits.h", "greatest(f.at[5] +", "greatest(f.at[6] +", "t/348_repo_limits")
fault("limit-day", "fetch/repo_limits.h", "f.at[20] +", "f.at[19] +", "t/348_repo_limits")
fault("limit-asked-for", "fetch/repo_rows.c", "j.priority > 0 AND COALESCE(", "j.priority >= 0 AND COALESCE(", "t/348_repo_limits")
fault("limit-again", "fetch/repo_limits.c", "WHERE state = 'throttled' AND next_try <= now()", "WHERE state = 'throttled' AND next_try = 'infinity'", "t/348_repo_limits")
fault("limit-storm", "fetch/repo_limits.c", "#define STORM_JOBS		1000", "#define STORM_JOBS		999", "t/348_repo_limits")
fault("limit-storm-over", "fetch/repo_limits.c", "greatest(now() - \" STORM_WITHIN \", s.until)", "(now() - \" STORM_WITHIN \")", "t/348_repo_limits")
fault("limit-storm-asked-for", "fetch/repo_rows.c", "(j.priority = 0 OR NOT $1)", "(j.priority <= 1 OR NOT $1)", "t/348_repo_limits")
fault("limit-reset", "fetch/repo_rows.c", "tries = tries + 1, next_try = now() + \" BACK_OFF(\"interval \" SOON) \",", "next_try = now(),", "t/346_repos")

# --- owners ---

OWNERS = "t/356_repo_owners"
fault("owner-rests", "fetch/patience.c", "if (owners[i].until > now)", "if (owners[i].until > now + 1000000000000)", OWNERS)
fault("owner-locked-job", "fetch/repo_rows.c", "atp_run(atp_identity_sql(\"DELETE FROM atproto.repo_job\" OF_FREE_JOB)", "atp_run(atp_identity_sql(\"DELETE FROM atproto.repo_job\" OF_JOB)", OWNERS)
fault("owner-changed", "config/subscription.c", "if (a->ncollections != b->ncollections || a->ndids", "if (a->ndids", OWNERS)
fault("owner-unchanged", "fetch/repo_transfer.c", "(sub->version == t->sub->version || atp_subscription_same_rows(sub, t->sub))", "sub->version == t->sub->version", OWNERS)
fault("owner-filler", "tables/filler.c", "ORDER BY backfill = 'none', name", "ORDER BY name", OWNERS)
fault("owner-none", "fetch/repo_rows.c", "s.name = j.subscription AND s.backfill <> 'none'", "s.name = j.subscription", OWNERS)
fault("owner-heir", "tables/job_heir.c", "CROSS JOIN o WHERE k.subscription = $1", "CROSS JOIN o WHERE false AND k.subscription = $1", OWNERS)
fault("owner-heir-dids", "tables/job_heir.c", "AND o.dids IS NULL", "", OWNERS)
fault("owner-leaves", "tables/job_heir.c", "hand_over(old, true);", "hand_over(old, false);", OWNERS)
fault("await-host", "fetch/await_backfill.c", "WHERE h.failures >= 5 AND", "WHERE h.failures >= 500 AND", "t/349_await")

# --- what a server says instead of a repository ---

REFUSALS = "t/348_repo_refusals"
fault("refusal-moved", "fetch/repo_transfer.c", "		fault = ATP_REPO_DOUBTED;", "		fault = ATP_REPO_FAULT;", REFUSALS)
fault("refusal-source", "fetch/repo_rows.h", "\" WHEN \" ATP_REPO_SOURCE \" <> 'pds' THEN \" ATP_REPO_SOURCE", "\" WHEN false THEN \" ATP_REPO_SOURCE", REFUSALS)
fault("refusal-signed", "fetch/repo_transfer.c", "not signed by the account's key\", ATP_REPO_DOUBTED)", "not signed by the account's key\", ATP_REPO_FAULT)", REFUSALS)
fault("refusal-same", "fetch/repo_rows.c", "CASE WHEN j.doubted = \" KNOWN", "CASE WHEN j.doubted <> \" KNOWN", REFUSALS)
fault("refusal-since", "tables/repo_export.c", "if (now.has_at != then->has_at || now.at != then->at || now.has_seq != then->has_seq || now.seq != then->seq)", "if (now.at < then->at)", REFUSALS)
fault("repo-hosts", "fetch/repo.c", "busy[nbusy++] = host;", "busy[nbusy] = host;", "t/346_repos")
fault("refusal-running", "fetch/repo.c", "if (!atp_repo_job_is_running(&t->job))", "if (ngone > ngone + 1)", REFUSALS)
fault("refusal-queued", "tables/heal.c", "atp_jobs_suspend(target, inactive, ninactive);", "atp_jobs_suspend(target, inactive, 0);", REFUSALS)

# --- requests to other hosts ---

fault("net-list", "core/address.c", "{{true, {169, 254}}, 16}", "{{true, {169, 254}}, 17}", "unit/test_address", short=True)
fault("net-mapped", "core/address.c", "memcmp(bytes, mapped, 12) == 0 || ", "memcmp(bytes, mapped, 12) < 0 || ", "unit/test_address")
fault("net-global", "core/address.c", "if (!address->v4 && !atp_address_in(address, &global, 3))", "if (!address->v4 && !atp_address_in(address, &global, 1))", "unit/test_address")
fault("net-zero", "core/address.c", "|| (*begin == '0' && s - begin > 1)", "", "unit/test_address")
fault("allow-port", "core/allow.c", "same(entry.host, host) && entry.port == port)", "same(entry.host, host))", "unit/test_address")
fault("allow-bits", "core/allow.c", "if (entry->net.bytes[bit / 8] & (0x80 >> bit % 8))", "if (entry->net.bytes[bit / 8] == 255)", "unit/test_address")
fault("inflate-whole", "net/inflate.c", "		z->inside = true;\n", "", "unit/test_inflate", short=True)
fault("inflate-member", "net/inflate.c", "			(void) inflateReset(&z->stream);\n", "			break;\n", "unit/test_inflate")
fault("host-trial", "fetch/manners.c", "return m->known && m->failures < FAILURES_MAX ?", "return m->known ?", "unit/test_manners", "t/332_fetcher_hosts", short=True)
fault("host-known", "fetch/manners.c", "return m->known && m->failures < FAILURES_MAX ?", "return m->failures < FAILURES_MAX ?", "unit/test_manners")
fault("host-one-refusal", "fetch/manners.c", "			if (!resting)\n				rest(m, doubled(", "			if (true)\n				rest(m, doubled(", "unit/test_manners")
fault("host-at-once", "fetch/manners.c", "wait_s < 0 ? REFUSED_S : REFUSED_LEAST_S", "wait_s < 0 ? REFUSED_S : 0", "unit/test_manners")
fault("host-rest-most", "fetch/manners.c", "now + (seconds < REST_MAX_S ? seconds : REST_MAX_S) * SECOND;\n\n	if (until", "now + seconds * SECOND;\n\n	if (until", "unit/test_manners")
fault("host-late-failure", "fetch/manners.c", "if (resting || ++m->failures < FAILURES_MAX)", "if (++m->failures < FAILURES_MAX)", "unit/test_manners")
fault("host-refusal-fails", "fetch/host.c", "				return ATP_MANNER_REFUSED;\n", "				return ATP_MANNER_FAILED;\n", "t/332_fetcher_hosts")
fault("host-many-names", "fetch/host.c", "unknown >= Max(fetch_concurrency / 4, 1)", "unknown >= fetch_concurrency", "t/332_fetcher_hosts")
fault("host-forgotten", "fetch/host_table.c", "	host->manners.rest_until = atp_now() + ", "	host->manners.rest_until = 0 * ", "t/332_fetcher_hosts")
fault("host-locked", "fetch/host_table.c", "		if (is_locked(host))\n", "		if (false && is_locked(host))\n", "t/332_fetcher_hosts")
fault("http-address", "net/http_hear.c", "!(http->url.named || atp_http_address_allowed(&address->addr))", "!(http->url.named || address->addrlen > 0)", "t/331_fetcher")
fault("http-address-before", "net/http_hear.c",
      "static curl_socket_t\non_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)\n{\n	AtpHttp    *http = arg;\n	curl_socket_t fd;\n\n"
      "	http->looking_up = 0;\n	if (purpose != CURLSOCKTYPE_IPCXN || !(http->url.named || atp_http_address_allowed(&address->addr)))",
      "#include <netdb.h>\nstatic curl_socket_t\non_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)\n{\n	AtpHttp    *http = arg;\n	curl_socket_t fd;\n"
      "	struct addrinfo *before;\n\n	http->looking_up = 0;\n	if (purpose != CURLSOCKTYPE_IPCXN || !(http->url.named ||\n"
      "		(getaddrinfo(http->url.host, NULL, NULL, &before) == 0 && atp_http_address_allowed(before->ai_addr))))", "t/331_fetcher")
fault("http-settings", "net/http.c", "atp_http_end(http, ATP_HTTP_SETTINGS, why);", "atp_http_end(http, ATP_HTTP_TLS, why);", "t/331_fetcher")
fault("http-headers", "net/http_hear.c", "if (http->header_bytes > ATP_HTTP_HEADERS_MAX)", "if (http->header_bytes < 0)", "t/331_fetcher")
fault("http-body", "net/http_body.c", "			result = ATP_BODY_FULL;\n", "", "t/331_fetcher")
fault("http-stream", "net/http_body.c", "		*result = ATP_BODY_FULL;\n", "		*result = ATP_BODY_TAKEN;\n", "t/331_fetcher")
fault("http-packed", "net/http_body.c", "	body->raw_from = body->raw_to - n;\n	body->len += got;\n",
      "	body->len += body->raw_to - n - body->raw_from;\n	body->raw_from = body->raw_to - n;\n", "t/331_fetcher")
fault("http-redirect-unjudged", "net/http.c", "	if (why == NULL && http->url.tls", "	if (to.url != NULL)\n		why = NULL;\n	if (why == NULL && http->url.tls", "t/331_fetcher")
fault("http-downgrade", "net/http.c", "if (why == NULL && http->url.tls && !to.tls)", "if (why == NULL && !http->url.tls && !to.tls)", "t/331_fetcher")
fault("http-redirects", "net/http.c", "if (http->redirected++ == http->request.redirects)", "if (http->redirected++ > http->request.redirects)", "t/331_fetcher")
fault("http-names", "net/http_multi.c", "		if (now >= until)\n", "		if (until < 0)\n", "t/331_fetcher")
fault("http-port", "net/http_policy.c", "if (strcmp(port, \"443\") != 0 && !fetch_any_port)", "if (port[0] == '\\0' && !fetch_any_port)", "t/331_fetcher")
fault("http-proxy", "net/http_curl.c", "	curl_easy_setopt(e, CURLOPT_PROXY, atp_fetch_proxy);\n", "", "t/331_fetcher")

# --- handles ---

T = "t/332_handles"
fault("handle-several", "core/handle_txt.c", "		txt->found = ATP_HANDLE_SEVERAL;", "		(void) 0;", "unit/test_handle_txt", short=True)
fault("handle-join", "core/handle_txt.c", "	if (first)\n		end_record(txt);", "	end_record(txt);", "unit/test_handle_txt")
fault("handle-over", "core/handle_txt.c", "		txt->record_len = sizeof(txt->record) + 1;\n", "", "unit/test_handle_txt")
fault("handle-file", "core/handle_txt.c", "	if (n > ATP_HANDLE_FILE_MAX)\n		n = ATP_HANDLE_FILE_MAX;\n", "", "unit/test_handle_txt")
fault("handle-both-ways", "fetch/handle.c", "memcmp(did, check->did, n) == 0)", "memcmp(did, check->did, 8) == 0)", T)
fault("handle-records-win", "fetch/handle.c", "check->phase == FILE_WAITS && !records_decide(check))", "check->phase == FILE_WAITS && (!records_decide(check) || check->phase == DONE))", T)
fault("handle-silent", "net/dns.c", "it->done != NULL && atp_remaining(now, it->begun, ATP_DNS_MS) == 0", "false", T)
fault("handle-no-dns", "fetch/handle.c", "len > 0 && n > len && pg_strncasecmp", "len > n && pg_strncasecmp", T)
fault("handle-domain", "fetch/handle.c", "	if (!may_be_asked(check->handle))", "	if (check->handle[0] == '.' && !may_be_asked(check->handle))", T)
fault("handle-stale-if-error", "fetch/handle.c", "				state = ATP_HANDLE_VALID;", "				(void) 0;", T)
fault("handle-not-for-ever", "fetch/handle.c", "now - row->checked_at < ATP_IDENTITY_DEAD_S * USECS_PER_SEC", "now > row->checked_at", T)
fault("handle-records-failed", "fetch/handle.c", "!is_final(answer) || check->records_failed)", "!is_final(answer))", T)
fault("handle-doubled", "fetch/handle.c", "		s *= 2;", "		s += 0;", T)
fault("handle-other", "identity/identity.c", "THEN i.handle_state ELSE 'unknown' END", "THEN i.handle_state ELSE i.handle_state END", T)

# --- what accounts' own servers say of their status ---

T = "t/289_status"
fault("status-signed", "tables/judge.c", "|| !atp_identity_is_usable(who, s->now) || !atp_signed_fits(event->signature, who->key))\n", "|| !atp_identity_is_usable(who, s->now))\n", T)
fault("status-raced", "fetch/status.c", "AND status_seq IS NOT DISTINCT FROM $3", "AND ($3::int8 IS NULL OR true)", T)
fault("status-often", "tables/status_wish.c", "next_try = LEAST(w.next_try, excluded.wished_at + interval '10 min')\"\n\t\t\t\t\t\t\t\t \"  WHERE excluded.why = 'deleted' OR w.why = 'rev'\"", "next_try = '-infinity'\"", T)
fault("status-missed", "fetch/status.c", "CASE WHEN $5 THEN 'desynchronized' ELSE sync END", "CASE WHEN NOT $5 THEN 'desynchronized' ELSE sync END", T)
fault("status-not-found", "fetch/status.c", "*not_found = refusal == ATP_REPO_NOT_FOUND", "*not_found = refusal == ATP_REPO_DELETED", T)

# --- who agrees with a deletion ---

T = "t/289_deletions"
fault("deletion-at-once", "tables/repo_state.c", "event->unconfirmed = s->identities != NULL &&", "event->unconfirmed = s->identities == NULL &&", T)
fault("deletion-letters", "tables/repos_sink.c", " && !event->unconfirmed)", ")", T)
fault("deletion-former-server", "fetch/status.c", "asking->gone = asking->fresh && (", "asking->gone = (", T)
fault("deletion-left-server", "fetch/status.c", "asking->gone = asking->fresh && (deleted || (", "asking->gone = deleted || (asking->fresh && (", "t/354_repo_changes")
fault("deletion-of-repo", "tables/repo_export.c", "if (confirm)", "if (!confirm)", "t/354_repo_changes")
fault("deletion-to-and-fro", "tables/repo_export.c", "if (confirm && atp_status_is_answered(", "if (!confirm && atp_status_is_answered(", "t/354_repo_changes")
fault("deletion-letters-of-export", "fetch/status.c", "(seq IS NULL OR $3 IS NULL OR seq < $3)", "seq < $3", "t/354_repo_changes")
fault("deletion-letters-of-export-at-once", "tables/letter.c", "(d.seq < u.seq OR d.seq IS NULL)", "d.seq < u.seq", "t/348_repo_refusals")
fault("repo-older-elsewhere", "fetch/repo_transfer.c", "return t->job.at_pds ? ATP_REPO_DOUBTED : ATP_REPO_FAULT;", "return ATP_REPO_FAULT;", "t/354_repo_changes")
fault("export-blocks", "tables/export.c", "<= (Size) atp_fetch_memory_kb * INDEX_SHARE ||", "<= (Size) atp_fetch_memory_kb * INDEX_SHARE * 1024 ||", "t/355_repo_attacks")
fault("repo-trickles", "fetch/repo.c", "first->bytes - first->waited_bytes < HURRY_BYTES", "first->bytes < first->waited_bytes", "t/355_repo_attacks")
fault("deletion-broken-server", "fetch/status.c", "answer->status >= 400 && answer->status <= 499\n", "answer->status >= 400\n", T)
fault("deletion-another", "fetch/status.c", " AND status_seq IS NOT DISTINCT FROM $4", " AND ($4::int8 IS NULL OR true)", T)
fault("deletion-never", "fetch/status.c", "(w.wished_at + $3 * interval '1 s' <= $1", "(w.wished_at + $3 * interval '1 year' <= $1", T)
fault("deletion-letters-stay", "fetch/status.c", "		if (asking->applied)\n", "		if (!asking->applied)\n", T)

T = "t/289_account_lies"
fault("deletion-fetched", "tables/repo_state.c", "bool		has_some = !is_empty(repo) || atp_repo_is_held(repo, \"resync\");", "bool		has_some = !is_empty(repo);", T)
fault("account-of-stranger", "tables/judge.c", "event->by_stranger = s->apply->sub->settings.host_is_pds && who->pds == NULL;", "event->by_stranger = s->apply->sub->settings.host_is_pds && who->pds != NULL;", T)
fault("status-of-another-time", "tables/status_wish.c", "  OR (w.status_at, w.status_seq) IS DISTINCT FROM (excluded.status_at, excluded.status_seq)\"", "\"", T)
fault("deletion-many", "fetch/status.c", "	if (result != ATP_BOUNDED_LATE || !looks)\n", "	if (result != ATP_BOUNDED_LATE || looks)\n", T)

# --- level full: who has signed, what waits, what becomes of it ---

KEYS, HELD, AGAIN, LIMITS, HOSTS = "t/282_full_keys", "t/282_full_held", "t/282_full_again", "t/282_full_limits", "t/282_full_hosts"
HEAL = "t/347_heal"
fault("held-identity", "tables/judged.c", "		atp_judged_hold(event, ATP_HELD_IDENTITY);\n		/* what is known", "		/* what is known", KEYS)
fault("held-signature", "tables/judged.c", "		atp_judged_hold(event, ATP_HELD_SIGNATURE);\n", "", KEYS)
fault("held-doubtful", "tables/judged.c", "if (who->doubtful && !(was_asked(event, who) && event->held->why == ATP_HELD_SIGNATURE))", "if (who->doubtful && !was_asked(event, who))", KEYS)
fault("held-too-new", "tables/judged.c", "else if (atp_identity_is_denied(who))", "else if (false)", KEYS)
fault("held-one-answer", "tables/judged.c", "atp_judged_was_answered(event, who) && event->held->why != ATP_HELD_IDENTITY)", "atp_judged_was_answered(event, who))", KEYS)
fault("held-one-answer-behind", "tables/release.c", "	if (why != ATP_HELD_ORDER)\n", "	if (why != ATP_HELD_COUNT)\n", "t/282_full_moves")
fault("held-no-answer", "tables/judged.c", "return was_asked(event, who) && who->error == NULL;", "return was_asked(event, who);", KEYS)
fault("held-order", "tables/judge.c", "(repo->stays || (repo->waits && event->held == NULL))", "repo->stays", KEYS)
fault("held-order-again", "tables/judge.c", "((!old || atp_repo_is_refilled(s, repo, event)) && (repo->stays", "(!old && (repo->stays", AGAIN)
fault("held-fetched", "tables/judge.c", "counts[i].n > 0 || atp_repo_is_held(waiting[i], \"resync\");", "counts[i].n > 0;", HEAL)
fault("held-again-by-others", "tables/repo_state.c", "same_bytes(repo->refill_by, event->held != NULL ? event->held->subscription : s->subscription)", "same_bytes(repo->refill_by, s->subscription)", AGAIN)
fault("held-not-removed", "tables/release.c", "if (n > 0 && execute(a->statements, REMOVE_HELD, args, NULL) != n)", "if (n < 0 && execute(a->statements, REMOVE_HELD, args, NULL) != n)", KEYS)
fault("held-seq", "tables/release.c", "\" ORDER BY h.did, h.rev, h.subscription, h.seq\"", "\" ORDER BY h.did, h.seq, h.subscription, h.rev\"", AGAIN)
fault("held-share", "tables/held.c", "bytes[d] + new_bytes > settings->max_held_bytes / SHARE", "bytes[d] + new_bytes > settings->max_held_bytes", LIMITS)
fault("held-limit", "tables/held.c", "	total.known = total.bytes <= max;", "	total.known = total.bytes > 0;", LIMITS)
fault("held-largest", "tables/held.c", "ORDER BY s.bytes DESC, s.site", "ORDER BY s.bytes, s.site", LIMITS)
fault("held-sites", "tables/held.c", "ORDER BY s.bytes DESC, s.site, ", "ORDER BY ", HELD)
fault("held-limit-fetched", "tables/repo.c", "		(void) with_dids(a->statements, MARK_FETCHED, dids, n);\n", "		(void) dids;\n", LIMITS)
fault("unverified-marks", "tables/repo.c", "AND hold = 'resync' AND sync IS DISTINCT", "AND sync IS DISTINCT", HELD)
fault("unverified-letter-marks", "tables/repo_state.c", "			skips[ATP_SKIP_BAD_SIGNATURE]++;\n", "			skips[ATP_SKIP_BAD_SIGNATURE]++;\n			repo->changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);\n", "t/282_full")
fault("letter-once", "tables/letter.c", "stage = 'signature' AND message = $4\"", "stage = 'signature' AND message <> $4\"", HELD)
fault("letter-of-key", "tables/letter.c", "stage = 'signature' AND message = $4\"", "stage = 'signature' AND $4 <> ''\"", AGAIN)
fault("host-is-here", "tables/judge.c", "return pds == NULL || strcmp(pds, here) == 0;", "return pds == NULL || here != NULL;", HOSTS)
fault("host-of-others", "tables/judge.c", "if (atp_repos_came_by_others(s, event))", "if (atp_repos_came_by_others(s, event) && who->pds == NULL)", HOSTS)
fault("host-account", "tables/judge.c", "else if (event->kind == ATP_REPOS_ACCOUNT && s->identities != NULL)", "else if (event->kind == ATP_REPOS_INFO && s->identities != NULL)", HOSTS)
fault("host-hourly", "tables/judge.c", "who->asked_at < s->now - ELSEWHERE_US)", "who->asked_at < s->now)", HOSTS)
fault("host-unasked", "tables/judge.c", "who->asked_at < s->now - ELSEWHERE_US)", "who->asked_at < 0)", HOSTS)

# --- exports, and repositories that are not in step ---

EXPORTS, REPOS = "t/340_exports", "t/346_repos"
fault("export-older", "tables/repo_export.c", "commit->rev < repo->rev && !force)", "commit->rev + 1 < 1 && !force)", EXPORTS)
fault("export-deletes", "tables/merge.c", "if (!m->sub->settings.actions[ATP_DELETE])", "if (m->sub->settings.actions[ATP_DELETE])", EXPORTS)
fault("export-filter", "tables/stored_rows.c", "s->found != NULL && !atp_wants_collection(s->settings, name_of(s->found))", "s->found != NULL && s->settings == NULL", EXPORTS)
fault("export-lost", "tables/repo_export.c", "bool		whole = !is_text(repo->hold, \"resync\") || is_text(repo->sync, \"resyncing\");", "bool		whole = true;", HEAL)
fault("heal-inactive", "tables/repo_state.c", "if (backfill == ATP_BACKFILL_NONE || !repo->active || ", "if (backfill == ATP_BACKFILL_NONE || ", REFUSALS)
fault("heal-break", "tables/repo_state.c", "if (is_sync(repo, ATP_SYNC_DESYNCHRONIZED))\n		return", "if (is_sync(repo, ATP_SYNC_UNPROVEN))\n		return", HEAL)
fault("heal-deleted", "tables/heal.c", "	atp_jobs_remove(target, deleted, ndeleted);\n", "	atp_jobs_remove(target, deleted, 0);\n", "t/348_repo_refusals")
fault("heal-active", "tables/heal.c", "	atp_jobs_resume(target, active, nactive);\n", "	atp_jobs_resume(target, active, 0);\n", "t/348_repo_refusals")
fault("heal-abandoned", "tables/heal.c", "	(void) atp_execute(a->statements, &statements[LET_GO], &arg, NULL);\n", "	(void) LET_GO;\n", REPOS)
fault("heal-fetched", "tables/heal.c", "WHERE j.target = $1::name AND j.did", "WHERE j.state = 'suspended' AND j.target = $1::name AND j.did", REPOS, HEAL)

# --- labels at level full ---

T = "t/285_full_labels"
fault("label-refuted", "tables/label_judge.c", "row->refuted = row->signature == NULL ||", "row->refuted = row->signature != NULL &&", T)
fault("label-key", "tables/label_judge.c", "	memcpy(who.key, who.label_key, ATP_MULTIKEY_LEN);\n", "", T)
fault("label-order", "tables/label_judge.c", "labeler->stays |= labeler->held.n > 0;", "labeler->stays |= labeler->held.n > 1;", T)
fault("label-part", "stream/labels.c", "if (event->nparts > 1 || event->nrows < msg->nlabels)", "if (event->nrows > msg->nlabels)", T)
fault("label-kind", "tables/release.c", "\" AND kind = $4 AND ($6 IS NULL OR did OPERATOR(@.=) ANY ($6)\"", "\" AND kind <> '' AND $4 <> '' AND ($6 IS NULL OR did OPERATOR(@.=) ANY ($6)\"", T)
T = "t/285_full_labels_keys"
fault("label-no-key", "tables/label_judge.c", " && !who->doubtful && atp_judged_was_answered(part, who);", " && !who->doubtful && part != NULL;", T)
fault("label-alone", "tables/label_judge.c", "		who.state = ATP_IDENTITY_GOOD;\n", "", T)
fault("label-old", "identity/identity.c", "(identity->has_label_key && is_older(identity->asked_at, now, atp_identity_ttl_s))", "false", T)
T = "t/282_full_moves"
fault("deletion-left", "process/control.c", "	atp_status_wishes_leave(text_to_cstring(PG_GETARG_TEXT_PP(0)));\n", "", T)
fault("held-narrowed", "tables/release.c", "COALESCE(bool_or(h.subscription = $5), true)", "COALESCE(bool_and(h.subscription = $5), true)", T)
fault("held-narrowed-filter", "tables/release.c", "	all.ndids = -1;\n", "", T)
fault("held-stray", "tables/release.c", "			drop_stray(a);\n", "			(void) drop_stray;\n", T)

# slices, counts by collection
fault("slice-number", "core/slice.c", "slice->number < slice->of ?", "slice->number <= slice->of ?", "unit/test_slice")
fault("slice-digits", "core/slice.c", "value <= ATP_SLICES_MAX && (", "(", "unit/test_slice")
fault("slice-hash", "types/did.c", "hash_combine64(0, hash) % slices", "hash % slices", "t/221_slices")
fault("slice-letters", "stream/decode.c", "event->did != NULL && !atp_wants_did", "event->did == NULL && !atp_wants_did", "t/221_slices")
fault("slice-lists", "fetch/list_entries.c", "if (atp_wants_did(settings,", "if (settings->ndids < 0 || atp_wants_did(settings,", "t/345_lists")
fault("count-exports", "tables/collection_count.c", "changes[i].seq != ATP_SEQ_NONE", "changes[i].seq >= ATP_SEQ_NONE", "t/258_collection_stat")
fault("count-room", "tables/collection_count.c", "COLLECTIONS_MAX - n", "COLLECTIONS_MAX + n", "t/258_collection_stat")
fault("count-others", "tables/collection_count.c", "others->of[a] += count->of[a];", "others->of[a] = count->of[a];", "t/258_collection_stat")

# --- the graph ---

fault("link-types-slot", "core/link.c", "element = (*count)++;", "element = *count; *count += 2;", "unit/test_link")
fault("link-types-few", "data/links.c", "	if (count > STACK_TYPES)", "	if (count < STACK_TYPES)", "sql/data_links")
fault("link-fits", "tables/link.c", "<= ATP_LINK_ENTRY_MAX", "<= 2 * ATP_LINK_ENTRY_MAX", "sql/link")
fault("link-sources-order", "tables/link_rebuild.c", "ORDER BY u.n DESC", "ORDER BY u.n", "sql/link")
fault("link-rebuild-owner", "config/owner.c", "if (!has_privs_of_role(GetUserId(), owner))", "if (owner == InvalidOid)", "sql/link")
fault("link-rebuild-lock", "tables/link_rebuild.c", "IN SHARE ROW EXCLUSIVE MODE", "IN ROW SHARE MODE", "t/358_rebuild_links")
fault("return-query-types", "config/spi.c", "	(void) convert_tuples_by_position(portal->tupDesc, result->setDesc,", "	if (portal == NULL) (void) convert_tuples_by_position(portal->tupDesc, result->setDesc,", "sql/link")
fault("backlinks-page", "tables/backlinks.c", "ROW(l.rkey, l.did) OPERATOR(@.<) ROW($5, $6)", "l.rkey OPERATOR(@.<) $5 AND $6 IS NOT NULL", "sql/backlinks")
fault("backlinks-order", "tables/backlinks.c", "l.rkey USING OPERATOR(@.>), l.did USING OPERATOR(@.>) LIMIT", "l.rkey USING OPERATOR(@.<), l.did USING OPERATOR(@.<) LIMIT", "sql/backlinks")
fault("backlinks-after", "tables/backlinks.c", "memcmp(uri.collection.ptr, source.collection.ptr, source.collection.len) != 0)", "false)", "sql/backlinks")
fault("backlinks-negative", "tables/backlinks.c", "PG_GETARG_INT32(i) < 0", "PG_GETARG_INT32(i) < -1", "sql/backlinks")

# Lexicons, views of collections
LEXICON, VIEW = "sql/lexicon", "sql/lexicon_view"
fault("try-refused", "types/try.c", "if (atp_cid_parse(s, n, bytes, &len, &at) != ATP_OK)\n		return false;", "(void) atp_cid_parse(s, n, bytes, &len, &at);", "sql/types_syntax")
fault("field-fraction", "lexicon/integer.h", "end > s && *end == '\\0' && errno == 0", "end > s && errno == 0", VIEW)
fault("field-overflow", "lexicon/integer.h", "end > s && *end == '\\0' && errno == 0", "end > s && *end == '\\0'", VIEW)
fault("field-link", "lexicon/field.c", "JsonContainerSize(v->val.binary.data) == 1 &&", "JsonContainerSize(v->val.binary.data) >= 1 &&", VIEW)
fault("field-null-element", "lexicon/field.c", "nulls[n] = !wish->convert(&element, wish->try, &values[n]);", "nulls[n] = !wish->convert(&element, wish->try, &values[n]) && n > 0;", VIEW)
fault("fields-required", "lexicon/fields.c", "add_properties(walk, doc, field, properties, required, true);", "add_properties(walk, doc, field, properties, NULL, true);", VIEW)
fault("fields-level", "lexicon/fields.c", "field.depth == 1 && add_object", "field.depth <= 2 && add_object", VIEW)
fault("fields-document", "lexicon/fields.c", "if (*to != '\\0')\n		*doc = document_of(walk, to);", "(void) document_of;", VIEW)
fault("names-word", "lexicon/names.c", "(is_small(c[-1]) ||", "(c[-1] == '_' ||", VIEW)
fault("names-free", "lexicon/names.c", "	atp_names_take(names, free);\n", "", VIEW)
fault("view-others", "lexicon/view.c", "if (query->commandType != CMD_SELECT ||", "if (query->commandType == CMD_SELECT ||", VIEW)
fault("view-collection", "lexicon/view.c", "strcmp(TextDatumGetCString(c->constvalue), nsid) == 0;", "*nsid != '\\0';", VIEW)
fault("view-some", "lexicon/view.c", "query->sortClause == NIL && query->limitOffset == NULL", "query->limitOffset == NULL", VIEW)
fault("view-not-equal", "lexicon/view.c", "((OpExpr *) quals)->opno != lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr)", "!OidIsValid(lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr))", VIEW)
fault("view-renamed", "lexicon/view.c", "column->name = pstrdup(name);", "column->name = pstrdup(entry->resname);", VIEW)
fault("view-active", "lexicon/view.c", "PG_ARGISNULL(5) ? shown != active || !OidIsValid(shown)", "PG_ARGISNULL(5) ? shown != active || OidIsValid(shown)", VIEW)
fault("view-type", "lexicon/view.c", "if (column->type == type && strcmp(column->path, path) == 0)", "if (strcmp(column->path, path) == 0)", VIEW)
fault("view-invoker", "lexicon/view.c", "WITH (security_invoker = true) AS", "AS", VIEW)
fault("load-other", "lexicon/load.c", "if (known != NULL && !PG_GETARG_BOOL(1))", "if (known == NULL && !PG_GETARG_BOOL(1))", LEXICON)
fault("load-stranger", "lexicon/published.c", "if (!is_its_own(publisher, name, &known) && !publisher->replace)", "if (!is_its_own(publisher, name, &known) && publisher->replace)", LEXICON)
fault("load-name", "lexicon/published.c", "if (strcmp(atp_lexicon_id(doc), id) != 0)", "if (strcmp(atp_lexicon_id(doc), \"\") == 0)", LEXICON)
fault("load-many", "lexicon/published.c", "if (ids.n > DOCUMENTS_MAX)", "if (ids.n > 2 * DOCUMENTS_MAX)", LEXICON)

# Lexicons: texts, documents, records, subscriptions
fault("lex-grapheme-flag", "core/grapheme.c", "class == CLASS_FLAG && !s->half_flag;", "class == CLASS_FLAG;", "unit/test_grapheme")
fault("lex-grapheme-zwj", "core/grapheme.c", "s->picture && s->before != CLASS_ZWJ && extends", "s->picture && extends", "unit/test_grapheme")
fault("lex-grapheme-linker", "core/grapheme.c", "class == CLASS_CONSONANT && s->consonant && s->linker", "class == CLASS_CONSONANT && s->consonant", "unit/test_grapheme")
fault("lex-language-region", "core/language.c", "if (last < PART_REGION && ", "if (last <= PART_REGION && ", "unit/test_language")
fault("lex-language-end", "core/language.c", "if (last == PART_SINGLETON || last == PART_PRIVATE_X)", "if (last == PART_SINGLETON)", "unit/test_language")
fault("lex-uri-bracket", "core/any_uri.c", "			return host;\n", "			return q;\n", "unit/test_any_uri")
fault("lex-base64-spare", "core/base64.c", "*exact = (bits & ((1u << nbits) - 1)) == 0;", "*exact = true;", "unit/test_lex_format", "sql/data_dagcbor")
fault("lex-accept", "core/lex_format.c", "	else if (pattern.len != mime.len)\n		return false;\n", "", "unit/test_lex_format")
L = "sql/lexicon_valid"
fault("lex-local-reference", "lexicon/compile.c", "if (key_order(ref->id, c->id) == 0 &&", "if (key_order(ref->id, c->id) != 0 &&", L)
fault("lex-closed-empty", "lexicon/compile.c", "if (node->closed && node->n == 0)", "if (node->closed && node->n < 0)", L)
fault("lex-const", "lexicon/compile.c", "node->maximum = Min(node->maximum, constant);", "node->maximum = Max(node->maximum, constant);", L)
fault("lex-refs-sorted", "lexicon/compile.c", "	qsort(node->refs, node->n, sizeof(AtpLexRef), compare_refs);\n", "", L)
fault("lex-texts-sorted", "lexicon/compile.c", "		qsort(node->texts, node->n, sizeof(AtpSpan), compare_names);\n", "		(void) compare_names;\n", L)
fault("lex-required", "lexicon/compile.c", "		if (node->properties[i].required)\n", "		if (node->properties[i].required && i > 0)\n", L)
fault("lex-nullable", "lexicon/judge.c", "value.type == jbvNull && property->nullable", "value.type == jbvNull", L)
fault("lex-union-open", "lexicon/judge.c", "	if (node->closed)\n", "	if (!node->closed)\n", L)
fault("lex-blob-size", "lexicon/judge.c", "|| size <= 0)", "|| size < 0)", L)
fault("lex-unknown-blob", "lexicon/judge.c", "(is_map(v) && !has_type(v->val.binary.data, \"blob\"))", "is_map(v)", L)
fault("lex-only-member", "lexicon/judge.c", "JsonContainerSize(v->val.binary.data) == 1 &&", "JsonContainerSize(v->val.binary.data) >= 1 &&", L)
fault("lex-changed", "lexicon/lexicons.c", "known.cxt != NULL && (changed || ", "known.cxt != NULL && (", L)
fault("lex-loaded", "lexicon/lexicons.c", "relid == watched[0] || relid == watched[1]", "relid == watched[0]", L)
V = "t/361_validate"
fault("validate-first", "tables/validate.c", "			return filter->how;\n", "			if (filter->how != ATP_VALIDATE_NONE)\n				return filter->how;\n", V)
fault("validate-rows", "tables/validate.c", "	event->first_row = to;\n", "", V)
fault("validate-again", "tables/again.c", "	if (again->sub->settings.nvalidate > 0 && (a.sink->uses & ATP_USE_REPOS))\n", "	if (again->sub->settings.nvalidate < 0)\n", V)
fault("validate-export", "tables/merge.c", "if (!atp_validate_row(&m->sub->settings, row))", "if (row->fault != NULL)", V)
