/** Values of results as conversations, tool calls, text or JSON. */
import { useQuery } from '@tanstack/react-query';
import { useMemo, type ReactNode } from 'react';
import { isObject } from '@/components/forms/json-schema';
import { JsonBox } from '@/components/json-view';
import { MessageView } from '@/components/messages/message-view';
import { messagesOf, outputNodes } from '@/components/messages/nodes';
import { Spinner } from '@/components/status';
import { type Result, type ResultMessage, extractConversationQuery } from './queries';

/** A text as an assistant message. */
export const answerMessages = (text: string): ResultMessage[] => [
  { role: 'assistant', parts: [{ type: 'text', text }] },
];

interface Call {
  name: string;
  arguments?: unknown;
}

/** Expected tool calls as an assistant message; null if there are none. */
export function expectedCalls(value: unknown, namesAreCalls: boolean): ResultMessage[] | null {
  const list =
    isObject(value) && Array.isArray(value['tool_calls'])
      ? value['tool_calls']
      : Array.isArray(value)
        ? (value as unknown[])
        : null;
  if (!list || list.length === 0) return null;
  const calls = list.map((item) => parseCall(item, namesAreCalls));
  if (!calls.every((call) => call !== null)) return null;
  const parts = calls.map((call, index) => ({
    type: 'tool-call' as const,
    call_id: `wanted-${index}`,
    name: call.name,
    arguments: argumentsText(call.arguments),
  }));
  return [{ role: 'assistant', parts }];
}

function parseCall(value: unknown, namesAreCalls: boolean): Call | null {
  if (typeof value === 'string') return namesAreCalls ? { name: value } : null;
  if (!isObject(value) || 'role' in value) return null;
  const inner = isObject(value['function']) ? value['function'] : value;
  return typeof inner['name'] === 'string' ? { name: inner['name'], arguments: inner['arguments'] } : null;
}

const argumentsText = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);

/** The whole conversation of a case: input and answers, a script turn by turn. */
export function wholeConversation({
  history,
  messages,
  turns,
}: Pick<Result, 'history' | 'messages' | 'turns'>): ResultMessage[] {
  if (turns.length < 2) return [...history, ...messages];
  const turnMessages = turns.flatMap(({ user, messages: answers = [] }) => [...(user ? [user] : []), ...answers]);
  // Messages of a script's start were sent before its first turn.
  const firstQuestion = turns[0]?.user;
  const start = firstQuestion
    ? history.slice(
        0,
        Math.max(
          0,
          history.findIndex((message) => isSameMessage(message, firstQuestion)),
        ),
      )
    : history;
  return [...start, ...turnMessages];
}

const isSameMessage = (one: ResultMessage, other: ResultMessage): boolean =>
  one.role === other.role && JSON.stringify(one.parts) === JSON.stringify(other.parts);

/** Whether the result is of a script, whose turns have expectations of their own. */
export const hasScript = ({ turns }: Pick<Result, 'turns'>): boolean =>
  turns.length > 1 || turns.some(({ expect }) => expect !== null && expect !== undefined);

/** 1-based row of the test set: `cell_7` of two variants belongs to row 4. */
export function rowNumber(
  cell: string,
  { variants, repeats }: { variants: readonly unknown[]; repeats: number },
): number {
  return Math.floor(Number(cell.replace('cell_', '')) / Math.max(1, variants.length * repeats)) + 1;
}

export interface Check {
  name: string;
  passed: boolean;
  reason: string;
}

/** Checks by turn, if an evaluator reports them. */
export function turnChecks({ scores }: Pick<Result, 'scores'>): (readonly Check[])[] {
  for (const { details } of scores) {
    const turns = details?.['turns'];
    if (!Array.isArray(turns)) continue;
    const checksByTurn = (turns as unknown[]).map((turn) =>
      isObject(turn) && Array.isArray(turn['checks']) ? (turn['checks'] as unknown[]).filter(isCheck) : [],
    );
    if (checksByTurn.some((turn) => turn.length > 0)) return checksByTurn;
  }
  return [];
}

const isCheck = (value: unknown): value is Check =>
  isObject(value) && typeof value['name'] === 'string' && typeof value['passed'] === 'boolean';

const NO_ACTIONS = {};
const EPOCH = '1970-01-01T00:00:00Z';

export function ConversationView({
  messages,
  label,
}: {
  messages: readonly ResultMessage[];
  label: string;
}): ReactNode {
  const chatMessages = useMemo(() => {
    // Message ids are not unique.
    // oxlint-disable-next-line oxc/no-map-spread -- the messages must not be changed
    const messagesWithoutIds = messages.map((message) => ({ ...message, id: null }));
    return messagesOf(outputNodes(messagesWithoutIds, { id: 'case', status: 'finished', created_at: EPOCH }));
  }, [messages]);
  return (
    <div role="group" aria-label={label} className="flex min-w-0 flex-col gap-1">
      {chatMessages.map((message) => (
        <MessageView key={message.id} message={message} streaming={false} actions={NO_ACTIONS} />
      ))}
    </div>
  );
}

/** `namesAreCalls`: a list of strings names tools. */
export function ValueView({
  value,
  label,
  namesAreCalls = false,
}: {
  value: unknown;
  label: string;
  namesAreCalls?: boolean;
}): ReactNode {
  const calls = useMemo(() => expectedCalls(value, namesAreCalls), [value, namesAreCalls]);
  const isObjectLike = typeof value === 'object' && value !== null;
  const { data, isPending } = useQuery({ ...extractConversationQuery(value), enabled: isObjectLike && calls === null });
  const textMessages = useMemo(() => (typeof value === 'string' ? answerMessages(value) : null), [value]);
  if (textMessages)
    return value === '' ? (
      <p className="text-faint">Empty text</p>
    ) : (
      <ConversationView messages={textMessages} label={label} />
    );
  if (calls) return <ConversationView messages={calls} label={label} />;
  if (isObjectLike && isPending) return <Spinner />;
  return data ? <ConversationView messages={data.messages} label={label} /> : <JsonBox value={value} />;
}
