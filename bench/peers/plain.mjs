// A program without a library for the firehose: ws, @atcute/cbor, @atcute/car, and a batched INSERT: plain.mjs URL
//
// It reads of a commit only the records that its operations name, and checks nothing.
import { readCar } from '@atcute/car'
import { decode, decodeFirst, fromBytes } from '@atcute/cbor'
import { toString } from '@atcute/cid'
import WebSocket from 'ws'
import { Table } from './table.mjs'

const table = await Table.open()
const ws = new WebSocket(`${process.argv[2]}/xrpc/com.atproto.sync.subscribeRepos?cursor=0`, { perMessageDeflate: false, skipUTF8Validation: true })

async function wait() {
	ws.pause()
	for (let full; (full = table.full());) await full
	ws.resume()
}

function commit({ repo, rev, ops, blocks }) {
	const named = new Map()
	for (const { action, path, cid } of ops) {
		const slash = path.indexOf('/'), collection = path.slice(0, slash), rkey = path.slice(slash + 1)
		if (action === 'delete') table.remove(repo, collection, rkey)
		else if (named.has(cid.$link)) named.get(cid.$link).push([collection, rkey])
		else named.set(cid.$link, [[collection, rkey]])
	}
	if (named.size === 0) return
	for (const { cid, bytes } of readCar(fromBytes(blocks))) {
		const link = toString(cid), to = named.get(link)
		if (!to) continue
		const json = JSON.stringify(decode(bytes))
		for (const [collection, rkey] of to) table.add(repo, collection, rkey, link, rev, json, () => Buffer.from(bytes))
	}
}

ws.on('open', () => table.connected())
ws.on('error', (error) => console.error(error.message))
ws.on('message', (data) => {
	const [header, rest] = decodeFirst(data), [body] = decodeFirst(rest)
	if (header.t === '#commit') {
		try {
			commit(body)
		} catch (error) {
			console.error(`${body.seq}: ${error}`)
		}
	} else if (header.t === '#account' && body.status === 'deleted') table.forget(body.did)
	table.seen(body.seq)
	if (!ws.isPaused && table.full()) wait()
})
