// @skyware/firehose and a batched INSERT: skyware.mjs URL
import { encode } from '@atcute/cbor'
import { Firehose } from '@skyware/firehose'
import WebSocket from 'ws'
import { Table } from './table.mjs'

const table = await Table.open()
const firehose = new Firehose({ relay: process.argv[2], cursor: '0', ws: WebSocket, autoReconnect: false })
let paused = false

// The library knows no back pressure: what the table has not taken would fill the memory.
async function wait() {
	paused = true
	firehose.ws.pause()
	for (let full; (full = table.full());) await full
	firehose.ws.resume()
	paused = false
}

function seen({ seq }) {
	table.seen(seq)
	if (!paused && table.full()) wait()
}

firehose.on('open', () => table.connected())
firehose.on('commit', (commit) => {
	for (const op of commit.ops) {
		const [collection, rkey] = op.path.split('/')
		if (op.action === 'delete') {
			table.remove(commit.repo, collection, rkey)
		} else {
			table.add(commit.repo, collection, rkey, op.cid, commit.rev, JSON.stringify(op.record), () => Buffer.from(encode(op.record)))
		}
	}
	seen(commit)
})
firehose.on('account', (account) => {
	if (account.status === 'deleted') table.forget(account.did)
	seen(account)
})
firehose.on('identity', seen)
firehose.on('sync', seen)
firehose.on('error', ({ cursor, error }) => console.error(`after ${cursor}: ${error}`))
firehose.on('websocketError', ({ error }) => console.error(error.message))
firehose.start()
