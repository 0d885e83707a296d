/** Detail of one result: input, expected and actual output, scores. */
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { BadgeCheck, ChevronLeft, ChevronRight, ListTree, MessageSquareShare, X, Check } from 'lucide-react';
import { Dialog } from 'radix-ui';
import { useEffect, type KeyboardEvent, type ReactNode, useMemo } from 'react';
import { Link } from 'wouter';
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { Button, IconButton } from '@/components/button';
import { CollapsibleSection } from '@/components/collapsible';
import { askConfirmation } from '@/components/confirm-dialog';
import { isObject } from '@/components/forms/json-schema';
import { JsonBox } from '@/components/json-view';
import { useOpenInPlayground } from '@/components/open-in-playground';
import { LoadError, Loading, ErrorMessage } from '@/components/status';
import { WordDiff } from '@/components/text';
import { showToast, showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { formatCompactNumber, formatDollars } from '@/lib/format';
import { safeProse } from '@/lib/safe-text';
import { formatMilliseconds } from '@/pages/traces/detail/timeline';
import { ScoreCard } from './badges';
import {
  testsetQuery,
  type Evaluation,
  resultQuery,
  resultPagesQuery,
  type Result,
  type ScriptTurn,
  isFiltered,
  type ResultsQuery,
} from './queries';
import {
  hasScript,
  rowNumber,
  wholeConversation,
  ConversationView,
  turnChecks,
  type Check as TurnCheck,
  ValueView,
} from './result-values';

interface ResultDetailProps {
  evaluation: Evaluation;
  query: ResultsQuery;
  cell: string;
  onCell: (cell: string) => void;
  onClose: () => void;
}

export function ResultDetail({ evaluation, query, cell, onCell, onClose }: ResultDetailProps): ReactNode {
  const { data, error, isPlaceholderData, refetch } = useQuery({
    ...resultQuery(evaluation.id, cell),
    placeholderData: keepPreviousData,
  });
  const filteredNeighbours = useNeighbours(evaluation.id, query, cell);
  const { previous, next } = filteredNeighbours ?? { previous: data?.previous, next: data?.next };
  const goTo = (target: string | null | undefined) => target && onCell(target);
  const onKey = (event: KeyboardEvent<HTMLElement>) => {
    if (
      event.altKey ||
      event.ctrlKey ||
      event.metaKey ||
      (event.target as Element).closest('input, textarea, select, [contenteditable]')
    )
      return;
    if (event.key === 'ArrowLeft' || event.key === 'k') goTo(previous);
    if (event.key === 'ArrowRight' || event.key === 'j') goTo(next);
  };
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/30" />
        <Dialog.Content
          aria-describedby={undefined}
          tabIndex={-1}
          // Don't focus the first button: arrow keys move between cells.
          onOpenAutoFocus={(event) => {
            event.preventDefault();
            (event.currentTarget as HTMLElement).focus();
          }}
          onCloseAutoFocus={focusResultRow}
          onKeyDown={onKey}
          className={cn(
            '@container fixed inset-y-0 right-0 z-40 flex w-full flex-col border-l',
            'bg-canvas shadow-float outline-none lg:w-[min(76rem,92vw)]',
          )}
        >
          <header className="flex flex-wrap items-center gap-x-2 gap-y-1 border-b bg-surface py-2 pr-12 pl-4">
            <IconButton label="Previous row" keys="←" size="small" disabled={!previous} onClick={() => goTo(previous)}>
              <ChevronLeft />
            </IconButton>
            <IconButton label="Next row" keys="→" size="small" disabled={!next} onClick={() => goTo(next)}>
              <ChevronRight />
            </IconButton>
            <Dialog.Title className="font-semibold">Row {rowNumber(cell, evaluation)}</Dialog.Title>
            {data && <SameRowLinks evaluation={evaluation} result={data} onCell={onCell} />}
            <span className="grow" />
            {data && <ResultActions evaluation={evaluation} result={data} />}
            <IconButton label="Close" onClick={onClose} className="absolute top-2 right-3">
              <X />
            </IconButton>
          </header>
          <div
            aria-busy={isPlaceholderData}
            className={cn('min-h-0 grow overflow-y-auto', isPlaceholderData && 'opacity-60')}
          >
            {error && (
              <LoadError
                error={isNotFound(error) ? 'This cell has no result yet.' : error}
                onRetry={refetch}
                className="p-4"
              />
            )}
            {!data && !error && <Loading className="p-6" />}
            {data && !error && <Body key={data.id} evaluation={evaluation} result={data} />}
          </div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** Neighbours within the filtered results; null if unfiltered or not among them. */
function useNeighbours(
  id: string,
  query: ResultsQuery,
  cell: string,
): { previous: string | undefined; next: string | undefined } | null {
  const { data, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery(resultPagesQuery(id, query));
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  const position = isFiltered(query) ? rows.findIndex((row) => row.id === cell) : -1;
  const isLast = position >= 0 && position === rows.length - 1;
  useEffect(() => {
    if (isLast && hasNextPage && !isFetching) void fetchNextPage();
  }, [isLast, hasNextPage, isFetching, fetchNextPage]);
  return position < 0 ? null : { previous: rows[position - 1]?.id, next: rows[position + 1]?.id };
}

/** Move the focus back to the row in the table of results. */
function focusResultRow(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>('[role=grid] [data-place][tabindex="0"]')?.focus({ preventScroll: true });
}

const isNotFound = (error: Error): boolean => error instanceof ApiError && error.status === 404;

/** The same row of other variants and repeats. */
function SameRowLinks({
  evaluation,
  result,
  onCell,
}: {
  evaluation: Evaluation;
  result: Result;
  onCell: (cell: string) => void;
}): ReactNode {
  const tab = (label: string, cell: string, isCurrent: boolean) => (
    <button
      key={cell}
      type="button"
      aria-pressed={isCurrent}
      dir="auto"
      onClick={() => onCell(cell)}
      className={cn(
        'h-6 max-w-48 truncate rounded-md px-2 text-[13px]',
        isCurrent ? 'bg-accent-soft font-medium text-accent' : 'text-muted hover:bg-sunken',
      )}
    >
      {safeProse(label)}
    </button>
  );
  return (
    <>
      <span role="group" aria-label="Variants" className="flex min-w-0 flex-wrap gap-0.5">
        {evaluation.variants.map(({ name }) => tab(name, result.others[name] ?? '', name === result.variant))}
      </span>
      {result.repeats.length > 1 && (
        <span role="group" aria-label="Repeats" className="flex min-w-0 flex-wrap gap-0.5 border-l pl-2">
          {result.repeats.map((cell, index) => tab(String(index + 1), cell, index === result.repeat))}
        </span>
      )}
    </>
  );
}

function ResultActions({ evaluation, result }: { evaluation: Evaluation; result: Result }): ReactNode {
  const { open: openInPlayground, busy, workflowDialog } = useOpenInPlayground();
  const variant = evaluation.variants.find(({ name }) => name === result.variant);
  const open = () =>
    openInPlayground(
      () =>
        Promise.resolve({
          workflow: variant?.workflow ?? null,
          messages: result.is_chat ? wholeConversation(result) : [],
          inputs: result.inputs,
          parameters: variant?.parameters ?? {},
          tools: [],
        }),
      result.id,
    ).catch(showError);
  return (
    <>
      {result.trace_id && (
        <Link
          href={`/traces/${result.trace_id}`}
          className={cn(
            'inline-flex h-7 items-center gap-1.5 rounded-lg px-2',
            'text-[13px] text-muted hover:bg-sunken hover:text-ink',
          )}
        >
          <ListTree aria-hidden className="size-3.5" />
          Trace
        </Link>
      )}
      {result.status === 'done' && !hasScript(result) && (
        <Button size="small" variant="quiet" onClick={() => void acceptAnswer(evaluation, result).catch(showError)}>
          <BadgeCheck aria-hidden className="size-3.5" />
          Accept answer
        </Button>
      )}
      {variant?.workflow && (
        <Button size="small" variant="quiet" disabled={busy} onClick={() => void open()}>
          <MessageSquareShare aria-hidden className="size-3.5" />
          Open in playground
        </Button>
      )}
      {workflowDialog}
    </>
  );
}

/** Save the answer as the expected value in a new revision of the test set. */
async function acceptAnswer({ id, testset }: Evaluation, result: Result): Promise<void> {
  const confirmed = await askConfirmation({
    title: 'Accept this answer?',
    text:
      `It becomes the expected answer of this row in a new revision of ${testset.name}.` +
      ' This evaluation does not change.',
    act: 'Accept',
  });
  if (!confirmed) return;
  const { head } = await queryClient.fetchQuery({ ...testsetQuery(testset.id), staleTime: 0 });
  const created = await api('post', '/api/testsets/{testset}/rows/from', {
    path: { testset: testset.id },
    body: { base: head, source: { kind: 'result', run: id, result: result.id }, message: 'Accepted an answer' },
  });
  showToast(
    created.unchanged
      ? 'This is already the expected answer.'
      : `Saved as the expected answer in revision ${created.revision} of ${testset.name}.`,
  );
}

function Body({ evaluation, result }: { evaluation: Evaluation; result: Result }): ReactNode {
  const isScript = hasScript(result);
  const inputCount = Object.keys(result.inputs).length;
  return (
    <div className="flex flex-col gap-4 px-4 py-4">
      <Facts result={result} />
      {result.error && <ErrorMessage error={`${result.error.message} (${result.error.code})`} />}
      {!isScript && result.history.length > 0 && (
        <section aria-label="Input" className="min-w-0">
          <h3 className="mb-1 text-[13px] font-medium text-muted">Input</h3>
          <div className="max-h-[45dvh] overflow-y-auto rounded-xl border bg-surface p-3">
            <ConversationView messages={result.history} label="Input messages" />
          </div>
        </section>
      )}
      {inputCount > 0 && (
        <CollapsibleSection title="Inputs" count={inputCount} open={result.history.length === 0}>
          <JsonBox value={result.inputs} />
        </CollapsibleSection>
      )}
      <SideBySide evaluation={evaluation} result={result} isScript={isScript} />
      <section aria-label="Scores" className="min-w-0">
        <h3 className="mb-1 text-[13px] font-medium text-muted">Scores</h3>
        {result.scores.length === 0 && <p className="text-faint">Not scored.</p>}
        <div className="grid items-start gap-2 @3xl:grid-cols-2">
          {result.scores.map((score) => (
            <ScoreCard key={score.evaluator} score={score} />
          ))}
        </div>
      </section>
    </div>
  );
}

function Facts({ result }: { result: Result }): ReactNode {
  const { input_tokens: inputTokens, output_tokens: outputTokens } = (result.usage ?? {}) as {
    input_tokens?: number;
    output_tokens?: number;
  };
  const facts = [
    result.latency_seconds !== null && formatMilliseconds(result.latency_seconds * 1000),
    result.first_output_seconds !== null &&
      `first output after ${formatMilliseconds(result.first_output_seconds * 1000)}`,
    (inputTokens !== undefined || outputTokens !== undefined) &&
      `${formatCompactNumber((inputTokens ?? 0) + (outputTokens ?? 0))} tokens`,
    result.cost !== null && formatDollars(result.cost),
    result.finish && result.finish !== 'stop' && `finish reason: ${result.finish}`,
    result.attempts > 1 && `${result.attempts} attempts`,
    ...(result.notes ?? []).map((note) => NOTES[note] ?? note),
  ].filter(Boolean);
  return facts.length > 0 && <p className="text-xs text-muted tabular-nums">{facts.join(' · ')}</p>;
}

const NOTES: Readonly<Record<string, string>> = {
  no_text: 'tool calls only',
  empty: 'empty answer',
  refusal: 'refused',
  data_only: 'data only',
};

interface SideBySideProps {
  evaluation: Evaluation;
  result: Result;
  isScript: boolean;
}

/** Expected and actual output side by side; a script turn by turn with its checks. */
export function SideBySide({ evaluation, result, isScript }: SideBySideProps): ReactNode {
  const hasExpected = Object.hasOwn(result, 'expected');
  const hasToolEvaluator = evaluation.evaluators.some(({ key }) => key.startsWith('tool_'));
  if (isScript) return <Script result={result} />;
  return (
    <>
      <div className="grid items-start gap-3 @3xl:grid-cols-2">
        <Pane title="Expected">
          {hasExpected ? (
            <ValueView value={result.expected} label="Expected messages" namesAreCalls={hasToolEvaluator} />
          ) : (
            <p className="text-faint">No expected answer.</p>
          )}
        </Pane>
        <Pane title="Output">
          <Answer result={result} />
        </Pane>
      </div>
      {typeof result.expected === 'string' && result.text && result.text !== result.expected && (
        <CollapsibleSection title="Word-by-word diff">
          <AnswerDiff from={result.expected} to={result.text} />
        </CollapsibleSection>
      )}
    </>
  );
}

function Pane({ title, children }: { title: string; children: ReactNode }): ReactNode {
  return (
    <section aria-label={title} className="flex min-w-0 flex-col">
      <h3 className="mb-1 text-[13px] font-medium text-muted">{title}</h3>
      <div className="max-h-[70dvh] min-h-16 overflow-y-auto rounded-xl border bg-surface p-3">{children}</div>
    </section>
  );
}

function Answer({ result }: { result: Pick<Result, 'messages' | 'value' | 'text' | 'status'> }): ReactNode {
  if (result.messages.length > 0) return <ConversationView messages={result.messages} label="Output messages" />;
  if (Object.hasOwn(result, 'value')) return <ValueView value={result.value} label="Output messages" />;
  return <p className="text-faint">{result.text || (result.status === 'failed' ? 'No answer.' : 'Empty answer.')}</p>;
}

function Script({ result }: { result: Result }): ReactNode {
  const checks = useMemo(() => turnChecks(result), [result]);
  return (
    <section aria-label="Turns" className="flex min-w-0 flex-col gap-3">
      {result.turns.map((turn, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- turns have no ids
        <TurnSection key={index} turn={turn} index={index} checks={checks[index] ?? []} />
      ))}
    </section>
  );
}

function TurnSection({
  turn,
  index,
  checks,
}: {
  turn: ScriptTurn;
  index: number;
  checks: readonly TurnCheck[];
}): ReactNode {
  const messages = useMemo(() => [...(turn.user ? [turn.user] : []), ...(turn.messages ?? [])], [turn]);
  const failedCount = checks.filter(({ passed }) => !passed).length;
  return (
    <section aria-label={`Turn ${index + 1}`} className="min-w-0 rounded-xl border bg-surface">
      <h3 className="flex flex-wrap items-center gap-2 border-b px-3 py-1.5 text-[13px] font-medium">
        Turn {index + 1}
        {checks.length > 0 && (
          <span className={failedCount ? 'text-bad' : 'text-good'}>
            {failedCount ? `${failedCount} of ${checks.length} checks failed` : 'all checks passed'}
          </span>
        )}
        {turn.reached === false && <span className="text-warn">not reached</span>}
        <span className="grow" />
        {typeof turn.latency_seconds === 'number' && turn.reached !== false && (
          <span className="font-normal text-muted tabular-nums">{formatMilliseconds(turn.latency_seconds * 1000)}</span>
        )}
      </h3>
      <div className="grid items-start gap-3 p-3 @3xl:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]">
        <div className="min-w-0">
          <h4 className="mb-1 text-xs text-muted">Expected</h4>
          <Expectations expect={turn.expect} checks={checks} />
        </div>
        <div className="min-w-0">
          <h4 className="mb-1 text-xs text-muted">Output</h4>
          {messages.length > 0 ? (
            <ConversationView messages={messages} label={`Messages of turn ${index + 1}`} />
          ) : (
            <p className="text-faint">No messages.</p>
          )}
        </div>
      </div>
    </section>
  );
}

/** Each check with its expectation and failure reason. */
function Expectations({ expect, checks }: { expect: unknown; checks: readonly TurnCheck[] }): ReactNode {
  const expectation = isObject(expect) ? expect : {};
  if (checks.length === 0)
    return Object.keys(expectation).length > 0 ? (
      <JsonBox value={expectation} />
    ) : (
      <p className="text-faint">No expectations.</p>
    );
  return (
    <ul className="flex flex-col gap-2">
      {checks.map(({ name, passed, reason }) => (
        <li key={name} className="flex min-w-0 items-start gap-2">
          <span
            role="img"
            aria-label={passed ? 'passed' : 'failed'}
            className={cn('mt-0.5 shrink-0 [&>svg]:size-4', passed ? 'text-good' : 'text-bad')}
          >
            {passed ? <Check /> : <X />}
          </span>
          <span className="min-w-0">
            <span className="text-[13px] font-medium">{name}</span>{' '}
            {Object.hasOwn(expectation, name) && (
              <span className="font-mono text-xs wrap-anywhere text-muted">
                {safeProse(JSON.stringify(expectation[name]) ?? '').slice(0, 500)}
              </span>
            )}
            {reason && (
              <span dir="auto" className="block text-[13px] wrap-anywhere text-bad">
                {safeProse(reason)}
              </span>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** Diff from expected to actual. */
function AnswerDiff({ from, to }: { from: string; to: string }): ReactNode {
  return (
    <p dir="auto" className="rounded-xl border bg-surface p-3 wrap-anywhere whitespace-pre-wrap">
      <WordDiff from={from} to={to} />
    </p>
  );
}
