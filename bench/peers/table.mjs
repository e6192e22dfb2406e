// The table of bench/peers.sh as the peers write it: rows and cursor in one transaction, in batches.
//
// A batch has the last operation of each key, and goes as one statement with an array for each column; the next one
// is filled while it is under way.  add(), remove(), forget() and seen() never wait; a reader that can
// stop calls full(), and waits for what it returns.
import pg from 'pg'

const BATCH = Number(process.env.BATCH ?? 1000)

const APPLY = `
	WITH gone AS (
		DELETE FROM peer.record r USING unnest($1::did[], $2::nsid[], $3::recordkey[]) d(did, collection, rkey)
		WHERE r.did = d.did AND r.collection = d.collection AND r.rkey = d.rkey
	), put AS (
		INSERT INTO peer.record (did, collection, rkey, cid, rev, value, raw)
		SELECT * FROM unnest($4::did[], $5::nsid[], $6::recordkey[], $7::cidlink[], $8::atproto.tid[], $9::jsonb[], $10::bytea[])
		ON CONFLICT (did, collection, rkey) DO UPDATE
		SET (cid, rev, indexed_at, value, raw) = (EXCLUDED.cid, EXCLUDED.rev, EXCLUDED.indexed_at, EXCLUDED.value, EXCLUDED.raw)
	)
	UPDATE peer.cursor SET seq = $11, connected_at = to_timestamp($12), loading = $13`

export class Table {
	#client = new pg.Client({ user: 'postgres', database: 'postgres' })
	#rows = new Map()
	#forgotten = new Set()
	#seq = 0
	#written = 0
	#writing = null
	#connected = []		// when, and the processor time of loading the libraries until then; in seconds

	static async open() {
		const table = new Table()
		await table.#client.connect()
		return table
	}

	// The connection to the stream is open.
	connected() {
		if (this.#connected.length > 0) return
		const { user, system } = process.cpuUsage()
		this.#connected = [Date.now() / 1000, (user + system) / 1e6]
	}

	// json: of the record; raw(): its DAG-CBOR, where jsonb cannot hold it
	add(did, collection, rkey, cid, rev, json, raw) {
		const holds = !json.includes('\\u0000')
		this.#rows.set(`${did}/${collection}/${rkey}`, { did, collection, rkey, cid, rev, json: holds ? json : null, raw: holds ? null : raw() })
	}

	remove(did, collection, rkey) {
		this.#rows.set(`${did}/${collection}/${rkey}`, { did, collection, rkey, cid: null })
	}

	// an account that is deleted
	forget(did) {
		for (const [key, row] of this.#rows) {
			if (row.did === did) this.#rows.delete(key)
		}
		this.#forgotten.add(did)
	}

	// all events up to this one have been given
	seen(seq) {
		this.#seq = seq
		if (!this.#writing) this.#writing = this.#soon()
	}

	// null, or what to wait for
	full() {
		return this.#rows.size >= BATCH ? this.#writing : null
	}

	// What has come is written when it is a batch, or when nothing more comes at once.
	async #soon() {
		do {
			for (let before = -1; this.#rows.size < BATCH && before !== this.#seq;) {
				before = this.#seq
				await new Promise((resolve) => setTimeout(resolve, 20))
			}
			await this.#write()
		} while (this.#rows.size > 0 || this.#written < this.#seq)
		this.#writing = null
	}

	async #write() {
		const rows = this.#rows, forgotten = this.#forgotten, seq = this.#seq
		this.#rows = new Map()
		this.#forgotten = new Set()
		const gone = [[], [], []], put = [[], [], [], [], [], [], []]
		for (const row of rows.values()) {
			const to = row.cid === null ? gone : put
			to[0].push(row.did)
			to[1].push(row.collection)
			to[2].push(row.rkey)
			if (row.cid !== null) {
				to[3].push(row.cid)
				to[4].push(row.rev)
				to[5].push(row.json)
				to[6].push(row.raw)
			}
		}
		const apply = { name: 'apply', text: APPLY, values: [...gone, ...put, seq, ...this.#connected] }
		if (forgotten.size > 0) {
			await this.#client.query('BEGIN')
			await this.#client.query('DELETE FROM peer.record WHERE did = ANY ($1)', [[...forgotten]])
			await this.#client.query(apply)
			await this.#client.query('COMMIT')
		} else {
			await this.#client.query(apply)
		}
		this.#written = seq
	}
}
