/** Is there anything new to draw of a part? Compared by what it says: the chat copies the whole message with every token. */
import { isDeepEqualData } from 'ai';
import type { MessageActs } from '@/chat/message';
import type { Group, ToolPart } from './part-groups';

export interface PartProps {
  group: Group;
  /** The message is still being written. */
  streaming: boolean;
  /** It is what is being written now. */
  last: boolean;
  approve: MessageActs['approve'];
}

export function unchanged(before: PartProps, now: PartProps): boolean {
  return before.streaming === now.streaming && before.last === now.last && before.approve === now.approve && same(before.group, now.group);
}

function same(before: Group, now: Group): boolean {
  if (before === now) return true;
  if (before.kind === 'text' && now.kind === 'text') return before.part.text === now.part.text;
  if (before.kind === 'reasoning' && now.kind === 'reasoning') return before.part.text === now.part.text && before.part.state === now.part.state;
  if (before.kind === 'tool' && now.kind === 'tool') return sameTool(before.part, now.part);
  if (before.kind === 'data' && now.kind === 'data') return before.part.type === now.part.type && isDeepEqualData(before.part.data, now.part.data);
  return before.kind === now.kind && isDeepEqualData(before, now);
}

/** A call that is over does not change any more; before that its arguments grow. */
function sameTool(before: ToolPart, now: ToolPart): boolean {
  if (before === now) return true;
  if (before.toolCallId !== now.toolCallId || before.state !== now.state) return false;
  if (now.state === 'output-error' || now.state === 'output-denied' || (now.state === 'output-available' && !now.preliminary)) return true;
  return isDeepEqualData(before, now);
}
