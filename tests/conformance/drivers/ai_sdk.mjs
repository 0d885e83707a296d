// What `generateText` and `streamText` of the AI SDK build from a run, with each provider that speaks one of our protocols.

import { createOpenResponses } from '@ai-sdk/open-responses';
import { createOpenAI } from '@ai-sdk/openai';
import { createDatabricksProvider } from '@databricks/ai-sdk-provider';
import * as ai6 from 'ai';
import * as ai5 from 'ai5';
import { createOpenAI as createOpenAI5 } from 'ai5-openai';
import * as ai7 from 'ai7';
import { createOpenAI as createOpenAI7 } from 'ai7-openai';
import { answer, told } from './lines.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false; // It would write them to the output, which is read as JSON.

const openaiResponses = (create) => ({ url, workflow }) =>
  create({ baseURL: `${url}/${workflow}/v1`, apiKey: 'none' }).responses(workflow);

const MODELS = {
  databricks: ({ url, workflow }) => createDatabricksProvider({
    baseURL: `${url}/${workflow}`,
    formatUrl: ({ baseUrl }) => `${baseUrl}/invocations`,
    useRemoteToolCalling: true,
  }).responses(workflow),
  openaiResponses: openaiResponses(createOpenAI),
  openaiChat: ({ url, workflow }) => createOpenAI({ baseURL: `${url}/${workflow}/v1`, apiKey: 'none' }).chat(workflow),
  openResponses: ({ url, workflow }) => createOpenResponses({ name: 'palaver', url: `${url}/${workflow}/v1/responses` })(workflow),
};

const whole = (model, { generateText } = ai6) => async (asked, built) => {
  const result = await generateText({ model: model(asked), prompt: asked.prompt, maxRetries: 0 });
  for (const part of result.content) {
    if (part.type === 'text') built.text.push(part.text);
    if (part.type === 'reasoning') built.reasoning += part.text;
    if (part.type === 'tool-call') built.calls.push(readCall(part));
    if (part.type === 'tool-result') readResult(part, built);
  }
  readEnd(result, built);
};

const streamed = (model, { streamText } = ai6) => async (asked, built, { signal, heard }) => {
  const result = streamText({ model: model(asked), prompt: asked.prompt, maxRetries: 0, abortSignal: signal, onError() {} });
  let place = {};
  for await (const part of result.fullStream) {
    switch (part.type) {
      case 'text-start': place[part.id] = built.text.push('') - 1; break;
      case 'text-delta': built.text[place[part.id]] += part.text; heard(); break;
      case 'reasoning-delta': built.reasoning += part.text; break;
      case 'tool-call': built.calls.push(readCall(part)); break;
      case 'tool-result': readResult(part, built); break;
      case 'error': built.error ??= told(part.error); break;
      case 'finish': readEnd({ finishReason: part.finishReason, usage: part.totalUsage }, built);
    }
  }
};

const readCall = ({ toolCallId: id, toolName: name, input }) => ({ id, name: name.replace(/^mcp\./, ''), arguments: input });

/** The `output` of a tool that the server ran is the whole call. */
function readResult({ toolCallId: id, toolName: name, output }, built) {
  const result = name.startsWith('mcp.') ? output.output : output;
  if (result !== undefined) built.results.push({ id, output: result });
}

/** Asks, sends back all that came, and asks on. OpenAI's provider refers to stored items unless `store` is false. */
const twice = (model, store = false) => async (asked, built) => {
  const options = { model: model(asked), maxRetries: 0, providerOptions: { openai: { store } } };
  const messages = [{ role: 'user', content: asked.prompt }];
  messages.push(...(await ai6.streamText({ ...options, messages }).response).messages);
  messages.push({ role: 'user', content: asked.then });
  built.text.push(await ai6.streamText({ ...options, messages }).text);
};

function readEnd({ finishReason, usage }, built) {
  built.finish = finishReason;
  const { inputTokens: input, outputTokens: output } = usage;
  built.usage = input === undefined && output === undefined ? null : { input, output };
}

const ways = Object.entries(MODELS).flatMap(([name, model]) =>
  [[`${name}Whole`, whole(model)], [`${name}Streamed`, streamed(model)], [`${name}Twice`, twice(model)]]);
await answer({
  ...Object.fromEntries(ways),
  openaiResponsesReferences: twice(MODELS.openaiResponses, true),
  openaiResponses5Streamed: streamed(openaiResponses(createOpenAI5), ai5),
  openaiResponses7Whole: whole(openaiResponses(createOpenAI7), ai7),
  openaiResponses7Streamed: streamed(openaiResponses(createOpenAI7), ai7),
});
