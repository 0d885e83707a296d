/** The branch of a cell as last read, and messages that are not stored yet. Does not call the server. */
import type { Node } from '@/api/types';
import type { ChatMessage } from '@/components/messages/message';
import { lastNode, messagesOf, toNode } from '@/components/messages/nodes';
import type { ThreadSnapshot } from './thread-snapshot';

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

export class Branch {
  /** Nodes as last read, oldest first, and the head at that time. */
  nodes: Node[] = [];
  head: string | null = null;
  /** Whether the nodes reach the end of the branch; false before the first read and during a run. */
  isKnown = false;
  unsaid: ChatMessage[] = [];
  approvals: Approval[] = [];
  /** Stored approvals that were not read back yet, by message. */
  #approved = new Map<string, string>();

  /** Node before the first one; null at the start of the thread. */
  get older(): string | null {
    return this.nodes[0]?.parent ?? null;
  }

  /** Merge nodes that were read with those known before. */
  take({ thread, nodes }: Pick<ThreadSnapshot, 'thread' | 'nodes'>): void {
    const first = this.nodes.findIndex((node) => node.id === nodes[0]?.id);
    const before = first > 0 && this.nodes[first - 1]?.id === nodes[0]?.parent ? this.nodes.slice(0, first) : [];
    this.nodes = [...before, ...nodes];
    this.head = thread.head;
    this.isKnown = true;
    this.#approved.clear();
    const here = new Set(nodes.map((node) => node.id));
    this.unsaid = this.unsaid.filter((message) => !here.has(message.id));
  }

  remove(gone: readonly string[]): void {
    this.nodes = withoutNodes(this.nodes, gone);
  }

  /** What of the messages is not stored yet. A rerun may end before it. */
  newIn(messages: readonly ChatMessage[]): PendingMessages {
    const listed = new Set(messages.map((message) => message.id));
    return {
      approvals: this.approvals.filter(({ message }) => listed.has(message)),
      messages: this.unsaid.filter(({ id }) => listed.has(id)),
    };
  }

  /** Record stored nodes; returns them by message. */
  note(said: PendingMessages, nodes: readonly Node[]): Map<string, Node | undefined> {
    for (const [place, { message }] of said.approvals.entries()) {
      const node = nodes[place];
      if (node) this.#approved.set(message, node.id);
    }
    const noted = new Map(said.messages.map((message, place) => [message.id, nodes[said.approvals.length + place]]));
    this.unsaid = this.unsaid.filter((message) => !noted.has(message.id));
    this.approvals = this.approvals.filter((one) => !said.approvals.includes(one));
    const here = new Set(this.nodes.map((node) => node.id));
    this.nodes = [...this.nodes, ...nodes.filter((node) => !here.has(node.id))];
    this.head = nodes.at(-1)?.id ?? this.head;
    this.isKnown = true;
    return noted;
  }

  /** Node at the end of the messages, to answer or continue. */
  end(messages: readonly ChatMessage[]): string | null {
    const last = messages.findLast((message) => message.metadata?.nodes?.length);
    return this.#approved.get(last?.id ?? '') ?? lastNode(messages) ?? this.older;
  }

  /** The branch as messages; durations measured here fill in for missing ones. */
  shown(seconds: ReadonlyMap<string, number>): ChatMessage[] {
    const messages = messagesOf(this.nodes);
    for (const { role, metadata } of messages) {
      const measured = seconds.get(metadata?.runId ?? '');
      if (role === 'assistant' && metadata && measured !== undefined) metadata.seconds ??= measured;
    }
    return messages;
  }

  /** Messages that are not stored yet; marked as failed unless they are being sent. */
  waiting(isSaying: boolean): ChatMessage[] {
    if (isSaying) return this.unsaid;
    return this.unsaid.map((message) => ({ ...message, metadata: { error: { message: 'This was not sent.' } } }));
  }

  /** Last node of the message's run. */
  rated({ metadata }: ChatMessage): string | undefined {
    return this.nodes.findLast((node) => node.run !== null && node.run === metadata?.runId)?.id;
  }
}

/** Request body. Approvals come first. */
export const messagesBody = ({ approvals, messages }: PendingMessages): object[] => [
  ...approvals.map(approval),
  ...messages.map(toNode),
];

const approval = ({ id, approve, reason }: Approval) => ({
  role: 'user',
  parts: [{ type: 'data', name: 'approval-response', value: { id, approve, ...(reason ? { reason } : {}) } }],
});

/** `after` with unchanged messages replaced by their previous objects, so that they don't render again. */
export function reuseMessages(before: readonly ChatMessage[], after: readonly ChatMessage[]): ChatMessage[] {
  const known = new Map(before.map((message) => [message.id, message]));
  return after.map((message) => {
    const same = known.get(message.id);
    return same && JSON.stringify(same) === JSON.stringify(message) ? same : message;
  });
}

/** Prepend older nodes; a run's nodes may be on both sides. `nodes` are those of `messages`. */
export function prependOlder(
  messages: readonly ChatMessage[],
  before: readonly Node[],
  nodes: readonly Node[],
  busy: boolean,
): ChatMessage[] {
  const [first, ...rest] = messages;
  const own = nodes.filter((node) => first?.metadata?.nodes?.includes(node.id));
  // The AI SDK owns messages that stream.
  if (!first || own.length === 0 || (busy && rest.length === 0)) return [...messagesOf(before), ...messages];
  const joined = messagesOf([...before, ...own]);
  return joined.at(-1)?.id === first.id ? [...joined.slice(0, -1), ...messages] : [...joined, ...rest];
}

/** Messages with the ids of their stored nodes. */
export function keepKnownMessages(
  messages: readonly ChatMessage[],
  nodes: ReadonlyMap<string, Node | undefined>,
): ChatMessage[] {
  return messages.map((message) => {
    const node = nodes.get(message.id);
    const shown = node && messagesOf([node])[0];
    return shown ? { ...message, id: shown.id, ...(shown.metadata ? { metadata: shown.metadata } : {}) } : message;
  });
}

/** The branch without these nodes; later nodes move up. */
export function withoutNodes(nodes: readonly Node[], gone: readonly string[]): Node[] {
  const parents = new Map(nodes.filter((node) => gone.includes(node.id)).map((node) => [node.id, node.parent]));
  const lifted = (parent: string | null): string | null =>
    parent !== null && parents.has(parent) ? lifted(parents.get(parent) ?? null) : parent;
  return nodes.flatMap((node) => (parents.has(node.id) ? [] : [{ ...node, parent: lifted(node.parent) }]));
}
