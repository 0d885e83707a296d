/** What a tool call has come to, in one word, and the line that says so when the card is folded. */
import { summary } from './json-shape';
import type { ToolPart } from './part-groups';

export type ToolState = 'running' | 'waiting' | 'done' | 'failed' | 'denied' | 'stopped';

/** `live`: the answer it stands in still streams. A call that nobody will finish any more is stopped. */
export function toolState(part: ToolPart, live: boolean): ToolState {
  switch (part.state) {
    case 'approval-requested':
      return 'waiting';
    case 'output-available':
      return part.preliminary && live ? 'running' : 'done';
    case 'output-error':
      return 'failed';
    case 'output-denied':
      return 'denied';
    case 'approval-responded':
      return part.approval.approved ? (live ? 'running' : 'done') : 'denied';
    case 'input-streaming':
      return live ? 'running' : 'stopped';
    case 'input-available':
      // A call for the client to answer stands open when the stream is over.
      return live ? 'running' : part.providerExecuted ? 'stopped' : 'waiting';
  }
}

/** The arguments as they are so far: a value, or the text of one that is not whole. */
export function toolInput(part: ToolPart): { value: unknown } | { text: string } | undefined {
  if (part.state === 'input-streaming') return part.rawInput ? { text: part.rawInput } : shown(part.input);
  return shown(part.input ?? ('rawInput' in part ? part.rawInput : undefined));
}

const shown = (input: unknown): { value: unknown } | { text: string } | undefined =>
  input === undefined ? undefined : typeof input === 'string' ? { text: input } : { value: input };

/** One line beside the name: what it was asked, and what came of it. */
export function toolLine(part: ToolPart): string {
  if (part.state === 'output-available') return summary(part.output, 120);
  if (part.state === 'output-error') return part.errorText.split('\n', 1)[0]?.slice(0, 160) ?? '';
  if (part.state === 'output-denied') return part.approval.reason ?? '';
  const input = toolInput(part);
  return input === undefined ? '' : 'text' in input ? input.text.slice(-120) : summary(input.value, 120);
}
