// What `useChat` with `resume: true` shows after a reload in the middle of an answer, in three major versions of the AI SDK.
// A page is a chat object with its state and no React: useChat makes one, and `resume: true` calls its `resumeStream()`.
//
// Beside what lines.mjs says, a request has a `key`, the `chat` and the name of a `gate`; `keeps` says what the page finds of
// the chat when it is loaded again: the `question`, or `all` that was shown. `then` says what happens next: open, or stop.

import * as ai6 from 'ai';
import * as ai5 from 'ai5';
import * as ai7 from 'ai7';
import { answer, told } from './lines.mjs';

function page({ AbstractChat, DefaultChatTransport }, version, asked, messages = []) {
  let speak;
  const spoken = new Promise((resolve) => { speak = resolve; });
  const state = {
    status: 'ready',
    error: undefined,
    messages,
    pushMessage(message) { this.messages = [...this.messages, message]; },
    popMessage() { this.messages = this.messages.slice(0, -1); },
    replaceMessage(index, message) {
      this.messages = this.messages.with(index, message);
      if (text(message)) speak();
    },
    snapshot: (thing) => structuredClone(thing),
  };
  const headers = { authorization: `Bearer ${asked.key}`, 'x-palaver-ui-version': version };
  const transport = new DefaultChatTransport({ api: `${asked.url}/${asked.workflow}/api/chat`, headers });
  class Chat extends AbstractChat {}
  const ends = [];
  const chat = new Chat({ id: asked.chat, state, transport, onFinish: (end) => { ends.push(end); } });
  return { chat, spoken, ends };
}

const text = ({ parts }) => parts.map((part) => (part.type === 'text' ? part.text : '')).join('');

const reload = (sdk, version) => async (asked, built) => {
  const post = (path, body) => fetch(`${asked.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${asked.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const address = `/${asked.workflow}/api/chat/${asked.chat}`;
  const next = async () => (await fetch(`${asked.url}${address}/stream`, { headers: { authorization: `Bearer ${asked.key}` } })).status;
  const openGate = () => post('/open_gate/invoke', { inputs: { name: asked.gate } });

  const first = page(sdk, version, asked);
  const asking = first.chat.sendMessage({ text: asked.gate });
  await first.spoken;
  await first.chat.stop(); // It only hangs up, as a reload does.
  await asking;
  const before = first.chat.messages;

  const second = page(sdk, version, asked, asked.keeps === 'all' ? before : before.slice(0, 1));
  const resuming = second.chat.resumeStream();
  await second.spoken;
  built.status = second.chat.status;
  if (asked.then === 'stop') built.stopped = (await post(`${address}/stop`)).status;
  else await openGate();
  await resuming;
  if (second.chat.error) built.error = told(second.chat.error);
  built.finish = second.ends.at(-1)?.finishReason ?? null;
  built.aborted = second.ends.at(-1)?.isAbort ?? null;
  built.text = second.chat.messages.map(text);
  built.same = before[1].id === second.chat.messages[1]?.id;

  built.next = await next();
  const third = page(sdk, version, asked, second.chat.messages);
  await third.chat.resumeStream();
  built.third = third.chat.messages.map(text);
  await openGate();
  await third.chat.sendMessage({ text: asked.gate });
  built.afterwards = text(third.chat.lastMessage);
};

/** Stops an answer as the documented front end does: with a request to the server, which ends the stream. */
const stop = (sdk, version) => async (asked, built) => {
  const { chat, spoken } = page(sdk, version, asked);
  const asking = chat.sendMessage({ text: asked.gate });
  await spoken;
  const headers = { authorization: `Bearer ${asked.key}` };
  const address = `${asked.url}/${asked.workflow}/api/chat/${asked.chat}`;
  built.stopped = (await fetch(`${address}/stop`, { method: 'POST', headers })).status;
  await asking;
  built.next = (await fetch(`${address}/stream`, { headers })).status;
  if (chat.error) built.error = told(chat.error);
  built.status = chat.status;
  built.text = chat.messages.map(text);
};

const versions = { ai5: [ai5, '5'], ai6: [ai6, '6'], ai7: [ai7, '7'] };
const ways = Object.entries(versions).flatMap(([name, [sdk, version]]) => [
  [name, reload(sdk, version)],
  [`${name} stop`, stop(sdk, version)],
]);
await answer(Object.fromEntries(ways));
