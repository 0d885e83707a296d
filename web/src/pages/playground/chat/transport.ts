/**
 * The AI SDK transport of a chat cell: adds new messages to the thread, then streams the answer from
 * `/{workflow}/api/chat`.
 */
import { DefaultChatTransport, type ChatTransport, type UIMessageChunk } from 'ai';
import { streamFetch } from '@/api/stream-fetch';
import type { ChatMessage } from '@/components/messages/message';
import { serverPath } from '@/lib/server-path';
import { coalesceDeltas } from './coalesce-deltas';

/** A stored question and how to answer it. */
export interface Question {
  thread: string;
  answer: string;
  workflow: string;
  variant: string;
  parameters: Record<string, unknown>;
  inputs: Record<string, unknown>;
}

export interface TransportOptions {
  /** Store new messages and return the question to answer. */
  storeQuestion: (messages: ChatMessage[]) => Promise<Question>;
  /** The thread that may have an active run; null if none. */
  activeThread: () => { thread: string; workflow: string } | null;
}

type SendOptions = Parameters<ChatTransport<ChatMessage>['sendMessages']>[0];

export class ThreadTransport implements ChatTransport<ChatMessage> {
  readonly resumeStreamIsReplay = true;
  #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  async sendMessages(options: SendOptions): Promise<ReadableStream<UIMessageChunk>> {
    const question = await this.#options.storeQuestion(options.messages);
    options.abortSignal?.throwIfAborted();
    // The thread has the history; the body only holds the current question.
    const lastIndex = options.messages.findLastIndex((message) => message.role === 'user');
    const request = { ...options, chatId: question.thread, messages: options.messages.slice(Math.max(lastIndex, 0)) };
    const stream = await chatTransport(question).sendMessages(request);
    return stream.pipeThrough(coalesceDeltas());
  }

  async reconnectToStream({
    abortSignal,
  }: {
    abortSignal?: AbortSignal;
  }): Promise<ReadableStream<UIMessageChunk> | null> {
    const active = this.#options.activeThread();
    if (!active) return null;
    const transport = new DefaultChatTransport<ChatMessage>({ api: chatRoute(active.workflow), fetch: streamFetch });
    const stream = await transport.reconnectToStream({
      chatId: active.thread,
      ...(abortSignal ? { abortSignal } : {}),
    });
    return stream?.pipeThrough(coalesceDeltas()) ?? null;
  }
}

const questionHeaders = ({ thread, answer, variant }: Question): Record<string, string> => ({
  'x-palaver-thread': thread,
  'x-palaver-answer': answer,
  'x-palaver-variant': variant,
});

const chatRoute = (workflow: string): string => serverPath(`/${encodeURIComponent(workflow)}/api/chat`);

function chatTransport(question: Question): DefaultChatTransport<ChatMessage> {
  const { workflow, parameters, inputs } = question;
  return new DefaultChatTransport<ChatMessage>({
    api: chatRoute(workflow),
    fetch: streamFetch,
    headers: questionHeaders(question),
    body: { inputs, parameters },
  });
}
