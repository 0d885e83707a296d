/** Parts of a message, grouped for display: consecutive citations share a row, as do files. */
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
  const groups: Group[] = [];
  for (const part of parts) {
    const last = groups.at(-1);
    if (part.type === 'text') groups.push({ kind: 'text', part });
    else if (part.type === 'reasoning') groups.push({ kind: 'reasoning', part });
    else if (part.type === 'source-url' || part.type === 'source-document') {
      if (last?.kind === 'sources') last.parts.push(part);
      else groups.push({ kind: 'sources', parts: [part] });
    } else if (part.type === 'file') {
      if (last?.kind === 'files') last.parts.push(part);
      else groups.push({ kind: 'files', parts: [part] });
    } else if (isTool(part)) groups.push({ kind: 'tool', part });
    else if (isData(part)) groups.push({ kind: 'data', part });
    // step-start, or a part of a newer server: nothing to show.
  }
  return groups;
}

const isTool = (part: ChatPart): part is ToolPart => part.type === 'dynamic-tool' || part.type.startsWith('tool-');
const isData = (part: ChatPart): part is DataPart => part.type.startsWith('data-');

/** Tool name as the workflow sent it. */
export const toolName = (part: ToolPart): string =>
  part.type === 'dynamic-tool' ? part.toolName : part.type.slice('tool-'.length);

/** Text of a message, for copying and editing. */
export const spokenText = (parts: readonly ChatPart[]): string =>
  parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n\n');

/** Whether the text part is a refusal. */
export function isRefusal(part: TextUIPart): boolean {
  return part.providerMetadata?.palaver?.refusal === true;
}

export interface PartProps {
  group: Group;
  /** Whether the message is still streaming. */
  streaming: boolean;
  /** Whether this is the part that streams. */
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

/** Finished calls are final; before that their arguments grow. */
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

export interface Notice {
  level: 'info' | 'warning';
  text: string;
}

/** Parse a notice; unknown levels are shown as info. */
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

/** Notices are shown above the answer. */
export const isNotice = (group: Group): boolean =>
  group.kind === 'data' && group.part.type === 'data-notice' && parseNotice(group.part.data) !== undefined;
