#!/usr/bin/env node
// Takes the events of seckill (../events.md): SECKILL_EVENTS_SECRET=... receiver.mjs [PORT]

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secret = process.env.SECKILL_EVENTS_SECRET;
const known = new Set(); // In earnest a table, written by the transaction that acts on the event.

function isSigned(header, body) {
  const [, time, signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(header) ?? [];
  const expected = createHmac("sha256", secret).update(`${time}.`).update(body).digest();
  return Boolean(signature) && timingSafeEqual(expected, Buffer.from(signature, "hex"));
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const taken = isSigned(request.headers["seckill-signature"], body);
  for (const event of taken ? JSON.parse(body).events : []) {
    if (known.has(event.id)) continue;
    console.log(JSON.stringify(event)); // What your program does.
    known.add(event.id);
  }
  response.writeHead(taken ? 204 : 403).end();
});
server.listen(Number(process.argv[2] ?? 9000), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
