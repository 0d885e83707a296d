/**
 * Chat of one cell: a server thread shown by the AI SDK's Chat. Loads the thread, stores new messages, resumes running
 * answers and follows other tabs. Independent of React.
 */
import { Chat } from '@ai-sdk/react';
import { generateId } from 'ai';
import { createStore } from 'zustand';
import { ApiError, api } from '@/api/client';
import { ConnectionLost, type Notice } from '@/api/socket';
import { socket } from '@/api/stream-fetch';
import type { Node, Thread } from '@/api/types';
import type { ChatMessage, ChatPart, MessageActions } from '@/components/messages/message';
import { showError } from '@/components/toast';
import { Branch, messagesBody, prependOlder, keepKnownMessages, reuseMessages } from './branch';
import { MessageActionHandlers } from './message-actions';
import { Refresher } from './refresher';
import { fetchBranch, cancelRun, fetchSnapshot, type ThreadSnapshot } from './thread-snapshot';
import { ThreadTransport, type Question } from './transport';

/** Timeouts for a run to confirm its stop, and for finding a run after a lost connection. */
const STOP_TIMEOUT_MS = 2000;
const RECOVERY_TIMEOUT_MS = 20_000;

export class CellChat {
  readonly chat: Chat<ChatMessage>;
  thread: string | null;
  loading = false;
  problem: Error | null = null;
  /** Start time of the current answer. */
  since: number | null = null;
  #options: CellOptions;
  #workflow: string | null = null;
  #at: string | null;
  #branch = new Branch();
  #sending: Promise<unknown> = Promise.resolve();
  #asking: Promise<unknown> = Promise.resolve();
  #saying = 0;
  #again: (() => Promise<void>) | null = null;
  #reading = new Refresher(() => this.#read());
  #resuming = false;
  #finishes = 0;
  #seconds = new Map<string, number>();
  #acts: MessageActionHandlers;

  constructor(options: CellOptions) {
    this.#options = options;
    this.thread = options.thread;
    this.#at = options.at ?? null;
    this.chat = new Chat<ChatMessage>({
      transport: new ThreadTransport({
        storeQuestion: (messages) => this.#ask(messages),
        speaking: () => (this.thread ? { thread: this.thread, workflow: this.#spokenTo } : null),
      }),
      generateId: newId,
      onFinish: ({ message, isDisconnect }) => this.#finished(message, isDisconnect),
    });
    this.#acts = new MessageActionHandlers({
      chat: this.chat,
      newId,
      load: () => this.load(),
      forked: options.forked,
      rerun: (id) => this.#rerun(id),
      turn: (node) => {
        this.#at = node;
      },
      gone: (nodes) => this.#branch.remove(nodes),
      rated: (message) => this.#branch.rated(message),
      approve: (message, id, approved, reason) => this.#approve(message, id, approved, reason),
      retry: () => this.retry(),
    });
  }

  /** Incremented on every change that the Chat does not announce itself. */
  readonly version = createStore(() => 0);

  /** Node before the first one shown, if older ones are on the server. */
  get older(): string | null {
    return this.#branch.older;
  }

  get busy(): boolean {
    return this.#resuming || this.chat.status === 'submitted' || this.chat.status === 'streaming';
  }

  /** Load the thread and follow its changes. Returns the function that stops following. */
  open(): () => void {
    let connected = true;
    const leave = socket.listen(
      (notice) => this.#heard(notice),
      (now) => {
        // Catch up after missed notices; without a socket every reconnect attempt reloads.
        if (!now || !connected) void this.load();
        connected = now;
      },
    );
    void this.load();
    return leave;
  }

  /** Take over a thread that was created elsewhere. */
  adopt(thread: string): void {
    if (this.thread !== null || this.busy) return;
    this.thread = thread;
    void this.load();
  }

