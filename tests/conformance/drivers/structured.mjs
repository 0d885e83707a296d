// What the AI SDK and the `openai` package for Node build from a reply that has to match a schema.

import { createOpenAI } from '@ai-sdk/openai';
import * as ai6 from 'ai';
import * as ai7 from 'ai7';
import { createOpenAI as createOpenAI7 } from 'ai7-openai';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import { answer } from './lines.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false;
process.removeAllListeners('warning'); // generateObject is deprecated in favour of an option that version 5 lacks.

const schema = z.object({ name: z.string(), inhabitants: z.number().int() });
const client = ({ url }) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 });

const whole = (ai, create, api) => async ({ url, workflow, prompt }, built) => {
  const model = create({ baseURL: `${url}/v1`, apiKey: 'none' })[api](workflow);
  const { object } = await ai.generateObject({ model, schema, prompt, maxRetries: 0 });
  built.text.push(JSON.stringify(object));
};

const streamed = (ai, create, api) => async ({ url, workflow, prompt }, built) => {
  const model = create({ baseURL: `${url}/v1`, apiKey: 'none' })[api](workflow);
  const failures = [];
  const onError = ({ error }) => failures.push(error);
  const stream = ai.streamObject({ model, schema, prompt, maxRetries: 0, onError });
  stream.object.catch(() => {}); // Its error is the one below, in other words.
  let object;
  for await (object of stream.partialObjectStream);
  if (failures.length) throw failures[0].error ?? failures[0];
  built.text.push(JSON.stringify(object));
};

await answer({
  'ai6 responses': whole(ai6, createOpenAI, 'responses'),
  'ai6 chat': whole(ai6, createOpenAI, 'chat'),
  'ai6 responses streamed': streamed(ai6, createOpenAI, 'responses'),
  'ai6 chat streamed': streamed(ai6, createOpenAI, 'chat'),
  'ai7 responses': whole(ai7, createOpenAI7, 'responses'),
  'ai7 chat': whole(ai7, createOpenAI7, 'chat'),
  'openai responses': async (asked, built) => {
    const body = { model: asked.workflow, input: asked.prompt, text: { format: zodTextFormat(schema, 'city') } };
    built.text.push(JSON.stringify((await client(asked).responses.parse(body)).output_parsed));
  },
  'openai responses streamed': async (asked, built) => {
    const body = { model: asked.workflow, input: asked.prompt, text: { format: zodTextFormat(schema, 'city') } };
    const response = await client(asked).responses.stream(body).finalResponse();
    built.text.push(JSON.stringify(response.output_parsed));
  },
  'openai chat': async (asked, built) => {
    const messages = [{ role: 'user', content: asked.prompt }];
    const body = { model: asked.workflow, messages, response_format: zodResponseFormat(schema, 'city') };
    built.text.push(JSON.stringify((await client(asked).chat.completions.parse(body)).choices[0].message.parsed));
  },
});
