/** One cell: what was asked, what was expected beside what came, and what every evaluator says of it. */
import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { BadgeCheck, ChevronLeft, ChevronRight, ListTree, MessageSquareShare, X } from 'lucide-react';
import { Dialog } from 'radix-ui';
import { useEffect, type KeyboardEvent, type ReactNode } from 'react';
import { Link } from 'wouter';
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { testsetNamed, type Evaluation } from '@/evaluations/queries';
import { ScoreCard } from '@/evaluations/score-badge';
import { classes } from '@/lib/class-names';
import { formatCompactNumber, formatDollars } from '@/lib/format';
import { prose } from '@/lib/safe-text';
import { useGoOn } from '@/components/open-in-playground';
import { JsonBox } from '@/components/json-view';
import { Section } from '@/components/collapsible';
import { lasted } from '@/trace/time';
import { askYes } from '@/components/confirm-dialog';
import { Problem, Spinner } from '@/components/status';
import { Button, IconButton } from '@/components/button';
import { tell, tellError } from '@/components/toast';
import { isFiltered, type Asked } from './asked';
import { result as resultOf, resultPages, type Result } from './queries';
import { SideBySide } from './side-by-side';
import { isScripted, rowOf, wholeTalk } from './sides';
import { Talk } from './talk';

interface Props {
  evaluation: Evaluation;
  asked: Asked;
  cell: string;
  onCell: (cell: string) => void;
  onClose: () => void;
}

