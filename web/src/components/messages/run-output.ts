/** Output of a run as text, tool calls and messages. */
import type { Schemas } from '@/api/client';
import type { Node, Run } from '@/api/types';
import type { ToolCall } from '@/lib/diff';
import { UNSTORED } from './nodes';

export type OutputMessage = Schemas['Message'];

export const hasEnded = ({ status }: Pick<Run, 'status'>): boolean => status !== 'queued' && status !== 'running';

/** Text as it is, the workflow's text of a conversation, anything else as JSON. */
export function outputText(run: Run): string {
  const { messages = [], value } = run.reply ?? {};
  if (typeof value === 'string') return value;
  if (value !== undefined && value !== null) return JSON.stringify(value, null, 2);
  return messages
    .filter(({ role }) => role === 'assistant')
    .map(({ parts }) =>
      parts.map((part) => (part.type === 'text' || part.type === 'refusal' ? part.text : '')).join(''),
    )
    .filter(Boolean)
    .join('\n\n');
}

export function outputCalls(run: Run): ToolCall[] {
  const messages = run.reply?.messages ?? [];
  return messages.flatMap(({ parts }) =>
    parts.flatMap((part) => (part.type === 'tool-call' ? [{ name: part.name, arguments: part.arguments ?? '' }] : [])),
  );
}

/** Messages as nodes, for components that show threads. */
export function outputNodes(
  messages: readonly OutputMessage[],
  run: Pick<Run, 'id' | 'status' | 'created_at'>,
): Node[] {
  return messages.map(({ role, parts, id, name, metadata }, place) => ({
    id: id ?? `${run.id}-${place}`,
    parent: null,
    role,
    parts,
    name: name ?? null,
    metadata: metadata ?? {},
    origin: 'run',
    run: role === 'user' ? null : run.id,
    status: run.status === 'running' ? 'streaming' : 'done',
    ...UNSTORED,
    created_at: run.created_at,
  }));
}

/** Duration in seconds, up to now while running; null before it started. */
export function runSeconds(run: Pick<Run, 'started_at' | 'ended_at'>, now: number): number | null {
  if (!run.started_at) return null;
  const end = run.ended_at ? Date.parse(run.ended_at) : now;
  return Math.max(0, (end - Date.parse(run.started_at)) / 1000);
}

export function runTokens(run: Pick<Run, 'usage'>): number | null {
  const { input_tokens: given, output_tokens: made } = run.usage ?? {};
  return typeof given === 'number' || typeof made === 'number' ? Number(given ?? 0) + Number(made ?? 0) : null;
}
