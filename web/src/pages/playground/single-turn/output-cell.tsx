/** Output of a cell: its last run with status and actions. */
import { useQuery } from '@tanstack/react-query';
import { Play, RotateCw, Square } from 'lucide-react';
import { useEffect, useState, type ReactNode, useMemo } from 'react';
import { api, type Run } from '@/api/client';
import { runQuery } from '@/api/queries';
import { Button, Hint, IconButton } from '@/components/button';
import { formatValue } from '@/components/forms/values';
import { JsonView } from '@/components/json-view';
import { MessageView } from '@/components/messages/message-view';
import {
  messagesOf,
  hasEnded,
  runSeconds,
  runTokens,
  type OutputMessage,
  outputNodes,
  outputCalls,
  outputText,
} from '@/components/messages/nodes';
import { PreviewView, isComplete, parsePreview } from '@/components/preview';
import { Badge, Loading, ErrorMessage, Spinner } from '@/components/status';
import { LongText, WordDiff } from '@/components/text';
import { cn } from '@/lib/cn';
import { type CallChange, type ValueChange, toolCallsDiff } from '@/lib/diff';
import { formatCompactNumber, formatDuration } from '@/lib/format';
import { safeProse } from '@/lib/safe-text';
import { unreachable } from '@/lib/unreachable';

interface Props {
  /** Undefined: not loaded; null: none. */
  run: Run | null | undefined;
  /** Run of the base column, if this cell shows the difference. */
  base: Run | null | undefined;
  label: string;
  onRun: () => void;
  onStop: (run: string) => void;
}

export function OutputCell({ run, base, label, onRun, onStop }: Props): ReactNode {
  if (run === null) {
    return (
      <div className="flex h-full min-h-16 items-center justify-center">
        <Button size="small" variant="quiet" aria-label={`Run ${label}`} onClick={onRun}>
          <Play className="size-3.5" /> Run
        </Button>
      </div>
    );
  }
  if (run === undefined) return <Loading className="p-1" />;
  return (
    <div className="group/cell flex h-full min-h-16 min-w-0 flex-col gap-2">
      <Status run={run} label={label} onRun={onRun} onStop={onStop} />
      {run.error && run.status !== 'cancelled' && (
        <ErrorMessage error={new Error(String(run.error['message'] ?? 'The run failed.'))}>
          <Button size="small" onClick={onRun}>
            <RotateCw className="size-3.5" /> Retry
          </Button>
        </ErrorMessage>
      )}
      <div className="max-h-96 min-w-0 overflow-y-auto wrap-anywhere" aria-busy={!hasEnded(run)}>
        <Output run={run} base={base} />
      </div>
    </div>
  );
}

function Output({ run, base }: { run: Run; base: Run | null | undefined }): ReactNode {
  const preview = parsePreview(run.out);
  const isDiff = Boolean(base) && base?.id !== run.id;
  // The preview already has short texts in full.
  const needsOutput =
    run.status !== 'queued' &&
    (isDiff || preview.renderer !== 'text' || !isComplete(preview)) &&
    (run.seq > 0 || !hasEnded(run));
  const isEnded = hasEnded(run);
  const output = useQuery({
    ...runQuery(run.id),
    enabled: needsOutput,
    staleTime: ({ state }) => (state.data && hasEnded(state.data) ? Number.POSITIVE_INFINITY : 0),
    // Refetch after the end: what was fetched during the run is incomplete.
    refetchInterval: ({ state }) => (state.data && hasEnded(state.data) ? false : isEnded ? 500 : 2000),
  });
  const baseRun = useQuery({ ...runQuery(base?.id ?? ''), enabled: isDiff });
  if (isDiff && output.data?.reply && baseRun.data?.reply) return <DiffView base={baseRun.data} run={output.data} />;
  if (output.data?.reply && (!isEnded || hasEnded(output.data))) return <RunOutput run={output.data} />;
  if (preview.renderer === 'empty')
    return isEnded && !run.error && run.status === 'finished' ? <span className="text-faint">Empty answer</span> : null;
  return <PreviewView preview={preview} isExpanded />;
}

function Status({ run, label, onRun, onStop }: { run: Run } & Pick<Props, 'label' | 'onRun' | 'onStop'>): ReactNode {
  const now = useNow(run.status === 'running');
  const seconds = runSeconds(run, now);
  const tokens = runTokens(run);
  const details = [
    tokens === null ? '' : `${formatCompactNumber(tokens)} tokens`,
    seconds === null ? '' : run.status === 'running' ? formatDuration(Math.floor(seconds)) : elapsedText(seconds),
  ];
  return (
    <div className="flex h-6 items-center gap-2 text-xs text-muted">
      <StatusText status={run.status} />
      <span className="min-w-0 truncate tabular-nums">{details.filter(Boolean).join(' · ')}</span>
      <span className="grow" />
      {hasEnded(run) ? (
        <IconButton
          size="small"
          label={`Run ${label} again`}
          onClick={onRun}
          className={cn(
            'size-6 opacity-0 group-focus-within/cell:opacity-100',
            'group-hover/cell:opacity-100 pointer-coarse:opacity-100',
          )}
        >
          <RotateCw />
        </IconButton>
      ) : (
        <IconButton size="small" label={`Stop ${label}`} onClick={() => onStop(run.id)} className="size-6">
          <Square />
        </IconButton>
      )}
    </div>
  );
}

