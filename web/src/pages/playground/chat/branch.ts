/** The branch of a thread that a cell shows: its nodes on the server, and messages that are not stored yet. */
import { ApiError, api, type Node, type Run, type Thread } from '@/api/client';
import type { ChatMessage } from '@/components/messages/message';
import { UNSTORED, messagesOf, lastNode, toNode } from '@/components/messages/nodes';
import { serverPath } from '@/lib/server-path';

/** Nodes of the first page, and of each older page. */
const INITIAL_NODES = 60;
const NODES_PER_PAGE = 20;

export interface ThreadSnapshot {
  thread: Thread;
  /** Finished nodes, oldest first. */
  nodes: Node[];
  /** The run that answers the last node. */
  activeRun: { since: number | null } | null;
  /** Failed run that answered the last node, and its output if any. */
  failed: { error: { message: string; code?: string }; message: ChatMessage | null } | null;
}

/** `branchEnd`: last node of the branch; null for the thread's head. */
export async function fetchSnapshot(id: string, branchEnd: string | null): Promise<ThreadSnapshot> {
  const [thread, page] = await Promise.all([
    api('get', '/api/threads/{thread}', { path: { thread: id } }),
    fetchBranch(id, branchEnd ?? 'head', INITIAL_NODES),
  ]);
  const nodes = page.filter((node) => node.status !== 'streaming');
  const end = nodes.at(-1);
  const run = thread.run ? await findRunningRun(thread.run) : null;
  // A run that is too new to be found answers the head, like nearly all.
  const isAnswering = thread.run !== null && (run ? run.answers === (end?.id ?? null) : branchEnd === null);
  return {
    thread,
    nodes,
    activeRun: isAnswering ? { since: run ? Date.parse(run.created_at) : null } : null,
    failed: !isAnswering && end?.role === 'user' ? await fetchFailure(id, end.id) : null,
  };
}

/** A page of a branch that ends at this node. */
export async function fetchBranch(thread: string, end: string, limit = NODES_PER_PAGE): Promise<Node[]> {
  return (await api('get', '/api/threads/{thread}/messages', { path: { thread }, query: { at: end, limit } })).data;
}

/** Cancel the run of a thread, if any; resolves once its end is stored. */
export async function cancelRun(workflow: string, thread: string): Promise<void> {
  // If this fails, the next read of the thread shows it.
  await fetch(serverPath(`/${encodeURIComponent(workflow)}/api/chat/${thread}/stop`), { method: 'POST' }).catch(
    () => {},
  );
}

