/**
 * Chat of one cell: a server thread shown by the AI SDK's Chat. Loads the thread, stores new messages, resumes running
 * answers and follows other tabs. Independent of React.
 */
import { Chat } from '@ai-sdk/react';
import { generateId } from 'ai';
import { createStore } from 'zustand';
import { ApiError, api, type Node, type Thread } from '@/api/client';
import { queryClient, workflowQuery } from '@/api/queries';
import { ConnectionLost, type Notice } from '@/api/socket';
import { socket } from '@/api/stream-fetch';
import type { ChatMessage, ChatPart, MessageActions } from '@/components/messages/message';
import { showError } from '@/components/toast';
import type { BoardStore } from '@/pages/playground/board-store';
import {
  Branch,
  messagesBody,
  prependOlder,
  assignStoredIds,
  reuseMessages,
  fetchBranch,
  cancelRun,
  fetchSnapshot,
  type ThreadSnapshot,
} from './branch';
import { MessageActionHandlers } from './message-actions';
import { Refresher } from './refresher';
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
  #branchEnd: string | null;
  #branch = new Branch();
  #sending: Promise<unknown> = Promise.resolve();
  #storing: Promise<unknown> = Promise.resolve();
  #pendingStores = 0;
  #retryAction: (() => Promise<void>) | null = null;
  #refresher = new Refresher(() => this.#fetchAndApply());
  #resuming = false;
  #finishCount = 0;
  #durations = new Map<string, number>();
  #actionHandlers: MessageActionHandlers;

  constructor(options: CellOptions) {
    this.#options = options;
    this.thread = options.thread;
    this.#branchEnd = options.branchEnd ?? null;
    this.chat = new Chat<ChatMessage>({
      transport: new ThreadTransport({
        storeQuestion: (messages) => this.#storeMessages(messages),
        activeThread: () => (this.thread ? { thread: this.thread, workflow: this.#activeWorkflow } : null),
      }),
      generateId: newId,
      onFinish: ({ message, isDisconnect }) => this.#handleFinish(message, isDisconnect),
    });
    this.#actionHandlers = new MessageActionHandlers({
      chat: this.chat,
      newId,
      load: () => this.load(),
      onForked: options.onForked,
      rerun: (id) => this.#rerun(id),
      showBranch: (node) => {
        this.#branchEnd = node;
      },
      onRemoved: (nodes) => this.#branch.remove(nodes),
      lastRunNode: (message) => this.#branch.lastRunNode(message),
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
    let wasConnected = true;
    const unsubscribe = socket.listen(
      (notice) => this.#handleNotice(notice),
      (isConnected) => {
        // Catch up after missed notices; without a socket every reconnect attempt reloads.
        if (!isConnected || !wasConnected) void this.load();
        wasConnected = isConnected;
      },
    );
    void this.load();
    return unsubscribe;
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
    this.#notifyChange();
    try {
      await this.#refresher.request();
      this.problem = null;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404 && this.#branchEnd === null) this.#reset();
      // The banner says that the server is unreachable; keep showing what is there.
      else this.problem = isUnreachable(error) && this.chat.messages.length > 0 ? null : (error as Error);
    } finally {
      this.loading = false;
      this.#notifyChange();
    }
  }

  /** The thread was deleted: reset the cell. */
  #reset(): void {
    this.thread = null;
    this.#workflow = null;
    this.#branchEnd = null;
    this.#branch = new Branch();
    this.chat.messages = [];
    this.problem = null;
    this.chat.clearError();
  }

  async loadOlder(): Promise<void> {
    if (!this.thread || !this.older || this.loading) return;
    this.loading = true;
    this.#notifyChange();
    try {
      const older = (await fetchBranch(this.thread, this.older)).filter((node) => node.status !== 'streaming');
      if (older.at(-1)?.id !== this.older) return;
      this.chat.messages = prependOlder(this.chat.messages, older, this.#branch.nodes, this.busy);
      this.#branch.nodes = [...older, ...this.#branch.nodes];
    } catch (error) {
      showError(error);
    } finally {
      this.loading = false;
      this.#notifyChange();
    }
  }

  /** Store a message; a user message is answered. Resolves after the answer. */
  async send(parts: ChatPart[], role: ChatMessage['role'] = 'user'): Promise<void> {
    const message: ChatMessage = { id: newId(), role, parts };
    const started = this.#sending.then(() => this.#startSending(message));
    // Sends are sequential: each waits until the previous one is stored, and then interrupts its answer.
    this.#sending = started.then(() => this.#storing).catch(() => {});
    await (
      await started
    ).answered;
  }

  async #startSending(message: ChatMessage): Promise<{ answered: Promise<unknown> }> {
    if (this.thread && !this.#branch.isKnown) await this.load(); // Another run may be active in the thread.
    if (this.busy) await this.stop();
    this.#branch.unsent.push(message);
    this.#retryAction = null;
    this.chat.messages = this.chat.messages.filter(({ metadata }) => metadata?.status !== 'failed');
    if (message.role === 'user') {
      this.since = Date.now();
      return { answered: this.chat.sendMessage(message) };
    }
    this.chat.messages = [...this.chat.messages, message];
    return { answered: this.#storeMessages(this.chat.messages) };
  }

  /** Cancel the run; its output stays. */
  async stop(): Promise<void> {
    if (!this.busy) return;
    // Abort what has not started; the server cancels what has, which a lost connection would not.
    if (this.chat.status === 'submitted') await this.chat.stop();
    for (let attempt = 0; attempt < 3; attempt++) {
      if (this.thread) await cancelRun(this.#activeWorkflow, this.thread);
      if (!(await this.#waitUntilIdle(STOP_TIMEOUT_MS))) await this.chat.stop();
      await this.load();
      // It may have started just after the stop.
      if (!this.busy) return;
    }
  }

  /** Run again after a failure. */
  async retry(): Promise<void> {
    this.chat.clearError();
    const last = this.#branch.unsent.at(-1);
    if (this.#retryAction) await this.#retryAction();
    else if (last && last.role !== 'user') await this.#storeMessages(this.chat.messages);
    else if (this.chat.messages.length > 0) {
      this.since = Date.now();
      await this.chat.regenerate();
    }
  }

  /** Available actions on a message. */
  actionsOf(message: ChatMessage): MessageActions {
    return this.#actionHandlers.actionsOf(message, this.busy ? null : this.thread);
  }

  async #rerun(id: string): Promise<void> {
    this.since = Date.now();
    // It may be gone from the list: then its question is the last message.
    const isListed = this.chat.messages.some((message) => message.id === id);
    this.#retryAction = () => this.#rerun(id);
    await this.chat.regenerate(isListed ? { messageId: id } : {});
  }

  async #approve(message: ChatMessage, id: string, approve: boolean, reason?: string): Promise<void> {
    this.#branch.approvals.push({ message: message.id, id, approve, ...(reason ? { reason } : {}) });
    await this.chat.addToolApprovalResponse({ id, approved: approve, ...(reason ? { reason } : {}) });
    const current = this.chat.messages.find((other) => other.id === message.id);
    if (current?.parts.some((part) => 'state' in part && part.state === 'approval-requested')) return;
    this.#retryAction = async () => {
      this.since = Date.now();
      await this.chat.sendMessage();
    };
    await this.#retryAction();
  }

  // Writing to the server

  /** Store new messages, one call at a time, so that nothing is stored twice. */
  #storeMessages(messages: ChatMessage[]): Promise<Question> {
    this.#pendingStores += 1;
    const stored = this.#storing
      .catch(() => {})
      .then(() => this.#storeNow(messages))
      .finally(() => {
        this.#pendingStores -= 1;
      });
    this.#storing = stored;
    return stored;
  }

  async #storeNow(messages: ChatMessage[]): Promise<Question> {
    const placement = this.#options.placement();
    const thread = await this.#ensureThread(placement);
    let unsent = this.#branch.unsentIn(messages);
    if (!this.#branch.isKnown && unsent.approvals.length + unsent.messages.length > 0) {
      await this.#reconcile(thread);
      messages = this.chat.messages;
      unsent = this.#branch.unsentIn(messages);
    }
    let answer = this.#branch.end(messages);
    if (unsent.approvals.length + unsent.messages.length > 0) {
      this.#branch.isKnown = false; // Until its result is known.
      const { messages: nodes } = await api('post', '/api/threads/{thread}/messages', {
        path: { thread },
        body: { messages: messagesBody(unsent), parent: answer },
      });
      this.#adoptStored(this.#branch.recordStored(unsent, nodes));
      answer = nodes.at(-1)?.id ?? answer;
    }
    if (!answer) throw new Error('Nothing to answer yet. Write a message first.');
    this.#branchEnd = null;
    return { thread, answer, ...placement };
  }

  /** Create the thread if needed, with the current workflow. */
  async #ensureThread({ workflow, variant }: CellPlacement): Promise<string> {
    if (!this.thread) {
      this.thread = (await this.#options.createThread()).id;
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
    let snapshot = await fetchSnapshot(thread, this.#branchEnd);
    if (snapshot.activeRun) {
      await cancelRun(this.#activeWorkflow, thread);
      snapshot = await fetchSnapshot(thread, this.#branchEnd);
    }
    this.chat.messages = [...this.#adoptSnapshot(snapshot), ...this.#branch.unsent];
  }

  /** Take over the stored nodes. */
  #adoptStored(stored: Map<string, Node | undefined>): void {
    if (this.#refresher.isBusy) void this.load(); // A load in progress may be older than this.
    this.chat.messages = assignStoredIds(this.chat.messages, stored);
  }

  get #activeWorkflow(): string {
    return this.#workflow ?? this.#options.placement().workflow;
  }

  // Reading from the server

  /** Skipped while a run streams here; its end causes another load. */
  async #fetchAndApply(): Promise<void> {
    if (!this.thread || this.busy) return;
    const snapshot = await fetchSnapshot(this.thread, this.#branchEnd);
    if (!this.busy && !this.#refresher.isStale) this.#apply(snapshot);
  }

  #apply(snapshot: ThreadSnapshot): void {
    const tail = this.chat.messages.at(-1);
    const isBroken = this.chat.status === 'error' && tail?.role === 'assistant' && !tail.metadata?.nodes?.length;
    // Output of a failed run stays until the next attempt.
    if (isBroken && snapshot.thread.head === this.#branch.head && !snapshot.activeRun) {
      this.#branch.isKnown = false;
      return;
    }
    const hasMoved = this.#branch.isKnown && snapshot.thread.head !== this.#branch.head;
    const messages = [...this.#adoptSnapshot(snapshot), ...(snapshot.failed?.message ? [snapshot.failed.message] : [])];
    // Unsent messages wait at the end; partial output stays until it is streamed again.
    const partial = tail && snapshot.thread.run !== null && tail.metadata?.runId === snapshot.thread.run ? [tail] : [];
    const waiting = this.#branch.unsentMessages(this.#pendingStores > 0 || this.chat.status === 'error');
    this.chat.messages = reuseMessages(this.chat.messages, [...messages, ...(snapshot.activeRun ? partial : waiting)]);
    if (this.#branch.unsent.length === 0 && (isBroken || hasMoved)) this.chat.clearError();
    if (snapshot.activeRun) void this.#resume(snapshot.activeRun.since);
    else if (snapshot.failed && !snapshot.failed.message && this.#branch.unsent.length === 0)
      this.#addMetadata(this.chat.messages.at(-1)?.id, { error: snapshot.failed.error });
  }

  #adoptSnapshot(snapshot: ThreadSnapshot): ChatMessage[] {
    this.#branch.merge(snapshot);
    this.#workflow = snapshot.thread.workflow;
    return this.#branch.toMessages(this.#durations);
  }

  /** Stream the running run from its start. */
  async #resume(since: number | null): Promise<void> {
    const before = this.#finishCount;
    this.since = Math.min(since ?? Date.now(), Date.now());
    this.#resuming = true;
    this.#notifyChange();
    try {
      await this.chat.resumeStream();
    } finally {
      this.#resuming = false;
      this.#notifyChange();
    }
    if (this.#finishCount !== before) return;
    // Nothing to stream: the connection was lost, or the run has ended.
    this.#branch.isKnown = false;
    if (this.chat.status === 'error') await this.#recover();
    else setTimeout(() => void this.load(), 500);
  }

  #handleNotice(notice: Notice): void {
    if (notice.changed === 'thread' && notice.ref === this.thread) void this.load();
  }

  #handleFinish(message: ChatMessage, isDisconnect: boolean): void {
    const run = message.metadata?.runId;
    if (this.since && run) this.#durations.set(run, (Date.now() - this.since) / 1000);
    this.since = null;
    this.#finishCount += 1;
    this.#resuming = false;
    this.#branch.isKnown = false;
    if (this.chat.status !== 'error') this.#retryAction = null;
    // A lost connection is not a failed run: find out what happened to it.
    if (isDisconnect || this.chat.error instanceof ConnectionLost) void this.#recover();
    else void this.load();
  }

  async #recover(): Promise<void> {
    this.chat.clearError();
    for (let delayMs = 500; delayMs < RECOVERY_TIMEOUT_MS && !this.busy; delayMs *= 2) {
      await this.load();
      if (this.#branch.isKnown || this.problem) break;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
    const last = this.chat.messages.at(-1);
    if (this.#branch.isKnown && !this.busy && last?.role === 'user' && !last.metadata?.error) {
      this.#addMetadata(last.id, { error: { message: 'The connection was lost before an answer arrived.' } });
    }
  }

  #addMetadata(id: string | undefined, metadata: NonNullable<ChatMessage['metadata']>): void {
    this.chat.messages = this.chat.messages.map((message) =>
      message.id === id ? { ...message, metadata: { ...message.metadata, ...metadata } } : message,
    );
  }

  async #waitUntilIdle(milliseconds: number): Promise<boolean> {
    for (let elapsed = 0; elapsed < milliseconds && this.busy; elapsed += 20)
      await new Promise((resolve) => setTimeout(resolve, 20));
    return !this.busy;
  }

  #notifyChange(): void {
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
  branchEnd?: string | null;
  placement: () => CellPlacement;
  /** Create the thread of this cell. */
  createThread: () => Promise<Thread>;
  onForked: (thread: Thread) => void;
}

export interface CellName {
  row: string;
  column: string;
}

export const cellKey = ({ row, column }: CellName): string => `${row}.${column}`;

/** The inputs of a row that the workflow accepts. Columns may differ; messages come from the thread. */
export function acceptedInputs(
  inputs: Record<string, unknown>,
  schema: { properties?: unknown; additionalProperties?: unknown } | undefined,
): Record<string, unknown> {
  const { properties, additionalProperties } = schema ?? {};
  const accepted = properties && typeof properties === 'object' && additionalProperties === false ? properties : null;
  return Object.fromEntries(
    Object.entries(inputs).filter(([name]) => name !== 'messages' && (accepted === null || name in accepted)),
  );
}

/** Chats of a board's cells, created when first shown and kept while their row and column exist. */
export class CellChats {
  #store: BoardStore;
  #onForked: (thread: Thread) => void;
  #chats = new Map<string, { name: CellName; chat: CellChat }>();
  /** End of a cell's branch according to the URL. */
  #branchEnd: { cell: string; message: string } | null;

  constructor(
    store: BoardStore,
    onForked: (thread: Thread) => void,
    branchEnd: { cell: string; message: string } | null = null,
  ) {
    this.#store = store;
    this.#onForked = onForked;
    this.#branchEnd = branchEnd;
    store.state.subscribe(() => this.#handleBoardChange());
  }

  get(name: CellName): CellChat {
    const key = cellKey(name);
    const existing = this.#chats.get(key);
    if (existing) return existing.chat;
    const chat = this.#createChat(name);
    this.#chats.set(key, { name, chat });
    return chat;
  }

  /** Chats of all cells, in board order. */
  all(): CellChat[] {
    const { rows, columns } = this.#store.board;
    return rows.flatMap((row) => columns.map((column) => this.get({ row: row.id, column: column.id })));
  }

  /** Handle board changes: ids may be reused, and other tabs fill cells. */
  #handleBoardChange(): void {
    const { rows, columns } = this.#store.board;
    const exists = ({ row, column }: CellName) =>
      rows.some(({ id }) => id === row) && columns.some(({ id }) => id === column);
    for (const [key, { name }] of this.#chats) if (!exists(name)) this.#chats.delete(key);
    for (const { name, chat } of this.#chats.values()) {
      const thread = chat.thread === null ? this.#thread(name) : null;
      if (thread !== null) chat.adopt(thread);
    }
  }

  #thread({ row, column }: CellName): string | null {
    return this.#store.board.cells.find((cell) => cell.row === row && cell.column === column)?.thread ?? null;
  }

  #createChat({ row, column }: CellName): CellChat {
    const store = this.#store;
    const placement = () => {
      const {
        workflow = '',
        variant = 'default',
        parameters = {},
      } = store.board.columns.find((candidate) => candidate.id === column) ?? {};
      const { inputs = {} } = store.board.rows.find((candidate) => candidate.id === row) ?? {};
      const schema = queryClient.getQueryData(workflowQuery(workflow).queryKey)?.schemas.inputs;
      return { workflow, variant, parameters, inputs: acceptedInputs(inputs, schema) };
    };
    let attempt = generateId();
    return new CellChat({
      thread: this.#thread({ row, column }),
      branchEnd: this.#branchEnd?.cell === cellKey({ row, column }) ? this.#branchEnd.message : null,
      placement,
      createThread: async () => {
        const board = await store.ensure();
        const body = { ...placement(), cell: { board: board.id, row, column } };
        // Idempotent: a retry after a lost response returns the same thread.
        const thread = await api('post', '/api/threads', { body, headers: { 'idempotency-key': attempt } });
        attempt = generateId();
        store.fillCell(row, column, { thread: thread.id });
        return thread;
      },
      onForked: this.#onForked,
    });
  }
}
