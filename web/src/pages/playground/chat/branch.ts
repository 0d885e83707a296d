/** What a cell knows of its branch, and what a person said here that is not in it yet. Asks no server. */
import type { Node } from '@/api/types';
import type { ChatMessage } from '@/components/messages/message';
import { lastNode, messagesOf, toNode } from '@/components/messages/nodes';
import type { ThreadSnapshot } from './thread-snapshot';

/** A person's word on a call, and the message that shows the call. */
export interface Approval {
  message: string;
  id: string;
  approve: boolean;
  reason?: string;
}

/** What of a list of messages is to be said. */
export interface PendingMessages {
  approvals: Approval[];
  messages: ChatMessage[];
}

export class Branch {
  /** As last read, oldest first; and the head of its thread then. */
  nodes: Node[] = [];
  head: string | null = null;
  /** Do they end where the branch does? Not before it is read, nor while a run adds to it. */
  isKnown = false;
  unsaid: ChatMessage[] = [];
  approvals: Approval[] = [];
  /** The nodes of approvals that are said and not read back yet, by the message that shows them. */
  #approved = new Map<string, string>();

  /** The node before the first, null at the beginning of the thread. */
  get older(): string | null {
    return this.nodes[0]?.parent ?? null;
  }

  /** What was read, joined to what had been read before it. */
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

  /** Only what is in the list: one that is asked again may end before it. */
  newIn(messages: readonly ChatMessage[]): PendingMessages {
    const listed = new Set(messages.map((message) => message.id));
    return {
      approvals: this.approvals.filter(({ message }) => listed.has(message)),
      messages: this.unsaid.filter(({ id }) => listed.has(id)),
    };
  }

  /** What was said is in the thread now, as these nodes; by message. */
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

  /** The node that a list of messages ends with, to be answered or gone on from. */
  end(messages: readonly ChatMessage[]): string | null {
    const last = messages.findLast((message) => message.metadata?.nodes?.length);
    return this.#approved.get(last?.id ?? '') ?? lastNode(messages) ?? this.older;
  }

  /** As messages; how long a run took is told where it was measured here and the server does not say. */
  shown(seconds: ReadonlyMap<string, number>): ChatMessage[] {
    const messages = messagesOf(this.nodes);
    for (const { role, metadata } of messages) {
      const measured = seconds.get(metadata?.runId ?? '');
      if (role === 'assistant' && metadata && measured !== undefined) metadata.seconds ??= measured;
    }
    return messages;
  }

  /** What is not said yet; unless somebody is about to, it tells so. */
  waiting(isSaying: boolean): ChatMessage[] {
    if (isSaying) return this.unsaid;
    return this.unsaid.map((message) => ({ ...message, metadata: { error: { message: 'This was not sent.' } } }));
  }

  /** The last node that the run of a message said. */
  rated({ metadata }: ChatMessage): string | undefined {
    return this.nodes.findLast((node) => node.run !== null && node.run === metadata?.runId)?.id;
  }
}

/** For the server. Words on calls come before anything else that is said after them. */
export const messagesBody = ({ approvals, messages }: PendingMessages): object[] => [
  ...approvals.map(approval),
  ...messages.map(toNode),
];

const approval = ({ id, approve, reason }: Approval) => ({
  role: 'user',
  parts: [{ type: 'data', name: 'approval-response', value: { id, approve, ...(reason ? { reason } : {}) } }],
});

/** `after`, where a message that is as it was is the very same: what is the same is not drawn again. */
export function reuseMessages(before: readonly ChatMessage[], after: readonly ChatMessage[]): ChatMessage[] {
  const known = new Map(before.map((message) => [message.id, message]));
  return after.map((message) => {
    const same = known.get(message.id);
    return same && JSON.stringify(same) === JSON.stringify(message) ? same : message;
  });
}

/** The messages with what stands before them; a run's nodes may lie on both sides. `nodes` are those of `messages`. */
export function prependOlder(
  messages: readonly ChatMessage[],
  before: readonly Node[],
  nodes: readonly Node[],
  busy: boolean,
): ChatMessage[] {
  const [first, ...rest] = messages;
  const own = nodes.filter((node) => first?.metadata?.nodes?.includes(node.id));
  // What is being said is the AI SDK's to change.
  if (!first || own.length === 0 || (busy && rest.length === 0)) return [...messagesOf(before), ...messages];
  const joined = messagesOf([...before, ...own]);
  return joined.at(-1)?.id === first.id ? [...joined.slice(0, -1), ...messages] : [...joined, ...rest];
}

/** The messages, where those that are in the thread now have their node's id: their own, unless somebody had that. */
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

/** The branch without some of its nodes; what followed them has moved up. */
export function withoutNodes(nodes: readonly Node[], gone: readonly string[]): Node[] {
  const parents = new Map(nodes.filter((node) => gone.includes(node.id)).map((node) => [node.id, node.parent]));
  const lifted = (parent: string | null): string | null =>
    parent !== null && parents.has(parent) ? lifted(parents.get(parent) ?? null) : parent;
  return nodes.flatMap((node) => (parents.has(node.id) ? [] : [{ ...node, parent: lifted(node.parent) }]));
}
