/** The parts of a message in the order they are shown: citations that follow each other make one row, files too. */
import type { DataUIPart, DynamicToolUIPart, FileUIPart, ReasoningUIPart, SourceDocumentUIPart, SourceUrlUIPart, TextUIPart, ToolUIPart, UIDataTypes } from 'ai';
import type { ChatPart } from '@/chat/message';

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

export function groups(parts: readonly ChatPart[]): Group[] {
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
export const toolName = (part: ToolPart): string => (part.type === 'dynamic-tool' ? part.toolName : part.type.slice('tool-'.length));

/** What a message says in words, to copy or to edit. */
export const spoken = (parts: readonly ChatPart[]): string =>
  parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n\n');

/** Does a text part say that the model refused? */
export function refused(part: TextUIPart): boolean {
  return part.providerMetadata?.palaver?.refusal === true;
}
