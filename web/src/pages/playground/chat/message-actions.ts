/** Actions on messages of a thread. Each calls the server and reloads. */
import type { Chat } from '@ai-sdk/react';
import { ApiError, api, type Thread } from '@/api/client';
import { addToTestSet } from '@/components/add-to-testset';
import type { ChatMessage, ChatPart, MessageActions } from '@/components/messages/message';
import { toNode } from '@/components/messages/nodes';

/** What the actions need from their cell. */
export interface MessageActionsOptions {
  chat: Chat<ChatMessage>;
  newId: () => string;
  load: () => Promise<void>;
  onForked: (thread: Thread) => void;
  /** Answer a question again, or replace an answer. */
  rerun: (id: string) => Promise<void>;
  /** Run again after a failure. */
  retry: () => Promise<void>;
  /** Show the branch that ends at this node; null for the head. */
  showBranch: (node: string | null) => void;
  /** Called with deleted nodes. */
  onRemoved: (nodes: readonly string[]) => void;
  /** Last node of the message's run. */
  lastRunNode: (message: ChatMessage) => string | undefined;
  approve: (message: ChatMessage, id: string, approved: boolean, reason?: string) => Promise<void>;
}

export class MessageActionHandlers {
  #cell: MessageActionsOptions;
  #cache = new WeakMap<ChatMessage, { thread: string | null; actions: MessageActions }>();

  constructor(cell: MessageActionsOptions) {
    this.#cell = cell;
  }

  /** Actions on a message; stable identity until something changes. Empty without a thread. */
  actionsOf(message: ChatMessage, thread: string | null): MessageActions {
    const cached = this.#cache.get(message);
    if (cached?.thread === thread) return cached.actions;
    const actions = thread === null ? {} : actionsFor(thread, message, this.#cell);
    this.#cache.set(message, { thread, actions });
    return actions;
  }
}

function actionsFor(thread: string, message: ChatMessage, cell: MessageActionsOptions): MessageActions {
  const { nodes = [], parent = null, runId } = message.metadata ?? {};
  const [first] = nodes;
  const last = nodes.at(-1);
  const isAnswer = message.role === 'assistant';
  // A message that is not stored can only be retried.
  if (!first || !last) return isAnswer || message.metadata?.error ? { rerun: cell.retry } : {};
  return {
    // An answer without a question cannot be given again.
    ...(isAnswer && parent === null ? {} : { rerun: () => cell.rerun(message.id) }),
    show: (node) => showVersion(thread, node, cell),
    fork: async () =>
      cell.onForked(await api('post', '/api/threads/{thread}/duplicate', { path: { thread }, body: { upto: last } })),
    addToTestSet: () => addToTestSet({ kind: 'conversation', id: thread, upto: last }),
    remove: () => deleteMessage(thread, nodes, cell),
    edit: (text) => editMessage(thread, message, first, text, cell),
    ...(runId && isAnswer ? { rate: (rating, comment) => rateMessage(message, runId, rating, comment, cell) } : {}),
    approve: (id, approved, reason) => cell.approve(message, id, approved, reason),
  };
}

async function editMessage(
  thread: string,
  message: ChatMessage,
  node: string,
  text: string,
  cell: MessageActionsOptions,
): Promise<void> {
  const parts: ChatPart[] = [...message.parts.filter((part) => part.type === 'file'), { type: 'text', text }];
  const role = message.metadata?.role;
  const edited: ChatMessage = { id: cell.newId(), role: message.role, parts, ...(role ? { metadata: { role } } : {}) };
  await api('post', '/api/threads/{thread}/messages', {
    path: { thread },
    body: { messages: [toNode(edited)], replaces: node },
  });
  cell.showBranch(null);
  await cell.load();
  if (message.role !== 'user') return;
  if (!cell.chat.messages.some((other) => other.id === edited.id))
    throw new Error('Saved, but not sent to the workflow because the thread could not be loaded.');
  await cell.rerun(edited.id);
}

/** Deletes from the last node on; the nodes after it move up. */
async function deleteMessage(thread: string, nodes: readonly string[], cell: MessageActionsOptions): Promise<void> {
  try {
    for (const message of nodes.toReversed()) {
      await api('delete', '/api/threads/{thread}/messages/{message}', {
        path: { thread, message },
        query: { below: 'keep' },
      });
    }
    cell.onRemoved(nodes);
  } finally {
    await cell.load();
  }
}

async function showVersion(thread: string, node: string, cell: MessageActionsOptions): Promise<void> {
  cell.showBranch(null);
  try {
    await api('patch', '/api/threads/{thread}', { path: { thread }, body: { head: { through: node } } });
  } catch (error) {
    // Output of a failed run cannot be the current branch, but can be shown.
    if (!(error instanceof ApiError) || error.status !== 422) throw error;
    cell.showBranch(node);
  }
  await cell.load();
}

async function rateMessage(
  message: ChatMessage,
  run: string,
  rating: 'up' | 'down' | null,
  comment: string | undefined,
  cell: MessageActionsOptions,
): Promise<void> {
  const node = cell.lastRunNode(message);
  await api('put', '/api/runs/{run}/feedback', {
    path: { run },
    body: { rating, ...(comment ? { comment } : {}), ...(node ? { message: node } : {}) },
  });
  cell.chat.messages = cell.chat.messages.map((other) =>
    other.id === message.id
      ? {
          ...other,
          metadata: {
            ...other.metadata,
            feedback: feedbackCounts(other.metadata?.feedback ?? { up: 0, down: 0 }, rating),
          },
        }
      : other,
  );
}

function feedbackCounts(counts: { up: number; down: number; mine?: 'up' | 'down' | null }, mine: 'up' | 'down' | null) {
  const up = counts.up - (counts.mine === 'up' ? 1 : 0) + (mine === 'up' ? 1 : 0);
  const down = counts.down - (counts.mine === 'down' ? 1 : 0) + (mine === 'down' ? 1 : 0);
  return { up, down, mine };
}
