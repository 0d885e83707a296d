/** The parts of a message in the order they are shown: citations that follow each other make one row, files too. */
import {
  type DataUIPart,
  type DynamicToolUIPart,
  type FileUIPart,
  type ReasoningUIPart,
  type SourceDocumentUIPart,
  type SourceUrlUIPart,
  type TextUIPart,
  type ToolUIPart,
  type UIDataTypes,
  isDeepEqualData,
} from 'ai';
import type { ChatPart, MessageActions } from './message';

export type Source = SourceUrlUIPart | SourceDocumentUIPart;
export type ToolPart = ToolUIPart | DynamicToolUIPart;
export type DataPart = DataUIPart<UIDataTypes>;

export type Group =
  | { kind: 'text'; part: TextUIPart }
  | { kind: 'reasoning'; part: ReasoningUIPart }
  | { kind: 'tool'; part: ToolPart }
  | { kind: 'data'; part: DataPart }
  | { kind: 'sources'; parts: Source[] }
  | { kind: 'files'; parts: FileUIPart[] };

export function groupParts(parts: readonly ChatPart[]): Group[] {
  const found: Group[] = [];
  for (const part of parts) {
    const last = found.at(-1);
    if (part.type === 'text') found.push({ kind: 'text', part });
    else if (part.type === 'reasoning') found.push({ kind: 'reasoning', part });
    else if (part.type === 'source-url' || part.type === 'source-document') {
      if (last?.kind === 'sources') last.parts.push(part);
      else found.push({ kind: 'sources', parts: [part] });
    } else if (part.type === 'file') {
      if (last?.kind === 'files') last.parts.push(part);
      else found.push({ kind: 'files', parts: [part] });
    } else if (isTool(part)) found.push({ kind: 'tool', part });
    else if (isData(part)) found.push({ kind: 'data', part });
    // step-start, and what a newer server may send: nothing to see.
  }
  return found;
}

const isTool = (part: ChatPart): part is ToolPart => part.type === 'dynamic-tool' || part.type.startsWith('tool-');
const isData = (part: ChatPart): part is DataPart => part.type.startsWith('data-');

/** The tool's name as the workflow says it. */
export const toolName = (part: ToolPart): string =>
  part.type === 'dynamic-tool' ? part.toolName : part.type.slice('tool-'.length);

/** What a message says in words, to copy or to edit. */
export const spokenText = (parts: readonly ChatPart[]): string =>
  parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n\n');

/** Does a text part say that the model refused? */
export function isRefusal(part: TextUIPart): boolean {
  return part.providerMetadata?.palaver?.refusal === true;
}

/**
 * Is there anything new to draw of a part? Compared by what it says: the chat copies the whole message with every
 * token.
 */
export interface PartProps {
  group: Group;
  /** The message is still being written. */
  streaming: boolean;
  /** It is what is being written now. */
  last: boolean;
  approve: MessageActions['approve'];
}

export function isPartUnchanged(before: PartProps, now: PartProps): boolean {
  return (
    before.streaming === now.streaming &&
    before.last === now.last &&
    before.approve === now.approve &&
    isSamePart(before.group, now.group)
  );
}

function isSamePart(before: Group, now: Group): boolean {
  if (before === now) return true;
  if (before.kind === 'text' && now.kind === 'text') return before.part.text === now.part.text;
  if (before.kind === 'reasoning' && now.kind === 'reasoning')
    return before.part.text === now.part.text && before.part.state === now.part.state;
  if (before.kind === 'tool' && now.kind === 'tool') return isSameTool(before.part, now.part);
  if (before.kind === 'data' && now.kind === 'data')
    return before.part.type === now.part.type && isDeepEqualData(before.part.data, now.part.data);
  return before.kind === now.kind && isDeepEqualData(before, now);
}

/** A call that is over does not change any more; before that its arguments grow. */
function isSameTool(before: ToolPart, now: ToolPart): boolean {
  if (before === now) return true;
  if (before.toolCallId !== now.toolCallId || before.state !== now.state) return false;
  if (
    now.state === 'output-error' ||
    now.state === 'output-denied' ||
    (now.state === 'output-available' && !now.preliminary)
  )
    return true;
  return isDeepEqualData(before, now);
}

/** A word about an answer rather than of it (data part `notice`), read with care. */
export interface Notice {
  level: 'info' | 'warning';
  text: string;
}

/** The part's value if it is one; a level that is not known is said quietly. */
export function parseNotice(value: unknown): Notice | undefined {
  if (
    typeof value !== 'object' ||
    value === null ||
    !('text' in value) ||
    typeof value.text !== 'string' ||
    !value.text.trim()
  )
    return undefined;
  return { level: 'level' in value && value.level === 'warning' ? 'warning' : 'info', text: value.text };
}

/** Stands above the answer, wherever in it it was said. */
export const isNotice = (group: Group): boolean =>
  group.kind === 'data' && group.part.type === 'data-notice' && parseNotice(group.part.data) !== undefined;
