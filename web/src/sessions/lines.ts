/** A session's tabs as whole conversations: each but the first begins with what it shares with another. */
import type { Schemas } from '@/api/client';
import type { Message, Step } from '@/components/messages/conversation-steps';

export type Tab = Schemas['Tab'];

export interface Line {
  steps: readonly Step[];
  /** How many of them another tab has, too. */
  shared: number;
  traces: number;
}

export function linesOf(tabs: readonly Tab[]): Line[] {
  const lines: Line[] = [];
  for (const { origin, steps } of tabs) {
    const before = origin ? (lines[origin.tab]?.steps.slice(0, origin.steps) ?? []) : [];
    const whole = [...before, ...steps];
    lines.push({ steps: whole, shared: before.length, traces: new Set(whole.map(({ trace_id: trace }) => trace)).size });
  }
  return lines;
}

/** What was said up to a step. */
export const messagesUpTo = (steps: readonly Step[], upto: number): Message[] =>
  steps.slice(0, upto).flatMap((step) => (step.type === 'message' ? [step.message] : []));

/** The name in an address. The router reads a part of the escapes, and thereby makes two names one: hence by hand. */
export function sessionIn(path: string, search: string): string | null {
  const given = new URLSearchParams(search).get('session');
  if (given) return given;
  const encoded = /\/sessions\/([^/]+)\/?$/.exec(path)?.[1];
  if (encoded === undefined) return null;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