async function findRunningRun(run: string): Promise<Run | null> {
  try {
    return await api('get', '/api/runs/{run}', { path: { run } });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Fetch the failed run that answered the question, if any; its output is not part of the branch. */
async function fetchFailure(thread: string, question: string): Promise<ThreadSnapshot['failed']> {
  const [last] = (await api('get', '/api/runs', { query: { thread, limit: 1 } })).data;
  if (last?.answers !== question || last.status !== 'failed') return null;
  const run = await api('get', '/api/runs/{run}', { path: { run: last.id }, query: { include: 'reply' } });
  const code = run.error?.['code'];
  const error = {
    message: String(run.error?.['message'] ?? 'The run failed.'),
    ...(typeof code === 'string' ? { code } : {}),
  };
  const toFailedNode = (message: Pick<Node, 'role' | 'parts'> & { id?: string | null }, index: number): Node => ({
    id: message.id ?? `${run.id}.${index}`,
    parent: question,
    role: message.role,
    parts: message.parts,
    name: null,
    metadata: {},
    origin: 'run',
    run: run.id,
    status: 'failed',
    ...UNSTORED,
    created_at: run.created_at,
  });
  const failedNodes = (run.reply?.messages ?? []).map(toFailedNode);
  const [message] = messagesOf(failedNodes);
  return {
    error,
    message: message?.parts.length ? { ...message, metadata: { runId: run.id, status: 'failed', error } } : null,
  };
}

/** An approval, and the message that shows its call. */
export interface Approval {
  message: string;
  id: string;
  approve: boolean;
  reason?: string;
}

/** Messages and approvals to store. */
export interface PendingMessages {
  approvals: Approval[];
  messages: ChatMessage[];
}

/** The branch of a cell as last read, and messages that are not stored yet. Does not call the server. */
export class Branch {
  /** Nodes as last read, oldest first, and the head at that time. */
  nodes: Node[] = [];
  head: string | null = null;
  /** Whether the nodes reach the end of the branch; false before the first read and during a run. */
  isKnown = false;
  unsent: ChatMessage[] = [];
  approvals: Approval[] = [];
  /** Stored approvals that were not read back yet, by message. */
  #approved = new Map<string, string>();

  /** Node before the first one; null at the start of the thread. */
  get older(): string | null {
    return this.nodes[0]?.parent ?? null;
  }

  /** Merge nodes that were read with those known before. */
  merge({ thread, nodes }: Pick<ThreadSnapshot, 'thread' | 'nodes'>): void {
    const start = this.nodes.findIndex((node) => node.id === nodes[0]?.id);
    const older = start > 0 && this.nodes[start - 1]?.id === nodes[0]?.parent ? this.nodes.slice(0, start) : [];
    this.nodes = [...older, ...nodes];
    this.head = thread.head;
    this.isKnown = true;
    this.#approved.clear();
    const nodeIds = new Set(nodes.map((node) => node.id));
    this.unsent = this.unsent.filter((message) => !nodeIds.has(message.id));
  }

  remove(removed: readonly string[]): void {
    this.nodes = withoutNodes(this.nodes, removed);
  }

  /** What of the messages is not stored yet. A rerun may end before it. */
  unsentIn(messages: readonly ChatMessage[]): PendingMessages {
    const messageIds = new Set(messages.map((message) => message.id));
    return {
      approvals: this.approvals.filter(({ message }) => messageIds.has(message)),
      messages: this.unsent.filter(({ id }) => messageIds.has(id)),
    };
  }

  /** Record stored nodes; returns them by message. */
  recordStored(sent: PendingMessages, nodes: readonly Node[]): Map<string, Node | undefined> {
    for (const [index, { message }] of sent.approvals.entries()) {
      const node = nodes[index];
      if (node) this.#approved.set(message, node.id);
    }
    const stored = new Map(sent.messages.map((message, index) => [message.id, nodes[sent.approvals.length + index]]));
    this.unsent = this.unsent.filter((message) => !stored.has(message.id));
    this.approvals = this.approvals.filter((other) => !sent.approvals.includes(other));
    const nodeIds = new Set(this.nodes.map((node) => node.id));
    this.nodes = [...this.nodes, ...nodes.filter((node) => !nodeIds.has(node.id))];
    this.head = nodes.at(-1)?.id ?? this.head;
    this.isKnown = true;
    return stored;
  }

  /** Node at the end of the messages, to answer or continue. */
  end(messages: readonly ChatMessage[]): string | null {
    const last = messages.findLast((message) => message.metadata?.nodes?.length);
    return this.#approved.get(last?.id ?? '') ?? lastNode(messages) ?? this.older;
  }

  /** The branch as messages; durations measured here fill in for missing ones. */
  toMessages(seconds: ReadonlyMap<string, number>): ChatMessage[] {
    const messages = messagesOf(this.nodes);
    for (const { role, metadata } of messages) {
      const measured = seconds.get(metadata?.runId ?? '');
      if (role === 'assistant' && metadata && measured !== undefined) metadata.seconds ??= measured;
    }
    return messages;
  }

  /** Messages that are not stored yet; marked as failed unless they are being sent. */
  unsentMessages(isSending: boolean): ChatMessage[] {
    if (isSending) return this.unsent;
    return this.unsent.map((message) => ({
      ...message,
      metadata: { error: { message: 'This message was not sent.' } },
    }));
  }

  /** Last node of the message's run. */
  lastRunNode({ metadata }: ChatMessage): string | undefined {
    return this.nodes.findLast((node) => node.run !== null && node.run === metadata?.runId)?.id;
  }
}

/** Request body. Approvals come first. */
export const messagesBody = ({ approvals, messages }: PendingMessages): object[] => [
  ...approvals.map(approvalBody),
  ...messages.map(toNode),
];

const approvalBody = ({ id, approve, reason }: Approval) => ({
  role: 'user',
  parts: [{ type: 'data', name: 'approval-response', value: { id, approve, ...(reason ? { reason } : {}) } }],
});

/** `after` with unchanged messages replaced by their previous objects, so that they don't render again. */
export function reuseMessages(before: readonly ChatMessage[], after: readonly ChatMessage[]): ChatMessage[] {
  const previous = new Map(before.map((message) => [message.id, message]));
  return after.map((message) => {
    const match = previous.get(message.id);
    return match && JSON.stringify(match) === JSON.stringify(message) ? match : message;
  });
}

/** Prepend older nodes; a run's nodes may be on both sides. `nodes` are those of `messages`. */
export function prependOlder(
  messages: readonly ChatMessage[],
  older: readonly Node[],
  nodes: readonly Node[],
  busy: boolean,
): ChatMessage[] {
  const [first, ...later] = messages;
  const firstNodes = nodes.filter((node) => first?.metadata?.nodes?.includes(node.id));
  // The AI SDK owns messages that stream.
  if (!first || firstNodes.length === 0 || (busy && later.length === 0)) return [...messagesOf(older), ...messages];
  const merged = messagesOf([...older, ...firstNodes]);
  return merged.at(-1)?.id === first.id ? [...merged.slice(0, -1), ...messages] : [...merged, ...later];
}

/** Give messages the ids and metadata of their stored nodes. */
export function assignStoredIds(
  messages: readonly ChatMessage[],
  nodes: ReadonlyMap<string, Node | undefined>,
): ChatMessage[] {
  return messages.map((message) => {
    const node = nodes.get(message.id);
    const storedMessage = node && messagesOf([node])[0];
    return storedMessage
      ? { ...message, id: storedMessage.id, ...(storedMessage.metadata ? { metadata: storedMessage.metadata } : {}) }
      : message;
  });
}

/** The branch without these nodes; later nodes move up. */
export function withoutNodes(nodes: readonly Node[], removed: readonly string[]): Node[] {
  const parents = new Map(nodes.filter((node) => removed.includes(node.id)).map((node) => [node.id, node.parent]));
  const remainingParent = (parent: string | null): string | null =>
    parent !== null && parents.has(parent) ? remainingParent(parents.get(parent) ?? null) : parent;
  return nodes.flatMap((node) => (parents.has(node.id) ? [] : [{ ...node, parent: remainingParent(node.parent) }]));
}