export function Drill({ evaluation, asked, cell, onCell, onClose }: Props): ReactNode {
  const { data, error, isPlaceholderData, refetch } = useQuery({ ...resultOf(evaluation.id, cell), placeholderData: keepPreviousData });
  const filtered = useNeighbours(evaluation.id, asked, cell);
  const { previous, next } = filtered ?? { previous: data?.previous, next: data?.next };
  const step = (to: string | null | undefined) => to && onCell(to);
  const onKey = (event: KeyboardEvent<HTMLElement>) => {
    if (event.altKey || event.ctrlKey || event.metaKey || (event.target as Element).closest('input, textarea, select, [contenteditable]')) return;
    if (event.key === 'ArrowLeft' || event.key === 'k') step(previous);
    if (event.key === 'ArrowRight' || event.key === 'j') step(next);
  };
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/30" />
        <Dialog.Content
          aria-describedby={undefined}
          tabIndex={-1}
          // Not the first button: arrows lead from cell to cell.
          onOpenAutoFocus={(event) => { event.preventDefault(); (event.currentTarget as HTMLElement).focus(); }}
          onCloseAutoFocus={backToRow}
          onKeyDown={onKey}
          className="@container fixed inset-y-0 right-0 z-40 flex w-full flex-col border-l bg-canvas shadow-float outline-none lg:w-[min(76rem,92vw)]"
        >
          <header className="flex flex-wrap items-center gap-x-2 gap-y-1 border-b bg-surface py-2 pr-12 pl-4">
            <IconButton label="Previous row" keys="←" size="small" disabled={!previous} onClick={() => step(previous)}><ChevronLeft /></IconButton>
            <IconButton label="Next row" keys="→" size="small" disabled={!next} onClick={() => step(next)}><ChevronRight /></IconButton>
            <Dialog.Title className="font-semibold">Row {rowOf(cell, evaluation)}</Dialog.Title>
            {data && <Beside evaluation={evaluation} result={data} onCell={onCell} />}
            <span className="grow" />
            {data && <Ways evaluation={evaluation} result={data} />}
            <IconButton label="Close" onClick={onClose} className="!absolute top-2 right-3"><X /></IconButton>
          </header>
          <div aria-busy={isPlaceholderData} className={classes('min-h-0 grow overflow-y-auto', isPlaceholderData && 'opacity-60')}>
            {error && <div className="p-4"><Problem error={isMissing(error) ? 'This cell has no result yet.' : error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem></div>}
            {!data && !error && <div className="p-6"><Spinner /></div>}
            {data && !error && <Body key={data.id} evaluation={evaluation} result={data} />}
          </div>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

/** Who looks at some results only goes from one of these to the next; null: all rows are meant, or it is none of these. */
function useNeighbours(id: string, asked: Asked, cell: string): { previous: string | undefined; next: string | undefined } | null {
  const { data, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery(resultPages(id, asked));
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  const place = isFiltered(asked) ? rows.findIndex((row) => row.id === cell) : -1;
  const isLast = place >= 0 && place === rows.length - 1;
  useEffect(() => {
    if (isLast && hasNextPage && !isFetching) void fetchNextPage();
  }, [isLast, hasNextPage, isFetching, fetchNextPage]);
  return place < 0 ? null : { previous: rows[place - 1]?.id, next: rows[place + 1]?.id };
}

/** Where one came from: the row that the keyboard is at. */
function backToRow(event: Event): void {
  event.preventDefault();
  document.querySelector<HTMLElement>('[role=grid] [data-place][tabindex="0"]')?.focus({ preventScroll: true });
}

const isMissing = (error: Error): boolean => error instanceof ApiError && error.status === 404;

/** The same row elsewhere: answered by other variants, or once more. */
function Beside({ evaluation, result, onCell }: { evaluation: Evaluation; result: Result; onCell: (cell: string) => void }): ReactNode {
  const tab = (label: string, cell: string, here: boolean) => (
    <button key={cell} type="button" aria-pressed={here} dir="auto" onClick={() => onCell(cell)} className={classes('h-6 max-w-48 truncate rounded-md px-2 text-[13px]', here ? 'bg-accent-soft font-medium text-accent' : 'text-muted hover:bg-sunken')}>{prose(label)}</button>
  );
  return (
    <>
      <span role="group" aria-label="Variants" className="flex min-w-0 flex-wrap gap-0.5">
        {evaluation.variants.map(({ name }) => tab(name, result.others[name] ?? '', name === result.variant))}
      </span>
      {result.repeats.length > 1 && (
        <span role="group" aria-label="Repeats" className="flex min-w-0 flex-wrap gap-0.5 border-l pl-2">
          {result.repeats.map((cell, place) => tab(String(place + 1), cell, place === result.repeat))}
        </span>
      )}
    </>
  );
}

function Ways({ evaluation, result }: { evaluation: Evaluation; result: Result }): ReactNode {
  const { goOn, busy, question } = useGoOn();
  const variant = evaluation.variants.find(({ name }) => name === result.variant);
  const open = () =>
    goOn(() => Promise.resolve({ workflow: variant?.workflow ?? null, messages: result.is_chat ? wholeTalk(result) : [], inputs: result.inputs, parameters: variant?.parameters ?? {}, tools: [] }), result.id).catch(tellError);
  return (
    <>
      {result.trace_id && (
        <Link href={`/traces/${result.trace_id}`} className="inline-flex h-7 items-center gap-1.5 rounded-lg px-2 text-[13px] text-muted hover:bg-sunken hover:text-ink"><ListTree aria-hidden className="size-3.5" />Trace</Link>
      )}
      {result.status === 'done' && !isScripted(result) && <Button size="small" look="quiet" onClick={() => void accept(evaluation, result).catch(tellError)}><BadgeCheck aria-hidden className="size-3.5" />Accept this answer</Button>}
      {variant?.workflow && <Button size="small" look="quiet" disabled={busy} onClick={() => void open()}><MessageSquareShare aria-hidden className="size-3.5" />Open in playground</Button>}
      {question}
    </>
  );
}

/** From the next revision of the test set on, this is what the row expects. */
async function accept({ id, testset }: Evaluation, result: Result): Promise<void> {
  const yes = await askYes({ title: 'Accept this answer?', text: `A new revision of ${testset.name} expects it in this row. This evaluation stays as it is.`, act: 'Accept' });
  if (!yes) return;
  const { head } = await queryClient.fetchQuery({ ...testsetNamed(testset.id), staleTime: 0 });
  const made = await api('post', '/api/testsets/{testset}/rows/from', { path: { testset: testset.id }, body: { base: head, source: { kind: 'result', run: id, result: result.id }, message: 'An answer was accepted' } });
  tell(made.unchanged ? 'The row expects this already.' : `Revision ${made.revision} of ${testset.name} expects it.`);
}

function Body({ evaluation, result }: { evaluation: Evaluation; result: Result }): ReactNode {
  const isScript = isScripted(result);
  const given = Object.keys(result.inputs).length;
  return (
    <div className="flex flex-col gap-4 px-4 py-4">
      <Facts result={result} />
      {result.error && <Problem error={`${result.error.message} (${result.error.code})`} />}
      {!isScript && result.history.length > 0 && (
        <section aria-label="Asked" className="min-w-0">
          <h3 className="mb-1 text-[13px] font-medium text-muted">Asked</h3>
          <div className="max-h-[45dvh] overflow-y-auto rounded-xl border bg-surface p-3"><Talk messages={result.history} label="What was sent" /></div>
        </section>
      )}
      {given > 0 && <Section title="Inputs" count={given} open={result.history.length === 0}><JsonBox value={result.inputs} /></Section>}
      <SideBySide evaluation={evaluation} result={result} isScript={isScript} />
      <section aria-label="Scores" className="min-w-0">
        <h3 className="mb-1 text-[13px] font-medium text-muted">Scores</h3>
        {result.scores.length === 0 && <p className="text-faint">No evaluator saw it.</p>}
        <div className="grid items-start gap-2 @3xl:grid-cols-2">
          {result.scores.map((score) => <ScoreCard key={score.evaluator} score={score} />)}
        </div>
      </section>
    </div>
  );
}

function Facts({ result }: { result: Result }): ReactNode {
  const { input_tokens: given, output_tokens: made } = (result.usage ?? {}) as { input_tokens?: number; output_tokens?: number };
  const facts = [
    result.latency_seconds !== null && lasted(result.latency_seconds * 1000),
    result.first_output_seconds !== null && `first words after ${lasted(result.first_output_seconds * 1000)}`,
    (given !== undefined || made !== undefined) && `${formatCompactNumber((given ?? 0) + (made ?? 0))} tokens`,
    result.cost !== null && formatDollars(result.cost),
    result.finish && result.finish !== 'stop' && `ended by ${result.finish}`,
    result.attempts > 1 && `${result.attempts} attempts`,
    ...(result.notes ?? []).map((note) => NOTES[note] ?? note),
  ].filter(Boolean);
  return facts.length > 0 && <p className="text-xs text-muted tabular-nums">{facts.join(' · ')}</p>;
}

const NOTES: Readonly<Record<string, string>> = { no_text: 'calls, but no text', empty: 'an empty answer', refusal: 'refused', data_only: 'data, but no text' };
