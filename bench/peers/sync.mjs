// @atproto/sync and a batched INSERT: sync.mjs URL [DOCUMENTS]
//
// With DOCUMENTS, what the simulator's --directory writes, commits are verified, with the keys of their accounts from
// memory.  Without it they are not, as the library calls it: hashes of blocks it compares nevertheless.
import { readFileSync } from 'node:fs'
import { lexStringify } from '@atproto/lex-json'
import { Firehose } from '@atproto/sync'
import { Table } from './table.mjs'

const [, , service, documents] = process.argv
const table = await Table.open()
const keys = new Map()
if (documents) {
	for (const line of readFileSync(documents, 'utf8').trim().split('\n')) {
		const { did, document } = JSON.parse(line)
		keys.set(did, `did:key:${document.verificationMethod[0].publicKeyMultibase}`)
	}
}

// One for each operation.  Those of one event come without a pause, so they are in one batch.
let seq = 0

async function handleEvent(event) {
	if (event.seq !== seq) {
		for (let full; (full = table.full());) await full
		seq = event.seq
	}
	switch (event.event) {
		case 'create':
		case 'update':
			table.add(event.did, event.collection, event.rkey, event.cid.toString(), event.rev, lexStringify(event.record),
				() => Buffer.from(event.blocks.get(event.cid)))
			break
		case 'delete':
			table.remove(event.did, event.collection, event.rkey)
			break
		case 'account':
			if (event.status === 'deleted') table.forget(event.did)
			break
	}
	table.seen(seq)
}

const firehose = new Firehose({
	service,
	getCursor() {		// asked when it connects
		table.connected()
		return 0
	},
	idResolver: { did: { resolveAtprotoKey: async (did) => keys.get(did), resolve: async () => null } },
	unauthenticatedCommits: !documents,
	unauthenticatedHandles: true,
	handleEvent,
	onError: (error) => console.error(error.message, error.cause?.message ?? ''),
})
firehose.start()
