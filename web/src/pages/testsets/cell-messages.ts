/** Messages in cells, in the usual formats: detection, short text and editing. */
import { isObject } from '@/components/forms/json-schema';

export interface MessageText {
  role: string;
  text: string;
  /** Tool calls, one line each. */
  calls: string[];
  attachments: number;
}

export type CellMessage = Readonly<Record<string, unknown>>;

const isMessage = (value: unknown): value is CellMessage =>
  isObject(value) &&
  typeof value.role === 'string' &&
  ('content' in value || 'parts' in value || 'tool_calls' in value);

/** Whether it is a list of messages. For single cells; the server decides for columns. */
export const isMessages = (value: unknown): value is CellMessage[] =>
  Array.isArray(value) && value.length > 0 && value.every(isMessage);

export const isSingleMessage = isMessage;

/** Same rule as the server: turns with one of user, assistant and simulate. */
export const isScript = (value: unknown): value is CellMessage & { turns: CellMessage[] } =>
  isObject(value) &&
  Array.isArray(value.turns) &&
  value.turns.length > 0 &&
  value.turns.every(
    (turn) => isObject(turn) && ['user', 'assistant', 'simulate'].filter((name) => name in turn).length === 1,
  );

/** Short messages of a conversation; null if only the server can extract them. */
export function messagesIn(value: unknown): MessageText[] | null {
  if (!isMessages(value)) return null;
  const texts = value.map(messageText);
  return texts.includes(null) ? null : texts.filter((text) => text !== null);
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
  const args = fields.arguments ?? fields.input ?? '';
  const text = typeof args === 'string' ? args : JSON.stringify(args);
  return `${String(fields.name ?? 'tool')}(${text.slice(0, 200)})`;
}

/** Messages of a script. */
export function scriptMessages(script: { turns: readonly CellMessage[] }): MessageText[] {
  return script.turns.map((turn) => {
    const role = ['user', 'assistant', 'simulate'].find((name) => name in turn) ?? 'user';
    const turnContent = turn[role];
    const text =
      typeof turnContent === 'string'
        ? turnContent
        : isObject(turnContent) && typeof turnContent.goal === 'string'
          ? turnContent.goal
          : contentText(turnContent);
    return { role, text, calls: [], attachments: 0 };
  });
}

function contentText(rawContent: unknown): string {
  const content = isObject(rawContent) ? (rawContent.content ?? rawContent.parts) : rawContent;
  return contentPieces(content)?.text ?? '';
}

/** The text of a message that can be edited as such: a string, null, or a single text part. Null for other forms. */
export function editableText(message: CellMessage): string | null {
  const { content } = message;
  if (typeof content === 'string') return content;
  if (content === null || (content === undefined && !('parts' in message))) return '';
  const parts = content === undefined ? message.parts : content;
  const [only, ...others] = Array.isArray(parts) ? (parts as unknown[]) : [];
  return isObject(only) && typeof only.text === 'string' && others.length === 0 ? only.text : null;
}

/** Replace the text and keep everything else, such as tool calls. */
export function withEditedText(message: CellMessage, text: string): CellMessage {
  const { content, parts } = message;
  // Null text next to calls stays null until it is edited.
  if ((content === null || content === undefined) && text === '' && !('parts' in message)) return message;
  if (Array.isArray(content)) return { ...message, content: [{ ...(content[0] as object), text }] };
  if (content === undefined && Array.isArray(parts)) return { ...message, parts: [{ ...(parts[0] as object), text }] };
  return { ...message, content: text };
}