  /** Load the end of the branch and the running run. Requests during a load cause one more. */
  async load(): Promise<void> {
    this.loading = true;
    this.#changed();
    try {
      await this.#reading.request();
      this.problem = null;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404 && this.#at === null) this.#forget();
      // The banner says that the server is unreachable; keep showing what is there.
      else this.problem = isUnreachable(error) && this.chat.messages.length > 0 ? null : (error as Error);
    } finally {
      this.loading = false;
      this.#changed();
    }
  }

  /** The thread was deleted: reset the cell. */
  #forget(): void {
    this.thread = null;
    this.#workflow = null;
    this.#at = null;
    this.#branch = new Branch();
    this.chat.messages = [];
    this.problem = null;
    this.chat.clearError();
  }

  async loadOlder(): Promise<void> {
    if (!this.thread || !this.older || this.loading) return;
    this.loading = true;
    this.#changed();
    try {
      const before = (await fetchBranch(this.thread, this.older)).filter((node) => node.status !== 'streaming');
      if (before.at(-1)?.id !== this.older) return;
      this.chat.messages = prependOlder(this.chat.messages, before, this.#branch.nodes, this.busy);
      this.#branch.nodes = [...before, ...this.#branch.nodes];
    } catch (error) {
      showError(error);
    } finally {
      this.loading = false;
      this.#changed();
    }
  }

  /** Store a message; a user message is answered. Resolves after the answer. */
  async send(parts: ChatPart[], role: ChatMessage['role'] = 'user'): Promise<void> {
    const message: ChatMessage = { id: newId(), role, parts };
    const begun = this.#sending.then(() => this.#begin(message));
    // Sends are sequential: each waits until the previous one is stored, and then interrupts its answer.
    this.#sending = begun.then(() => this.#asking).catch(() => {});
    await (
      await begun
    ).answered;
  }

  async #begin(message: ChatMessage): Promise<{ answered: Promise<unknown> }> {
    if (this.thread && !this.#branch.isKnown) await this.load(); // Another run may be active in the thread.
    if (this.busy) await this.stop();
    this.#branch.unsaid.push(message);
    this.#again = null;
    this.chat.messages = this.chat.messages.filter(({ metadata }) => metadata?.status !== 'failed');
    if (message.role === 'user') {
      this.since = Date.now();
      return { answered: this.chat.sendMessage(message) };
    }
    this.chat.messages = [...this.chat.messages, message];
    return { answered: this.#ask(this.chat.messages) };
  }

  /** Cancel the run; its output stays. */
  async stop(): Promise<void> {
    if (!this.busy) return;
    // Abort what has not started; the server cancels what has, which a lost connection would not.
    if (this.chat.status === 'submitted') await this.chat.stop();
    for (let times = 0; times < 3; times++) {
      if (this.thread) await cancelRun(this.#spokenTo, this.thread);
      if (!(await this.#ready(STOP_TIMEOUT_MS))) await this.chat.stop();
      await this.load();
      // It may have started just after the stop.
      if (!this.busy) return;
    }
  }

  /** Run again after a failure. */
  async retry(): Promise<void> {
    this.chat.clearError();
    const last = this.#branch.unsaid.at(-1);
    if (this.#again) await this.#again();
    else if (last && last.role !== 'user') await this.#ask(this.chat.messages);
    else if (this.chat.messages.length > 0) {
      this.since = Date.now();
      await this.chat.regenerate();
    }
  }

  /** Available actions on a message. */
  acts(message: ChatMessage): MessageActions {
    return this.#acts.of(message, this.busy ? null : this.thread);
  }

  async #rerun(id: string): Promise<void> {
    this.since = Date.now();
    // It may be gone from the list: then its question is the last message.
    const known = this.chat.messages.some((message) => message.id === id);
    this.#again = () => this.#rerun(id);
    await this.chat.regenerate(known ? { messageId: id } : {});
  }

  async #approve(message: ChatMessage, id: string, approve: boolean, reason?: string): Promise<void> {
    this.#branch.approvals.push({ message: message.id, id, approve, ...(reason ? { reason } : {}) });
    await this.chat.addToolApprovalResponse({ id, approved: approve, ...(reason ? { reason } : {}) });
    const now = this.chat.messages.find((one) => one.id === message.id);
    if (now?.parts.some((part) => 'state' in part && part.state === 'approval-requested')) return;
    this.#again = async () => {
      this.since = Date.now();
      await this.chat.sendMessage();
    };
    await this.#again();
  }

  // Writing to the server

  /** Store new messages, one call at a time, so that nothing is stored twice. */
  #ask(messages: ChatMessage[]): Promise<Question> {
    this.#saying += 1;
    const asked = this.#asking
      .catch(() => {})
      .then(() => this.#said(messages))
      .finally(() => {
        this.#saying -= 1;
      });
    this.#asking = asked;
    return asked;
  }

  async #said(messages: ChatMessage[]): Promise<Question> {
    const place = this.#options.place();
    const thread = await this.#placed(place);
    let fresh = this.#branch.newIn(messages);
    if (!this.#branch.isKnown && fresh.approvals.length + fresh.messages.length > 0) {
      await this.#reconcile(thread);
      messages = this.chat.messages;
      fresh = this.#branch.newIn(messages);
    }
    let answer = this.#branch.end(messages);
    if (fresh.approvals.length + fresh.messages.length > 0) {
      this.#branch.isKnown = false; // Until its result is known.
      const { messages: nodes } = await api('post', '/api/threads/{thread}/messages', {
        path: { thread },
        body: { messages: messagesBody(fresh), parent: answer },
      });
      this.#note(this.#branch.note(fresh, nodes));
      answer = nodes.at(-1)?.id ?? answer;
    }
    if (!answer) throw new Error('There is nothing to answer yet.');
    this.#at = null;
    return { thread, answer, ...place };
  }

  /** Create the thread if needed, with the current workflow. */
  async #placed({ workflow, variant }: CellPlacement): Promise<string> {
    if (!this.thread) {
      this.thread = (await this.#options.make()).id;
      this.#workflow = workflow;
      this.#branch.isKnown = true;
    } else if (this.#workflow && this.#workflow !== workflow) {
      await api('patch', '/api/threads/{thread}', { path: { thread: this.thread }, body: { workflow, variant } });
      this.#workflow = workflow;
    }
    return this.thread;
  }

  /** Read the end of the branch before adding to it. */
  async #reconcile(thread: string): Promise<void> {
    let seen = await fetchSnapshot(thread, this.#at);
    if (seen.speaking) {
      await cancelRun(this.#spokenTo, thread);
      seen = await fetchSnapshot(thread, this.#at);
    }
    this.chat.messages = [...this.#take(seen), ...this.#branch.unsaid];
  }

  /** Take over the stored nodes. */
  #note(noted: Map<string, Node | undefined>): void {
    if (this.#reading.isBusy) void this.load(); // A load in progress may be older than this.
    this.chat.messages = keepKnownMessages(this.chat.messages, noted);
  }

  get #spokenTo(): string {
    return this.#workflow ?? this.#options.place().workflow;
  }

  // Reading from the server

  /** Skipped while a run streams here; it reads again at the end. */
  async #read(): Promise<void> {
    if (!this.thread || this.busy) return;
    const seen = await fetchSnapshot(this.thread, this.#at);
    if (!this.busy && !this.#reading.isStale) this.#apply(seen);
  }

  #apply(seen: ThreadSnapshot): void {
    const tail = this.chat.messages.at(-1);
    const isBroken = this.chat.status === 'error' && tail?.role === 'assistant' && !tail.metadata?.nodes?.length;
    // Output of a failed run stays until the next attempt.
    if (isBroken && seen.thread.head === this.#branch.head && !seen.speaking) {
      this.#branch.isKnown = false;
      return;
    }
    const moved = this.#branch.isKnown && seen.thread.head !== this.#branch.head;
    const shown = [...this.#take(seen), ...(seen.failed?.message ? [seen.failed.message] : [])];
    // Unsent messages wait at the end; partial output stays until it is streamed again.
    const heard = tail && seen.thread.run !== null && tail.metadata?.runId === seen.thread.run ? [tail] : [];
    const waiting = this.#branch.waiting(this.#saying > 0 || this.chat.status === 'error');
    this.chat.messages = reuseMessages(this.chat.messages, [...shown, ...(seen.speaking ? heard : waiting)]);
    if (this.#branch.unsaid.length === 0 && (isBroken || moved)) this.chat.clearError();
    if (seen.speaking) void this.#resume(seen.speaking.since);
    else if (seen.failed && !seen.failed.message && this.#branch.unsaid.length === 0)
      this.#told(this.chat.messages.at(-1)?.id, { error: seen.failed.error });
  }

  #take(seen: ThreadSnapshot): ChatMessage[] {
    this.#branch.take(seen);
    this.#workflow = seen.thread.workflow;
    return this.#branch.shown(this.#seconds);
  }

  /** Stream the running run from its start. */
  async #resume(since: number | null): Promise<void> {
    const before = this.#finishes;
    this.since = Math.min(since ?? Date.now(), Date.now());
    this.#resuming = true;
    this.#changed();
    try {
      await this.chat.resumeStream();
    } finally {
      this.#resuming = false;
      this.#changed();
    }
    if (this.#finishes !== before) return;
    // Nothing to stream: the connection was lost, or the run has ended.
    this.#branch.isKnown = false;
    if (this.chat.status === 'error') await this.#regain();
    else setTimeout(() => void this.load(), 500);
  }

  #heard(notice: Notice): void {
    if (notice.changed === 'thread' && notice.ref === this.thread) void this.load();
  }

  #finished(message: ChatMessage, isDisconnect: boolean): void {
    const run = message.metadata?.runId;
    if (this.since && run) this.#seconds.set(run, (Date.now() - this.since) / 1000);
    this.since = null;
    this.#finishes += 1;
    this.#resuming = false;
    this.#branch.isKnown = false;
    if (this.chat.status !== 'error') this.#again = null;
    // A lost connection is not a failed run: find out what happened to it.
    if (isDisconnect || this.chat.error instanceof ConnectionLost) void this.#regain();
    else void this.load();
  }

  async #regain(): Promise<void> {
    this.chat.clearError();
    for (let wait = 500; wait < RECOVERY_TIMEOUT_MS && !this.busy; wait *= 2) {
      await this.load();
      if (this.#branch.isKnown || this.problem) break;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
    const last = this.chat.messages.at(-1);
    if (this.#branch.isKnown && !this.busy && last?.role === 'user' && !last.metadata?.error) {
      this.#told(last.id, { error: { message: 'The connection was lost before this was answered.' } });
    }
  }

  #told(id: string | undefined, more: NonNullable<ChatMessage['metadata']>): void {
    this.chat.messages = this.chat.messages.map((one) =>
      one.id === id ? { ...one, metadata: { ...one.metadata, ...more } } : one,
    );
  }

  async #ready(milliseconds: number): Promise<boolean> {
    for (let waited = 0; waited < milliseconds && this.busy; waited += 20)
      await new Promise((resolve) => setTimeout(resolve, 20));
    return !this.busy;
  }

  #changed(): void {
    this.version.setState((version) => version + 1);
  }
}

const isUnreachable = (error: unknown): boolean => error instanceof ApiError && error.status === 0;

const newId = (): string => `ui_${generateId()}`;

/** Workflow, variant and inputs; read for every turn. */
export interface CellPlacement {
  workflow: string;
  variant: string;
  parameters: Record<string, unknown>;
  inputs: Record<string, unknown>;
}

export interface CellOptions {
  thread: string | null;
  /** End of the branch; null for the thread's head. */
  at?: string | null;
  place: () => CellPlacement;
  /** Create the thread of this cell. */
  make: () => Promise<Thread>;
  forked: (thread: Thread) => void;
}
