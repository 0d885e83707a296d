// The AI SDK's telemetry: its versions 5, 6 and 7, whole and streamed, two turns each, and each turn a trace.

import { createOpenAI } from '@ai-sdk/openai';
import { LegacyOpenTelemetry, OpenTelemetry } from '@ai-sdk/otel';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import * as six from 'ai';
import { MockEmbeddingModelV3 } from 'ai/test';
import * as five from 'ai5';
import * as seven from 'ai7';
import { z } from 'zod';

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL });
const model = openai.chat('gpt-4o-mini');

/** The same model as version 5 wants it: the provider that is installed speaks to version 6 and later. */
const older = {
  specificationVersion: 'v2',
  provider: model.provider,
  modelId: model.modelId,
  supportedUrls: {},
  async doGenerate(options) {
    const made = await model.doGenerate(options);
    return { ...made, finishReason: made.finishReason.unified, usage: total(made.usage) };
  },
  async doStream(options) {
    const made = await model.doStream(options);
    const end = (part) => ({ ...part, finishReason: part.finishReason.unified, usage: total(part.usage) });
    const stream = made.stream.pipeThrough(new TransformStream({
      transform(part, out) { out.enqueue(part.type === 'finish' ? end(part) : part); },
    }));
    return { ...made, stream };
  },
};
const total = ({ inputTokens, outputTokens }) => ({
  inputTokens: inputTokens.total,
  outputTokens: outputTokens.total,
  totalTokens: inputTokens.total + outputTokens.total,
  cachedInputTokens: inputTokens.cacheRead,
});

const metadata = (session) => ({
  experimental_telemetry: { isEnabled: true, functionId: 'forecaster', metadata: { sessionId: session, userId: 'u-1' } },
});
const context = (integration) => (session) => ({
  runtimeContext: { sessionId: session, userId: 'u-1' },
  telemetry: {
    functionId: 'forecaster',
    integrations: [integration],
    includeRuntimeContext: { sessionId: true, userId: true },
  },
});
const VERSIONS = {
  5: { sdk: five, model: older, telemetry: metadata },
  6: { sdk: six, model, telemetry: metadata },
  7: { sdk: seven, model, telemetry: context(new OpenTelemetry({ runtimeContext: true })) },
  '7-legacy': { sdk: seven, model, telemetry: context(new LegacyOpenTelemetry()) },
};

async function talk(session, streams, { sdk, model, telemetry }) {
  const weather = sdk.tool({
    description: 'The weather of a city.',
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => ({ Oslo: '4 °C', Bergen: '9 °C' })[city],
  });
  const messages = [];
  for (const question of ['What is the weather in Oslo?', 'And in Bergen?']) {
    messages.push({ role: 'user', content: question });
    const options = {
      model,
      ...(sdk === seven ? { instructions: 'Be brief.' } : { system: 'Be brief.' }),
      messages: [...messages],
      tools: { weather },
      stopWhen: sdk.stepCountIs(5),
      temperature: 0,
      maxRetries: 0,
      ...telemetry(session),
    };
    const result = streams ? sdk.streamText(options) : await sdk.generateText(options);
    if (streams) await result.consumeStream();
    messages.push(...(await result.responseMessages ?? (await result.response).messages));
  }
}

for (const [version, known] of Object.entries(VERSIONS)) {
  await talk(`${version}-whole`, false, known);
  await talk(`${version}-streamed`, true, known);
}

/** One of these is asked for two texts; what it counts is told of the whole, and of each call of the model. */
const embedding = new MockEmbeddingModelV3({
  modelId: 'text-embedding-3-small',
  provider: 'openai.embedding',
  maxEmbeddingsPerCall: 1,
  doEmbed: async ({ values }) => ({ embeddings: values.map(() => [0.5]), usage: { tokens: 6 }, warnings: [] }),
});
for (const [sdk, telemetry, session] of [[six, metadata, '6-embedded'], [seven, VERSIONS[7].telemetry, '7-embedded']]) {
  await sdk.embedMany({ model: embedding, values: ['Oslo', 'Bergen'], ...telemetry(session) });
}
await provider.shutdown();
