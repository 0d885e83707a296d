/**
 * Conversion between thread nodes (server) and UI messages (cells). All nodes of a run become one message, as in the
 * server's stream.
 */
import type { Node, Part, Schemas, Run } from '@/api/client';
import type { ToolCall } from '@/lib/diff';
import { serverPath } from '@/lib/server-path';
import type { ChatMessage, ChatPart, MessageMetadata } from './message';

type ToolPart = Extract<ChatPart, { type: 'dynamic-tool' }>;

/** Fields of a node that is not stored yet. */
export const UNSTORED = { error: null, siblings: [], feedback: { up: 0, down: 0 }, usage: null, seconds: null };

export function messagesOf(nodes: readonly Node[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let continuesRun = false;
  for (const node of nodes) {
    const last = messages.at(-1);
    if (isApproval(node) && last) {
      // An approval is shown on its call; what follows continues the same message.
      applyApprovals(last, node);
      continuesRun = true;
    } else if (last && isAnswer(node) && last.role === 'assistant' && (continuesRun || isSameRun(last, node))) {
      appendNode(last, node);
      continuesRun = false;
    } else {
      messages.push(toMessage(node));
      continuesRun = false;
    }
  }
  return messages;
}

const isAnswer = (node: Node): boolean => node.role === 'assistant' || node.role === 'tool';
const isSameRun = (message: ChatMessage, node: Node): boolean =>
  node.role === 'tool' || (!!node.run && message.metadata?.runId === node.run);
const isApproval = (node: Node): boolean =>
  node.role === 'user' &&
  node.parts.length > 0 &&
  node.parts.every((part) => part.type === 'data' && part.name === 'approval-response');

function toMessage(node: Node): ChatMessage {
  const message: ChatMessage = { id: node.id, role: roleOf(node), parts: [], metadata: metadataOf(node) };
  for (const part of node.parts) addPart(message, part, node);
  return message;
}

function appendNode(message: ChatMessage, node: Node): void {
  for (const part of node.parts) addPart(message, part, node);
  const before = message.metadata ?? {};
  const now = metadataOf(node);
  message.metadata = {
    ...before,
    ...(now.runId ? { runId: now.runId } : {}),
    ...(now.usage ? { usage: now.usage } : {}),
    ...(now.status ? { status: now.status } : {}),
    ...(now.error ? { error: now.error } : {}),
    feedback: now.feedback ?? { up: 0, down: 0 },
    nodes: [...(before.nodes ?? []), node.id],
  };
}

function applyApprovals(message: ChatMessage, node: Node): void {
  for (const part of node.parts) {
    if (part.type !== 'data') continue;
    const { id, approve, reason } = (part.value ?? {}) as { id?: string; approve?: boolean; reason?: string };
    message.parts = message.parts.map((tool) =>
      tool.type === 'dynamic-tool' && tool.state === 'approval-requested' && tool.approval.id === id
        ? {
            ...tool,
            state: 'approval-responded',
            approval: { id: tool.approval.id, approved: approve === true, ...(reason ? { reason } : {}) },
          }
        : tool,
    );
  }
  message.metadata = { ...message.metadata, nodes: [...(message.metadata?.nodes ?? []), node.id] };
}

function roleOf(node: Node): ChatMessage['role'] {
  switch (node.role) {
    case 'user':
      return 'user';
    case 'system':
    case 'developer':
      return 'system';
    case 'assistant':
    case 'tool':
      return 'assistant';
  }
}

function metadataOf(node: Node): MessageMetadata {
  const usage = node.usage as { input_tokens?: number; output_tokens?: number } | null;
  const { seconds } = node;
  return {
    nodes: [node.id],
    parent: node.parent,
    siblings: node.siblings,
    feedback: {
      up: node.feedback.up ?? 0,
      down: node.feedback.down ?? 0,
      ...(node.feedback.mine ? { mine: node.feedback.mine } : {}),
    },
    status: node.status,
    createdAt: node.created_at,
    ...(node.run ? { runId: node.run } : {}),
    ...(typeof seconds === 'number' ? { seconds } : {}),
    ...(node.role === 'developer' || node.role === 'tool' ? { role: node.role } : {}),
    ...(usage ? { usage: tokenUsage(usage) } : {}),
    ...(node.error
      ? {
          error: {
            message: String(node.error['message'] ?? 'The tool call failed.'),
            code: String(node.error['code'] ?? ''),
          },
        }
      : {}),
  };
}

function tokenUsage({
  input_tokens,
  output_tokens,
}: {
  input_tokens?: number;
  output_tokens?: number;
}): NonNullable<MessageMetadata['usage']> {
  return {
    ...(input_tokens === undefined ? {} : { inputTokens: input_tokens }),
    ...(output_tokens === undefined ? {} : { outputTokens: output_tokens }),
    totalTokens: (input_tokens ?? 0) + (output_tokens ?? 0),
  };
}

function addPart(message: ChatMessage, part: Part, node: Node): void {
  switch (part.type) {
    case 'text':
      message.parts.push({ type: 'text', text: part.text, state: 'done' });
      for (const [index, annotation] of (part.annotations ?? []).entries()) {
        if (annotation.kind === 'url' && annotation.url) {
          message.parts.push({
            type: 'source-url',
            sourceId: `${node.id}.s${index}`,
            url: annotation.url,
            ...(annotation.title ? { title: annotation.title } : {}),
          });
        }
      }
      return;
    case 'reasoning':
      message.parts.push({ type: 'reasoning', text: part.text, state: 'done' });
      return;
    case 'refusal':
      message.parts.push({
        type: 'text',
        text: part.text,
        state: 'done',
        providerMetadata: { palaver: { refusal: true } },
      });
      return;
    case 'file':
      message.parts.push({
        type: 'file',
        mediaType: part.media_type,
        url: part.file_id
          ? serverPath(`/api/files/${part.file_id}`)
          : part.data
            ? `data:${part.media_type};base64,${part.data}`
            : (part.url ?? ''),
        ...(part.filename ? { filename: part.filename } : {}),
      });
      return;
    case 'tool-call':
      message.parts.push({
        type: 'dynamic-tool',
        toolName: part.name,
        toolCallId: part.call_id,
        state: 'input-available',
        input: parseJsonOrText(part.arguments ?? ''),
      });
      return;
    case 'tool-result':
      patchTool(message, part.call_id, (tool) =>
        part.is_error
          ? {
              ...tool,
              state: 'output-error',
              input: tool.input,
              errorText: typeof part.output === 'string' ? part.output : JSON.stringify(part.output),
            }
          : { ...tool, state: 'output-available', input: tool.input, output: part.output },
      );
      return;
    case 'data':
      addData(message, part.name, part.value, node);
  }
}

function addData(message: ChatMessage, name: string, value: unknown, node: Node): void {
  const request = value as { id?: string; call_id?: string } | null;
  const call = request?.call_id;
  if (
    name === 'approval-request' &&
    request?.id &&
    message.parts.some((part) => part.type === 'dynamic-tool' && part.toolCallId === call)
  ) {
    const id = request.id;
    patchTool(message, call ?? '', (tool) => ({
      ...tool,
      state: 'approval-requested',
      input: tool.input,
      approval: { id },
    }));
  } else message.parts.push({ type: `data-${name}`, id: `${node.id}.d${message.parts.length}`, data: value });
}

/** Update the part of a tool call. */
function patchTool(message: ChatMessage, call: string, update: (tool: ToolPart & { input: unknown }) => unknown): void {
  message.parts = message.parts.map((part) =>
    part.type === 'dynamic-tool' && part.toolCallId === call
      ? // The AI SDK's parts are a union by state; an object spread is not narrowed to a member.
        (update({ ...toolIdentity(part), input: part.input ?? {} } as ToolPart & { input: unknown }) as ChatPart)
      : part,
  );
}

const toolIdentity = ({ toolName, toolCallId, type }: ToolPart) => ({ type, toolName, toolCallId });

function parseJsonOrText(text: string): unknown {
  if (!text.trim()) return {};
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** A user message in the API's format. */
export function toNode(message: ChatMessage): { id?: string; role: string; parts: object[] } {
  const parts = message.parts.flatMap((part): object[] => {
    if (part.type === 'text') return [{ type: 'text', text: part.text }];
    if (part.type !== 'file') return [];
    const fileId = /\/api\/files\/(file_\w+)$/.exec(part.url)?.[1];
    const fileFields = {
      type: 'file',
      media_type: part.mediaType,
      ...(part.filename ? { filename: part.filename } : {}),
    };
    return [fileId ? { ...fileFields, file_id: fileId } : { ...fileFields, url: part.url }];
  });
  return { id: message.id, role: message.metadata?.role ?? message.role, parts };
}

/** The last stored node of the messages; null if none is stored. */
export const lastNode = (messages: readonly ChatMessage[]): string | null =>
  // Messages of a failed run cannot be continued.
  messages
    .findLast(({ metadata }) => metadata?.nodes?.length && metadata.status !== 'failed')
    ?.metadata?.nodes?.at(-1) ?? null;

/** A message of a run's output. */
export type OutputMessage = Schemas['Message'];

export const hasEnded = ({ status }: Pick<Run, 'status'>): boolean => status !== 'queued' && status !== 'running';

/** Output of a run as text: its value (as JSON unless it is text), or else the text of its assistant messages. */
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
  return messages.map(({ role, parts, id, name, metadata }, index) => ({
    id: id ?? `${run.id}-${index}`,
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
  const { input_tokens: inputTokens, output_tokens: outputTokens } = run.usage ?? {};
  return typeof inputTokens === 'number' || typeof outputTokens === 'number'
    ? Number(inputTokens ?? 0) + Number(outputTokens ?? 0)
    : null;
}
