/**
 * One cell: a thread on the server, shown by the AI SDK's Chat. The server has the truth (tree, head, running run);
 * this loads it, says what is new, resumes what is being said, and follows other tabs. Knows no React.
 */
import { Chat } from '@ai-sdk/react';
import { generateId } from 'ai';
import { ApiError, api } from '@/api/api';
import type { Notice } from '@/api/socket';
import { socket } from '@/api/streams';
import type { Node, Thread } from '@/api/types';
import { rooted } from '@/lib/root';
import { tellError } from '@/ui/toast';
import type { ChatMessage, ChatPart, MessageActs } from './message';
import { lastNode, messagesOf, toNode, unsaid } from './nodes';
import { ThreadTransport, type Question } from './transport';

/** What a cell is for; asked anew at every turn. */
export interface Place {
  workflow: string;
  variant: string;
  parameters: Record<string, unknown>;
  inputs: Record<string, unknown>;
}

export interface CellOptions {
  thread: string | null;
  /** Where the branch that is shown ends; null: at the thread's head. */
  at?: string | null;
  place: () => Place;
  /** Make the thread of this cell. */
  make: () => Promise<Thread>;
  forked: (thread: Thread) => void;
}

const PAGE = 60;

export class CellChat {
  readonly chat: Chat<ChatMessage>;
  thread: string | null;
  /** Is the beginning of the thread still on the server only? */
  older: string | null = null;
  loading = false;
  problem: Error | null = null;
  /** When the answer that is being given was asked for. */
  since: number | null = null;
  #options: CellOptions;
  #workflow: string | null = null;
  #at: string | null;
  #approvals: { id: string; approve: boolean; reason?: string }[] = [];
  #seconds = new Map<string, number>();
  #listeners = new Set<() => void>();
  #version = 0;
  #leave: (() => void) | null = null;