const elapsedText = (seconds: number): string =>
  seconds < 0.1 ? `${Math.max(1, Math.round(seconds * 1000))} ms` : formatDuration(seconds);

function StatusText({ status }: { status: Run['status'] }): ReactNode {
  switch (status) {
    case 'queued':
      return <Badge>Queued</Badge>;
    case 'running':
      return (
        <span className="flex items-center gap-1.5 text-accent">
          <Spinner label="Running" /> Running
        </span>
      );
    case 'finished':
      return <Badge tone="good">Done</Badge>;
    case 'failed':
      return <Badge tone="bad">Failed</Badge>;
    case 'cancelled':
      return <Badge tone="warn">Stopped</Badge>;
    case 'interrupted':
      return (
        <Hint text="The server process stopped during the run.">
          <span>
            <Badge tone="warn">Interrupted</Badge>
          </span>
        </Hint>
      );
    default:
      return unreachable(status);
  }
}

/** Current time, updated every second while `isTicking`. */
function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!isTicking) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}

/** Let the server extract a conversation from the value. */
const extractedQuery = (run: Run, value: unknown) => ({
  queryKey: ['extracted', run.id],
  queryFn: async ({ signal }: { signal: AbortSignal }) =>
    (await api('post', '/api/extract', { body: { value, prefer: 'output' }, signal })).conversation,
  staleTime: Number.POSITIVE_INFINITY,
});

/** Full output of a run: messages, text or JSON. */
export function RunOutput({ run }: { run: Run }): ReactNode {
  const { messages = [], value } = run.reply ?? {};
  const mayHoldChat =
    messages.length === 0 && value !== undefined && hasEnded(run) && parsePreview(run.out).renderer === 'chat';
  const conversation = useQuery({ ...extractedQuery(run, value), enabled: mayHoldChat });
  if (messages.length) return <OutputConversation messages={messages} run={run} />;
  if (conversation.data) return <OutputConversation messages={conversation.data.messages} run={run} />;
  if (value === undefined) return hasEnded(run) && !run.error ? <span className="text-faint">Empty answer</span> : null;
  if (typeof value === 'string') {
    return (
      <p dir="auto" className="whitespace-pre-wrap">
        {value ? <LongText text={value} /> : <span className="text-faint">Empty text</span>}
      </p>
    );
  }
  return <JsonView value={value} openLevels={2} />;
}

const NO_ACTIONS = {};

function OutputConversation({ messages, run }: { messages: readonly OutputMessage[]; run: Run }): ReactNode {
  const chatMessages = useMemo(() => messagesOf(outputNodes(messages, run)), [messages, run]);
  return (
    <div className="flex flex-col gap-2">
      {chatMessages.map((message) => (
        <MessageView key={message.id} message={message} streaming={!hasEnded(run)} actions={NO_ACTIONS} />
      ))}
    </div>
  );
}

/** Difference to the base column: text, then tool calls. */
export function DiffView({ base, run }: { base: Run; run: Run }): ReactNode {
  const calls = useMemo(() => toolCallsDiff(outputCalls(base), outputCalls(run)), [base, run]);
  const isUnchanged =
    outputText(base) === outputText(run) &&
    (outputText(run) !== '' || calls.length > 0) &&
    calls.every(({ change }) => change === 'same');
  return (
    <div className="flex flex-col gap-2">
      {isUnchanged && <p className="text-xs text-faint">Same as base.</p>}
      <p dir="auto" className="whitespace-pre-wrap">
        <WordDiff from={outputText(base)} to={outputText(run)} />
      </p>
      {calls.map((change, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same call may come twice
        <CallView key={index} change={change} />
      ))}
    </div>
  );
}

const CALL_CLASSES = {
  same: '',
  added: 'rounded-sm bg-good-soft text-good no-underline',
  removed: 'rounded-sm bg-bad-soft text-bad line-through',
};
const CALL_BORDERS = { same: 'border-line', added: 'border-good', removed: 'border-bad', changed: 'border-warn' };
const CALL_LABELS = { same: 'same call', added: 'only here', removed: 'only in base', changed: 'different arguments' };

function CallView({ change }: { change: CallChange }): ReactNode {
  return (
    <div className={cn('border-l-2 pl-2 font-mono text-[12px]/5', CALL_BORDERS[change.change])}>
      <p>
        <span className={cn('font-semibold', change.change === 'removed' && 'line-through')}>
          {safeProse(change.call.name)}
        </span>{' '}
        <span className="font-sans text-xs text-muted">{CALL_LABELS[change.change]}</span>
      </p>
      {change.change === 'changed' ? (
        change.changes.slice(0, 50).map((argument) => <Argument key={argument.path} change={argument} />)
      ) : (
        <p className="text-muted">{safeProse(formatValue(change.call.arguments))}</p>
      )}
    </div>
  );
}

function Argument({ change: { path, from, to } }: { change: ValueChange }): ReactNode {
  return (
    <p>
      {path && <span className="text-muted">{safeProse(path.slice(1))}: </span>}
      {from !== undefined && <del className={CALL_CLASSES.removed}>{safeProse(formatValue(from))}</del>}{' '}
      {to !== undefined && <ins className={CALL_CLASSES.added}>{safeProse(formatValue(to))}</ins>}
    </p>
  );
}
