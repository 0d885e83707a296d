/** A conversation of a trace as chat messages and tool calls. Long ones show the end first. */
import { memo, useMemo, useState, type ReactNode } from 'react';
import type { Schemas, Node, Part } from '@/api/client';
import { Button } from '@/components/button';
import type { MessageActions, ChatMessage } from './message';
import { MessageView } from './message-view';
import { messagesOf } from './nodes';
import type { ToolPart } from './parts';
import { ToolView } from './tool-view';

const INITIAL_STEPS = 60;
const STEPS_PER_PAGE = 200;

interface Props {
  items: readonly StepItem[];
  /** Renders something above an item, such as the start of another trace. */
  before?: (item: StepItem, previous: StepItem | undefined) => ReactNode;
  onSpan?: (item: StepItem) => void;
  resume?: (item: StepItem) => Promise<void>;
}

export function ConversationSteps({ items, before, onSpan, resume }: Props): ReactNode {
  const [visibleCount, setVisibleCount] = useState(INITIAL_STEPS);
  const hidden = Math.max(0, items.length - visibleCount);
  return (
    <div className="flex min-w-0 flex-col gap-4">
      {hidden > 0 && (
        <div className="flex justify-center">
          <Button size="small" variant="quiet" onClick={() => setVisibleCount(visibleCount + STEPS_PER_PAGE)}>
            Earlier messages ({hidden})
          </Button>
        </div>
      )}
      {items.slice(hidden).map((item, index) => (
        <div key={item.key} className="min-w-0 [contain-intrinsic-size:auto_6rem] [content-visibility:auto]">
          {before?.(item, items[hidden + index - 1])}
          <ItemView item={item} {...(onSpan ? { onSpan } : {})} {...(resume ? { resume } : {})} />
        </div>
      ))}
    </div>
  );
}

const NO_ACTIONS: MessageActions = {};

const ItemView = memo(function ItemView({
  item,
  onSpan,
  resume,
}: Omit<Props, 'items' | 'before'> & { item: StepItem }): ReactNode {
  const actions = useMemo((): MessageActions => (resume ? { resume: () => resume(item) } : NO_ACTIONS), [resume, item]);
  if (item.kind === 'message') return <MessageView message={item.message} streaming={false} actions={actions} />;
  return (
    <div className="space-y-1">
      <ToolView part={item.tool} streaming={false} />
      {onSpan && (
        <Button size="small" variant="quiet" onClick={() => onSpan(item)}>
          Show span
        </Button>
      )}
    </div>
  );
});

export type Message = Schemas['Message'];
export type ToolStep = Schemas['ToolStep'];
export type Step = Schemas['MessageStep'] | ToolStep;

interface StepPosition {
  key: string;
  trace: string;
  span: string;
  /** Number of steps up to the end of this item, and of messages among them. */
  stepCount: number;
  messageCount: number;
}

export type StepItem =
  | (StepPosition & { kind: 'message'; message: ChatMessage })
  | (StepPosition & { kind: 'tool'; tool: ToolPart });

/** Group steps into items: a message with the results of its tools, and consecutive messages of one answer. */
export function stepItems(steps: readonly Step[]): StepItem[] {
  const items: StepItem[] = [];
  let group: { node: Node; position: StepPosition }[] = [];
  let messageCount = 0;
  const closeGroup = () => {
    items.push(...messageItems(group));
    group = [];
  };
  for (const [index, step] of steps.entries()) {
    if (step.type === 'message') messageCount += 1;
    const position = { key: `${index}`, trace: step.trace_id, span: step.span_id, stepCount: index + 1, messageCount };
    if (group[0] && group[0].position.trace !== step.trace_id) closeGroup();
    if (step.type === 'message') group.push({ node: nodeOf(step.message, position), position });
    else {
      closeGroup();
      items.push({ ...position, kind: 'tool', tool: toolPart(step) });
    }
  }
  closeGroup();
  return items;
}

/** Messages of a span as steps. */
export const conversationSteps = (trace: string, span: string, messages: readonly Message[]): Step[] =>
  messages.map((message) => ({ type: 'message', trace_id: trace, span_id: span, message }));

function messageItems(group: readonly { node: Node; position: StepPosition }[]): StepItem[] {
  const positions = new Map(group.map(({ node, position }) => [node.id, position]));
  return messagesOf(convertOrphanResults(group.map(({ node }) => node))).flatMap((message): StepItem[] => {
    const position = positions.get(message.metadata?.nodes?.at(-1) ?? '');
    return position && message.parts.length ? [{ ...position, key: message.id, kind: 'message', message }] : [];
  });
}

const nodeOf = (message: Message, { key, trace }: StepPosition): Node => ({
  id: key,
  parent: null,
  role: message.role,
  parts: message.parts,
  name: message.name ?? null,
  metadata: {},
  origin: 'trace',
  // Consecutive messages are one answer.
  run: message.role === 'assistant' ? trace : null,
  status: 'done',
  error: null,
  siblings: [key],
  feedback: { up: 0, down: 0 },
  usage: null,
  seconds: null,
  created_at: '',
});

/** Turn tool results without their call into data parts, as a result is only shown with its call. */
function convertOrphanResults(nodes: readonly Node[]): Node[] {
  let calls = new Set<string>();
  return nodes.map((node) => {
    if (node.role !== 'assistant' && node.role !== 'tool') calls = new Set();
    for (const part of node.parts) if (part.type === 'tool-call') calls.add(part.call_id);
    if (!node.parts.some((part) => part.type === 'tool-result' && !calls.has(part.call_id))) return node;
    return {
      ...node,
      parts: node.parts.map((part): Part =>
        part.type === 'tool-result' && !calls.has(part.call_id) ? resultAsData(part) : part,
      ),
    };
  });
}

const resultAsData = ({ output, call_id: callId }: Extract<Part, { type: 'tool-result' }>): Part => ({
  type: 'data',
  name: `result of ${callId}`,
  value: output,
});

function toolPart({ name, call_id: callId, span_id: span, inputs, outputs, status }: ToolStep): ToolPart {
  const toolFields = { type: 'dynamic-tool' as const, toolName: name, toolCallId: callId ?? span, input: inputs ?? {} };
  if (status === 'error') return { ...toolFields, state: 'output-error', errorText: toolError(outputs) };
  if (status === 'cancelled' || status === 'incomplete') return { ...toolFields, state: 'input-streaming' };
  return { ...toolFields, state: 'output-available', output: outputs };
}

function toolError(outputs: unknown): string {
  if (typeof outputs === 'string' && outputs) return outputs;
  return outputs === null || outputs === undefined || outputs === ''
    ? 'The tool call failed.'
    : JSON.stringify(outputs);
}