  constructor(options: CellOptions) {
    this.#options = options;
    this.thread = options.thread;
    this.#at = options.at ?? null;
    this.chat = new Chat<ChatMessage>({
      transport: new ThreadTransport({
        ask: (messages) => this.#ask(messages),
        speaking: () => (this.thread ? { thread: this.thread, workflow: this.#workflow ?? options.place().workflow } : null),
      }),
      generateId: newId,
      onFinish: ({ message, isError, isDisconnect }) => this.#finished(message, isError, isDisconnect),
    });
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  version = (): number => this.#version;

  get busy(): boolean {
    return this.chat.status === 'submitted' || this.chat.status === 'streaming';
  }

  /** Begin to show the thread and to follow it; the answer ends that. */
  open(): () => void {
    this.#leave?.();
    const leave = socket.listen((notice) => this.#heard(notice));
    this.#leave = leave;
    if (this.thread && this.chat.messages.length === 0) void this.load();
    return leave;
  }

  /** What the server has now: the end of the branch, and the run that is speaking. */
  async load(): Promise<void> {
    if (!this.thread) return;
    this.loading = true;
    this.#changed();
    try {
      await this.#read();
      this.problem = null;
    } catch (error) {
      this.problem = error as Error;
    } finally {
      this.loading = false;
      this.#changed();
    }
  }

  async loadOlder(): Promise<void> {
    if (!this.thread || !this.older || this.loading) return;
    this.loading = true;
    try {
      const page = await this.#page(this.older);
      this.older = page.next ?? null;
      if (!this.busy) this.chat.messages = [...messagesOf(page.data), ...this.chat.messages];
    } catch (error) {
      tellError(error);
    } finally {
      this.loading = false;
      this.#changed();
    }
  }

  /** Say something; a user's message is answered, others wait in the thread. */
  async send(parts: ChatPart[], role: 'user' | 'assistant' | 'system' = 'user'): Promise<void> {
    if (this.busy) await this.stop();
    const message: ChatMessage = { id: newId(), role, parts };
    this.#at = null;
    if (role === 'user') {
      this.since = Date.now();
      await this.chat.sendMessage(message);
      return;
    }
    this.chat.messages = [...this.chat.messages, message];
    await this.#ask(this.chat.messages);
  }

  /** End the run that is speaking; what it said stays. */
  async stop(): Promise<void> {
    const at = this.thread ? { thread: this.thread, workflow: this.#options.place().workflow } : null;
    if (at && this.busy) {
      const answer = await fetch(rooted(`/${encodeURIComponent(at.workflow)}/api/chat/${at.thread}/stop`), { method: 'POST' }).catch(() => null);
      // The stream ends by itself then; should its end be lost, we leave it.
      if (answer?.ok && (await this.#ready(2000))) return;
    }
    await this.chat.stop();
  }

  /** Answer the last question again after a failure. */
  async retry(): Promise<void> {
    this.chat.clearError();
    this.since = Date.now();
    await this.chat.regenerate();
  }

  /** What may be done with a message now. */
  acts(message: ChatMessage): MessageActs {
    const { nodes, runId } = message.metadata ?? {};
    const [first] = nodes ?? [];
    const last = nodes?.at(-1);
    if (!this.thread || this.busy) return {};
    const thread = this.thread;
    if (!first || !last) return message.role === 'assistant' ? { rerun: () => this.retry() } : {};
    return {
      rerun: () => this.#rerun(message),
      show: (node) => this.#show(thread, node),
      fork: async () => this.#options.forked(await api('post', '/api/threads/{thread}/duplicate', { path: { thread }, body: { upto: last } })),
      remove: () => this.#remove(thread, nodes ?? []),
      edit: (text) => this.#edit(thread, message, first, text),
      ...(runId && message.role === 'assistant' ? { rate: (rating, comment) => this.#rate(message, runId, rating, comment) } : {}),
      approve: (id, approved, reason) => this.#approve(message, id, approved, reason),
    };
  }

  // Acts

  async #rerun(message: ChatMessage): Promise<void> {
    this.since = Date.now();
    this.#at = null;
    await this.chat.regenerate({ messageId: message.id });
  }

  async #edit(thread: string, message: ChatMessage, node: string, text: string): Promise<void> {
    const parts: ChatPart[] = [...message.parts.filter((part) => part.type === 'file'), { type: 'text', text }];
    const edited: ChatMessage = { id: newId(), role: message.role, parts };
    const said = await api('post', '/api/threads/{thread}/messages', { path: { thread }, body: { messages: [toNode(edited)], replaces: node } });
    const place = this.chat.messages.findIndex((one) => one.id === message.id);
    this.#at = null;
    this.chat.messages = [...this.chat.messages.slice(0, place), ...messagesOf(said.messages)];
    if (message.role !== 'user') return;
    this.since = Date.now();
    await this.chat.sendMessage();
  }

  async #remove(thread: string, nodes: readonly string[]): Promise<void> {
    for (const message of nodes.toReversed()) {
      await api('delete', '/api/threads/{thread}/messages/{message}', { path: { thread, message }, query: { below: 'keep' } });
    }
    await this.load();
  }

  async #show(thread: string, node: string): Promise<void> {
    this.#at = null;
    await api('patch', '/api/threads/{thread}', { path: { thread }, body: { head: { through: node } } });
    await this.load();
  }

  async #rate(message: ChatMessage, run: string, rating: 'up' | 'down' | null, comment?: string): Promise<void> {
    const node = message.metadata?.nodes?.at(-1);
    await api('put', '/api/runs/{run}/feedback', { path: { run }, body: { rating, ...(comment ? { comment } : {}), ...(node ? { message: node } : {}) } });
    const before = message.metadata?.feedback ?? { up: 0, down: 0 };
    this.#told(message.id, { feedback: counted(before, rating) });
  }

  async #approve(message: ChatMessage, id: string, approve: boolean, reason?: string): Promise<void> {
    this.#approvals.push({ id, approve, ...(reason ? { reason } : {}) });
    await this.chat.addToolApprovalResponse({ id, approved: approve, ...(reason ? { reason } : {}) });
    const now = this.chat.messages.find((one) => one.id === message.id);
    if (now?.parts.some((part) => 'state' in part && part.state === 'approval-requested')) return;
    this.since = Date.now();
    await this.chat.sendMessage();
  }

  // What the server is told and tells

  async #ask(messages: ChatMessage[]): Promise<Question> {
    const place = this.#options.place();
    if (!this.thread) {
      const made = await this.#options.make();
      this.thread = made.id;
      this.#workflow = place.workflow;
    } else if (this.#workflow && this.#workflow !== place.workflow) {
      await api('patch', '/api/threads/{thread}', { path: { thread: this.thread }, body: { workflow: place.workflow, variant: place.variant } });
      this.#workflow = place.workflow;
    }
    const thread = this.thread;
    let answer = lastNode(messages);
    const said = [...unsaid(messages).map(toNode), ...this.#approvals.map(({ id, ...word }) => approval(id, word))];
    if (said.length > 0) {
      const { messages: nodes } = await api('post', '/api/threads/{thread}/messages', { path: { thread }, body: { messages: said, parent: answer } });
      this.#note(messages, nodes);
      this.#approvals = [];
      answer = nodes.at(-1)?.id ?? answer;
    }
    if (!answer) throw new Error('There is nothing to answer yet.');
    return { thread, answer, ...place };
  }

  /** What was said is in the thread now, under these ids. */
  #note(messages: ChatMessage[], nodes: Node[]): void {
    const fresh = unsaid(messages);
    const noted = new Map(fresh.map((message, place) => [message.id, nodes[place]]));
    this.chat.messages = this.chat.messages.map((message) => {
      const node = noted.get(message.id);
      const shown = node && messagesOf([node])[0];
      return shown ? { ...message, metadata: { ...message.metadata, ...shown.metadata } } : message;
    });
  }

  async #read(): Promise<void> {
    const thread = this.thread ?? '';
    const [row, page] = await Promise.all([api('get', '/api/threads/{thread}', { path: { thread } }), this.#page()]);
    if (this.busy) return;
    this.#workflow = row.workflow;
    this.older = page.next ?? null;
    this.chat.messages = this.#timed(messagesOf(page.data.filter((node) => node.status !== 'streaming')));
    if (row.run) void this.#resume();
    else await this.#failed(row.head);
  }

  /** Read the run that is speaking from its beginning; how it ends is `onFinish`'s to hear. */
  async #resume(): Promise<void> {
    this.since ??= Date.now();
    await this.chat.resumeStream();
  }

  /** A question at the end whose run failed says so, after a reload too. */
  async #failed(head: string | null): Promise<void> {
    const last = this.chat.messages.at(-1);
    if (last?.role !== 'user' || !this.thread) return;
    const { data } = await api('get', '/api/runs', { query: { thread: this.thread, limit: 1 } });
    const [run] = data;
    if (run?.answers === head && run.status === 'failed') {
      this.#told(last.id, { error: { message: String(run.error?.['message'] ?? 'The run failed.') } });
    }
  }

  #page(after?: string) {
    return api('get', '/api/threads/{thread}/messages', {
      path: { thread: this.thread ?? '' },
      query: { at: this.#at ?? 'head', limit: PAGE, ...(after ? { after } : {}) },
    });
  }

  #heard(notice: Notice): void {
    if (notice.changed !== 'thread' || notice.ref !== this.thread || this.busy || this.loading) return;
    void this.load();
  }

