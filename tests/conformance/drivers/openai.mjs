// What the `openai` package for Node builds from a run, over Responses and over Chat Completions.

import OpenAI from 'openai';
import { answer } from './lines.mjs';

const client = ({ url, workflow }) => new OpenAI({ baseURL: `${url}/${workflow}/v1`, apiKey: 'none', maxRetries: 0 });

async function whole(asked, built) {
  readResponse(await client(asked).responses.create({ model: asked.workflow, input: asked.prompt }), built);
}

async function streamed(asked, built, { signal, heard }) {
  const body = { model: asked.workflow, input: asked.prompt, stream: true };
  for await (const event of await client(asked).responses.create(body, { signal })) {
    if (event.type === 'response.output_text.delta') heard();
    if (event.type === 'response.output_item.done') readItem(event.item, built);
    if (/^response\.(completed|incomplete|failed)$/.test(event.type)) readEnd(event.response, built);
  }
}

async function helper(asked, built, { signal, heard }) {
  const stream = client(asked).responses.stream({ model: asked.workflow, input: asked.prompt }, { signal });
  stream.on('response.output_text.delta', heard);
  readResponse(await stream.finalResponse(), built);
}

function readResponse(response, built) {
  for (const item of response.output) readItem(item, built);
  readEnd(response, built);
}

function readItem(item, built) {
  if (item.type === 'message') built.text.push(item.content.map((part) => part.text).join(''));
  if (item.type === 'function_call') built.calls.push({ id: item.call_id, name: item.name, arguments: item.arguments });
  if (item.type === 'function_call_output') built.results.push({ id: item.call_id, output: item.output });
  if (item.type === 'mcp_call') {
    built.calls.push({ id: item.id, name: item.name, arguments: item.arguments });
    if (item.output !== null) built.results.push({ id: item.id, output: item.output });
  }
  if (item.type === 'reasoning') built.reasoning += item.summary.map((part) => part.text).join('');
}

function readEnd(response, built) {
  built.usage = response.usage && { input: response.usage.input_tokens, output: response.usage.output_tokens };
  built.finish = response.incomplete_details?.reason ?? response.status;
  built.error = response.error;
}

async function chatWhole(asked, built) {
  readCompletion(await client(asked).chat.completions.create(chat(asked)), built);
}

async function chatStreamed(asked, built, { signal, heard }) {
  const body = { ...chat(asked), stream: true, stream_options: { include_usage: true } };
  let text = '';
  for await (const { choices: [choice], usage } of await client(asked).chat.completions.create(body, { signal })) {
    if (usage) readUsage(usage, built);
    if (!choice) continue;
    const { content, reasoning_content: reasoning, tool_calls: calls = [] } = choice.delta;
    if (content) { text += content; built.text = [text]; heard(); }
    built.reasoning += reasoning ?? '';
    for (const { index, id, function: { name, arguments: piece } } of calls) {
      built.calls[index] ??= { id, name, arguments: '' };
      built.calls[index].arguments += piece;
    }
    built.finish = choice.finish_reason ?? built.finish;
  }
}

async function chatHelper(asked, built, { signal, heard }) {
  const body = { ...chat(asked), stream_options: { include_usage: true } };
  const stream = client(asked).chat.completions.stream(body, { signal });
  stream.on('content', heard);
  readCompletion(await stream.finalChatCompletion(), built);
}

const chat = ({ workflow, prompt }) => ({ model: workflow, messages: [{ role: 'user', content: prompt }] });

function readCompletion({ choices: [{ message, finish_reason: finish }], usage }, built) {
  if (message.content) built.text = [message.content];
  built.reasoning = message.reasoning_content ?? '';
  for (const { id, function: { name, arguments: text } } of message.tool_calls ?? []) built.calls.push({ id, name, arguments: text });
  if (usage) readUsage(usage, built);
  built.finish = finish;
}

function readUsage(usage, built) {
  built.usage = { input: usage.prompt_tokens, output: usage.completion_tokens };
}

/** Asks, sends back all that came, and asks on. */
async function twice(asked, built) {
  const input = [{ role: 'user', content: asked.prompt }];
  const body = { model: asked.workflow };
  input.push(...(await client(asked).responses.create({ ...body, input })).output);
  input.push({ role: 'user', content: asked.then });
  readResponse(await client(asked).responses.create({ ...body, input }), built);
}

async function chatTwice(asked, built) {
  const body = chat(asked);
  body.messages.push((await client(asked).chat.completions.create(body)).choices[0].message);
  body.messages.push({ role: 'user', content: asked.then });
  readCompletion(await client(asked).chat.completions.create(body), built);
}

await answer({ whole, streamed, helper, chatWhole, chatStreamed, chatHelper, twice, chatTwice });
