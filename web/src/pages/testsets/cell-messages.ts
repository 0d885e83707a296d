/**
 * Messages as they stand in a cell, in any of the usual forms: recognised, told in little, and where their text is.
 * Pure.
 */
import { isObject } from '@/components/forms/json-schema';

export interface MessageText {
  role: string;
  text: string;
  /** Tool calls, each in one line. */
  calls: string[];
  attachments: number;
}

export type CellMessage = Readonly<Record<string, unknown>>;

const isMessage = (value: unknown): value is CellMessage =>
  isObject(value) &&
  typeof value.role === 'string' &&
  ('content' in value || 'parts' in value || 'tool_calls' in value);

/** A list of messages? The server's column kind is the exact answer; this one is for single cells. */
export const isMessages = (value: unknown): value is CellMessage[] =>
  Array.isArray(value) && value.length > 0 && value.every(isMessage);

export const isSingleMessage = isMessage;

/** By its shape, as the server knows it: turns, each with one of user, assistant and simulate. */
export const isScript = (value: unknown): value is CellMessage & { turns: CellMessage[] } =>
  isObject(value) &&
  Array.isArray(value.turns) &&
  value.turns.length > 0 &&
  value.turns.every(
    (turn) => isObject(turn) && ['user', 'assistant', 'simulate'].filter((name) => name in turn).length === 1,
  );

/** The messages of a conversation in little; null where the server has to be asked. */
export function messagesIn(value: unknown): MessageText[] | null {
  if (!isMessages(value)) return null;
  const said = value.map(messageText);
  return said.includes(null) ? null : said.filter((one) => one !== null);
}

function messageText(message: CellMessage): MessageText | null {
  const pieces = contentPieces(message.content ?? message.parts);
  if (!pieces) return null;
  const calls = Array.isArray(message.tool_calls) ? message.tool_calls.map(formatCall) : [];
  return {
    role: String(message.role),
    text: pieces.text,
    calls: [...pieces.calls, ...calls],
    attachments: pieces.attachments,
  };
}

function contentPieces(content: unknown): Omit<MessageText, 'role'> | null {
  if (content === undefined || content === null) return { text: '', calls: [], attachments: 0 };
  if (typeof content === 'string') return { text: content, calls: [], attachments: 0 };
  if (!Array.isArray(content)) return null;
  const texts: string[] = [];
  const calls: string[] = [];
  let attachments = 0;
  for (const part of content) {
    if (typeof part === 'string') texts.push(part);
    else if (!isObject(part)) return null;
    else if (typeof part.text === 'string') texts.push(part.text);
    else if (part.type === 'tool_use' || part.type === 'tool-call') calls.push(formatCall(part));
    else if (/image|file|audio|document/.test(String(part.type))) attachments += 1;
    else return null;
  }
  return { text: texts.join('\n'), calls, attachments };
}

function formatCall(call: unknown): string {
  const fields = isObject(call) ? (isObject(call.function) ? call.function : call) : {};
  const given = fields.arguments ?? fields.input ?? '';
  const text = typeof given === 'string' ? given : JSON.stringify(given);
  return `${String(fields.name ?? 'tool')}(${text.slice(0, 200)})`;
}

/** A script as what is said in it. */
export function scriptMessages(script: { turns: readonly CellMessage[] }): MessageText[] {
  return script.turns.map((turn) => {
    const role = ['user', 'assistant', 'simulate'].find((name) => name in turn) ?? 'user';
    const given = turn[role];
    const text =
      typeof given === 'string'
        ? given
        : isObject(given) && typeof given.goal === 'string'
          ? given.goal
          : textPosition(given);
    return { role, text, calls: [], attachments: 0 };
  });
}

function textPosition(given: unknown): string {
  const content = isObject(given) ? (given.content ?? given.parts) : given;
  return contentPieces(content)?.text ?? '';
}

/**
 * The one text of a message that can be written as such: a string, nothing, or a single part of text. Null: it has
 * another form.
 */
export function editableText(message: CellMessage): string | null {
  const { content } = message;
  if (typeof content === 'string') return content;
  if (content === null || (content === undefined && !('parts' in message))) return '';
  const parts = content === undefined ? message.parts : content;
  const [only, ...others] = Array.isArray(parts) ? (parts as unknown[]) : [];
  return isObject(only) && typeof only.text === 'string' && others.length === 0 ? only.text : null;
}

/** The message with another text, and all else (tool calls above all) exactly as it was. */
export function withEditedText(message: CellMessage, text: string): CellMessage {
  const { content, parts } = message;
  // No text beside calls is null: it stays so until somebody writes.
  if ((content === null || content === undefined) && text === '' && !('parts' in message)) return message;
  if (Array.isArray(content)) return { ...message, content: [{ ...(content[0] as object), text }] };
  if (content === undefined && Array.isArray(parts)) return { ...message, parts: [{ ...(parts[0] as object), text }] };
  return { ...message, content: text };
}