  #finished(message: ChatMessage, isError: boolean, isDisconnect: boolean): void {
    const run = message.metadata?.runId;
    if (this.since && run) this.#seconds.set(run, (Date.now() - this.since) / 1000);
    this.since = null;
    // After the AI SDK has set its own state. A lost connection is not a failed run: look what became of it.
    if (isDisconnect) setTimeout(() => void this.#regain(), 300);
    else if (!isError) setTimeout(() => void this.load(), 0);
  }

  async #regain(): Promise<void> {
    this.chat.clearError();
    for (let wait = 500; wait < 20_000; wait *= 2) {
      await this.load();
      if (!(this.problem instanceof ApiError && this.problem.status === 0)) return;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  #timed(messages: ChatMessage[]): ChatMessage[] {
    return messages.map((message) => {
      const seconds = this.#seconds.get(message.metadata?.runId ?? '');
      return seconds === undefined || message.role !== 'assistant' ? message : { ...message, metadata: { ...message.metadata, seconds } };
    });
  }

  #told(id: string, more: NonNullable<ChatMessage['metadata']>): void {
    this.chat.messages = this.chat.messages.map((one) => (one.id === id ? { ...one, metadata: { ...one.metadata, ...more } } : one));
  }

  async #ready(milliseconds: number): Promise<boolean> {
    for (let waited = 0; waited < milliseconds && this.busy; waited += 20) await new Promise((resolve) => setTimeout(resolve, 20));
    return !this.busy;
  }

  #changed(): void {
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }
}

const approval = (id: string, word: { approve: boolean; reason?: string }) => ({
  role: 'user',
  parts: [{ type: 'data', name: 'approval-response', value: { id, ...word } }],
});

const newId = (): string => `ui_${generateId()}`;

function counted(before: { up: number; down: number; mine?: 'up' | 'down' | null }, mine: 'up' | 'down' | null) {
  const up = before.up - (before.mine === 'up' ? 1 : 0) + (mine === 'up' ? 1 : 0);
  const down = before.down - (before.mine === 'down' ? 1 : 0) + (mine === 'down' ? 1 : 0);
  return { up, down, mine };
}
