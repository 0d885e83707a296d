/** Lists of messages and nodes as a cell shows them: made longer, shorter, or new without being drawn anew. Pure. */
import type { Node } from '@/api/types';
import type { ChatMessage } from '@/components/messages/message';
import { messagesOf } from '@/components/messages/nodes';

/** `after`, where a message that is as it was is the very same: what is the same is not drawn again. */
export function stable(before: readonly ChatMessage[], after: readonly ChatMessage[]): ChatMessage[] {
  const known = new Map(before.map((message) => [message.id, message]));
  return after.map((message) => {
    const same = known.get(message.id);
    return same && JSON.stringify(same) === JSON.stringify(message) ? same : message;
  });
}

/** The messages with what stands before them; a run's nodes may lie on both sides. `nodes` are those of `messages`. */
export function grown(messages: readonly ChatMessage[], before: readonly Node[], nodes: readonly Node[], busy: boolean): ChatMessage[] {
  const [first, ...rest] = messages;
  const own = nodes.filter((node) => first?.metadata?.nodes?.includes(node.id));
  // What is being said is the AI SDK's to change.
  if (!first || own.length === 0 || (busy && rest.length === 0)) return [...messagesOf(before), ...messages];
  const joined = messagesOf([...before, ...own]);
  return joined.at(-1)?.id === first.id ? [...joined.slice(0, -1), ...messages] : [...joined, ...rest];
}

/** The messages, where those that are in the thread now have their node's id: their own, unless somebody had that. */
export function kept(messages: readonly ChatMessage[], nodes: ReadonlyMap<string, Node | undefined>): ChatMessage[] {
  return messages.map((message) => {
    const node = nodes.get(message.id);
    const shown = node && messagesOf([node])[0];
    return shown ? { ...message, id: shown.id, ...(shown.metadata ? { metadata: shown.metadata } : {}) } : message;
  });
}

/** The branch without some of its nodes; what followed them has moved up. */
export function without(nodes: readonly Node[], gone: readonly string[]): Node[] {
  const parents = new Map(nodes.filter((node) => gone.includes(node.id)).map((node) => [node.id, node.parent]));
  const lifted = (parent: string | null): string | null => (parent !== null && parents.has(parent) ? lifted(parents.get(parent) ?? null) : parent);
  return nodes.flatMap((node) => (parents.has(node.id) ? [] : [{ ...node, parent: lifted(node.parent) }]));
}
