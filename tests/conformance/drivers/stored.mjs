// What the `openai` package for Node makes of stored responses and of conversations. Beside what lines.mjs says, a request
// has a `key` and the name of a `gate`; each way answers with what it saw, as the client gave it.

import OpenAI from 'openai';
import { answer } from './lines.mjs';

const made = ({ url, key }) => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });

const openGate = ({ url, key, gate }) => fetch(`${url}/open_gate/invoke`, {
  method: 'POST',
  headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  body: JSON.stringify({ inputs: { name: gate } }),
});

/** A run that waits at the gate: what it said first, and how to read on. Leaving a loop would hang up. */
async function begun(client, { gate }, more = {}) {
  const events = (await client.responses.create({ model: 'gated', input: gate, stream: true, ...more }))[Symbol.asyncIterator]();
  const seen = [];
  while (seen.at(-1)?.type !== 'response.output_text.delta') seen.push((await events.next()).value);
  return { seen, id: seen[0].response.id, rest: () => all(events) };
}

async function all(events) {
  const seen = [];
  for (let next = await events.next(); !next.done; next = await events.next()) seen.push(next.value);
  return seen;
}

const every = async (stream) => all((await stream)[Symbol.asyncIterator]());

async function refused(promise) {
  try {
    await promise;
    return null;
  } catch (error) {
    return { kind: error.constructor.name, status: error.status, code: error.code, param: error.param };
  }
}

async function retrieved(asked, built) {
  const client = made(asked);
  built.created = await client.responses.create({ model: 'scripted', input: asked.prompt });
  built.retrieved = await client.responses.retrieve(built.created.id);
}

async function resumed(asked, built) {
  const client = made(asked);
  const run = await begun(client, asked);
  const from = (number) => client.responses.retrieve(run.id, { stream: true, starting_after: number });
  const live = every(from(2));
  await openGate(asked);
  built.whole = [...run.seen, ...await run.rest()];
  built.live = await live;
  built.after = await every(from(5));
  built.again = await every(client.responses.retrieve(run.id, { stream: true }));
}

async function cancelled(asked, built) {
  const client = made(asked);
  const run = await begun(client, asked);
  built.running = await refused(client.responses.delete(run.id));
  built.cancelled = await client.responses.cancel(run.id);
  built.again = await client.responses.cancel(run.id);
  built.last = (await run.rest()).at(-1);
  const done = await client.responses.create({ model: 'scripted', input: 'Hello' });
  built.finished = await refused(client.responses.cancel(done.id));
  await client.responses.delete(run.id);
  built.gone = await refused(client.responses.retrieve(run.id));
}

async function chained(asked, built) {
  const client = made(asked);
  const ask = (input, more) => client.responses.create({ model: 'heard', input, ...more });
  const first = await ask('One?', { instructions: 'Be brief.' });
  const tools = [{ type: 'function', name: 'get_time', parameters: { type: 'object' }, strict: false }];
  const second = await ask('What time is it?', { previous_response_id: first.id, tools });
  const result = { type: 'function_call_output', call_id: second.output[0].call_id, output: '12:00' };
  const third = await ask([result], { previous_response_id: second.id });
  built.first = first.output_text;
  built.heard = JSON.parse(third.output_text);
  built.items = [];
  for await (const item of client.responses.inputItems.list(third.id, { limit: 2, order: 'asc' })) built.items.push(item.type);
  await client.responses.delete(first.id);
  built.broken = await refused(ask('And?', { previous_response_id: third.id }));
}

async function conversed(asked, built) {
  const client = made(asked);
  const conversation = await client.conversations.create({ metadata: { topic: 'time' } });
  const { id } = conversation;
  const { data: [added] } = await client.conversations.items.create(id, { items: [{ role: 'user', content: 'Hello' }] });
  built.kept = await client.conversations.items.retrieve(added.id, { conversation_id: id });
  built.updated = await client.conversations.update(id, { metadata: { topic: 'space' } });
  built.same = await client.conversations.retrieve(id);
  const run = await begun(client, asked, { conversation: id });
  const ask = () => client.responses.create({ model: 'heard', input: 'And?', conversation: id });
  built.locked = await refused(ask());
  await openGate(asked);
  await run.rest();
  built.heard = JSON.parse((await ask()).output_text);
  built.roles = [];
  for await (const item of client.conversations.items.list(id, { limit: 2, order: 'asc' })) built.roles.push(item.role);
  await client.conversations.items.delete(added.id, { conversation_id: id });
  built.left = (await client.conversations.items.list(id)).data.length;
  built.deleted = await client.conversations.delete(id);
  built.gone = await refused(client.conversations.retrieve(id));
}

async function uploaded(asked, built) {
  const client = made(asked);
  const upload = (name, text) => client.files.create({ file: new File([text], name), purpose: 'user_data' });
  const file = await upload('notes.txt', 'Rain.');
  const other = await upload('sky.png', 'Sky');
  built.file = file;
  built.retrieved = await client.files.retrieve(file.id);
  built.content = await (await client.files.content(file.id)).text();
  built.listed = [];
  for await (const { id } of client.files.list({ limit: 1 })) built.listed.push([file.id, other.id].indexOf(id));
  const content = [{ type: 'input_file', file_id: file.id }, { type: 'input_image', file_id: other.id, detail: 'auto' }];
  const input = [{ role: 'user', content }];
  built.heard = JSON.parse((await client.responses.create({ model: 'weighed', input })).output_text);
  built.deleted = await client.files.delete(file.id);
  built.gone = await refused(client.files.content(file.id));
  built.unsupported = await refused(client.files.create({ file: new File(['x'], 'x.jsonl'), purpose: 'batch' }));
}

await answer({ uploaded, retrieved, resumed, cancelled, chained, conversed });
