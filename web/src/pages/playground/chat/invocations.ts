/** The other way: /invocations, asked by the AI SDK with Databricks' provider, all of it in the browser. Loaded when chosen. */
import { createDatabricksProvider } from '@databricks/ai-sdk-provider';
import { convertToModelMessages, streamText, type UIMessageChunk } from 'ai';
import { ConnectionLost } from '@/api/socket';
import { streamFetch } from '@/api/stream-fetch';
import { rooted } from '@/lib/server-path';
import type { ChatMessage } from '@/components/messages/message';
import { questionHeaders, type Question } from './transport';

export async function answered(question: Question, messages: ChatMessage[], signal?: AbortSignal): Promise<ReadableStream<UIMessageChunk>> {
  let runId: string | undefined;
  let lost: ConnectionLost | undefined;
  const provider = createDatabricksProvider({
    baseURL: new URL(rooted(`/${encodeURIComponent(question.workflow)}`), window.location.href).href,
    formatUrl: ({ baseUrl }) => `${baseUrl}/invocations`,
    useRemoteToolCalling: true,
    headers: questionHeaders(question),
    fetch: async (input, init) => {
      const answer = await streamFetch(input, { ...init, body: completed(String(init?.body), question) });
      runId = answer.headers.get('x-palaver-run-id') ?? undefined;
      return answer;
    },
  });
  const result = streamText({
    model: provider.responses(question.workflow),
    messages: await convertToModelMessages(messages, { ignoreIncompleteToolCalls: true }),
    maxRetries: 0,
    ...(signal ? { abortSignal: signal } : {}),
  });
  const stream = result.toUIMessageStream<ChatMessage>({
    sendReasoning: true,
    sendSources: true,
    onError: (error) => {
      if (error instanceof ConnectionLost) lost = error;
      return error instanceof Error ? error.message : String(error);
    },
    messageMetadata: ({ part }) =>
      part.type === 'finish'
        ? { ...(runId ? { runId } : {}), usage: { inputTokens: part.totalUsage.inputTokens ?? 0, outputTokens: part.totalUsage.outputTokens ?? 0, totalTokens: part.totalUsage.totalTokens ?? 0 } }
        : undefined,
  });
  // To the AI SDK every error is a failed run; a lost connection is none, and is told apart further on.
  const told = new TransformStream<UIMessageChunk, UIMessageChunk>({
    transform: (chunk, controller) => (chunk.type === 'error' && lost ? controller.error(lost) : controller.enqueue(chunk)),
  });
  return stream.pipeThrough(told);
}

/** What the provider has no field for: the inputs and parameters of our workflows. */
function completed(body: string, { inputs, parameters }: Question): string {
  return JSON.stringify({ ...(JSON.parse(body) as object), custom_inputs: inputs, parameters });
}
