/** A conversation as a chat. The last of a long one is shown, the rest when asked for. */
import { memo, useMemo, useState, type ReactNode } from 'react';
import type { Schemas } from '@/api/client';
import type { Node, Part } from '@/api/types';
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
  /** What stands above an item, such as where another trace begins. */
  before?: (item: StepItem, previous: StepItem | undefined) => ReactNode;
  onSpan?: (item: StepItem) => void;
  resume?: (item: StepItem) => Promise<void>;
}

export function ConversationSteps({ items, before, onSpan, resume }: Props): ReactNode {
  const [shown, setShown] = useState(INITIAL_STEPS);
  const hidden = Math.max(0, items.length - shown);
  return (
    <div className="flex min-w-0 flex-col gap-4">
      {hidden > 0 && (
        <div className="flex justify-center">
          <Button size="small" look="quiet" onClick={() => setShown(shown + STEPS_PER_PAGE)}>
            Earlier messages ({hidden})
          </Button>
        </div>
      )}
      {items.slice(hidden).map((item, place) => (
        <div key={item.key} className="min-w-0 [contain-intrinsic-size:auto_6rem] [content-visibility:auto]">
          {before?.(item, items[hidden + place - 1])}
          <ItemView item={item} {...(onSpan ? { onSpan } : {})} {...(resume ? { resume } : {})} />
        </div>
      ))}
    </div>
  );
}

const NOTHING: MessageActions = {};

const ItemView = memo(function ItemView({
  item,
  onSpan,
  resume,
}: Omit<Props, 'items' | 'before'> & { item: StepItem }): ReactNode {
  const acts = useMemo((): MessageActions => (resume ? { resume: () => resume(item) } : NOTHING), [resume, item]);
  if (item.kind === 'said') return <MessageView message={item.message} streaming={false} acts={acts} />;
  return (
    <div className="space-y-1">
      <ToolView part={item.tool} live={false} />
      {onSpan && (
        <Button size="small" look="quiet" onClick={() => onSpan(item)}>
          Show its span
        </Button>
      )}
    </div>
  );
});

/** The steps of a conversation as what a chat shows: messages, and tools of which no message tells. */
export type Message = Schemas['Message'];
export type ToolStep = Schemas['ToolStep'];
export type Step = Schemas['MessageStep'] | ToolStep;

interface StepPosition {
  key: string;
  trace: string;
  span: string;
  /** How many steps there are up to its end, and how many of those are messages. */
  steps: number;
  upto: number;
}

export type StepItem =
  | (StepPosition & { kind: 'said'; message: ChatMessage })
  | (StepPosition & { kind: 'tool'; tool: ToolPart });

/** A message and the tools' answers to it are one item; so is what follows them without anybody else's word between. */
export function stepItems(steps: readonly Step[]): StepItem[] {
  const items: StepItem[] = [];
  let group: { node: Node; place: StepPosition }[] = [];
  let upto = 0;
  const close = () => {
    items.push(...messageKey(group));
    group = [];
  };
  for (const [index, step] of steps.entries()) {
    if (step.type === 'message') upto += 1;
    const place = { key: String(index), trace: step.trace_id, span: step.span_id, steps: index + 1, upto };
    if (group[0] && group[0].place.trace !== step.trace_id) close();
    if (step.type === 'message') group.push({ node: nodeOf(step.message, place), place });
    else {
      close();
      items.push({ ...place, kind: 'tool', tool: toolPart(step) });
    }
  }
  close();
  return items;
}

/** A span's own messages as steps. */
export const conversationSteps = (trace: string, span: string, messages: readonly Message[]): Step[] =>
  messages.map((message) => ({ type: 'message', trace_id: trace, span_id: span, message }));

function messageKey(group: readonly { node: Node; place: StepPosition }[]): StepItem[] {
  const places = new Map(group.map(({ node, place }) => [node.id, place]));
  return messagesOf(answeredCalls(group.map(({ node }) => node))).flatMap((message): StepItem[] => {
    const place = places.get(message.metadata?.nodes?.at(-1) ?? '');
    return place && message.parts.length ? [{ ...place, key: message.id, kind: 'said', message }] : [];
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
  // What was said without a break is one answer.
  run: message.role === 'assistant' ? trace : null,
  status: 'done',
  error: null,
  siblings: [key],
  feedback: { up: 0, down: 0 },
  usage: null,
  seconds: null,
  created_at: '',
});

/**
 * A result is shown at its call. One whose call is not in the answer before it is shown by itself: nothing is left
 * out.
 */
function answeredCalls(nodes: readonly Node[]): Node[] {
  let calls = new Set<string>();
  return nodes.map((node) => {
    if (node.role !== 'assistant' && node.role !== 'tool') calls = new Set();
    for (const part of node.parts) if (part.type === 'tool-call') calls.add(part.call_id);
    if (!node.parts.some((part) => part.type === 'tool-result' && !calls.has(part.call_id))) return node;
    return {
      ...node,
      parts: node.parts.map((part): Part =>
        part.type === 'tool-result' && !calls.has(part.call_id) ? standaloneTool(part) : part,
      ),
    };
  });
}

const standaloneTool = ({ output, call_id: call }: Extract<Part, { type: 'tool-result' }>): Part => ({
  type: 'data',
  name: `result of ${call}`,
  value: output,
});

function toolPart({ name, call_id: call, span_id: span, inputs, outputs, status }: ToolStep): ToolPart {
  const made = { type: 'dynamic-tool' as const, toolName: name, toolCallId: call ?? span, input: inputs ?? {} };
  if (status === 'error') return { ...made, state: 'output-error', errorText: toolError(outputs) };
  if (status === 'cancelled' || status === 'incomplete') return { ...made, state: 'input-streaming' };
  return { ...made, state: 'output-available', output: outputs };
}

function toolError(outputs: unknown): string {
  if (typeof outputs === 'string' && outputs) return outputs;
  return outputs === null || outputs === undefined || outputs === '' ? 'It failed.' : JSON.stringify(outputs);
}
